// Reserves memory, counted against http.max_answering_bytes, for the text and tool call arguments of a response under
// construction. Small responses are not counted, because the accounting would cost more than it is worth. Event-loop
// thread only.
import { LARGE_ANSWER_BYTES } from '../http/response-memory-budget.js';
import type { RunEvent } from './run-tally.js';

/** Estimated bytes per tool call on top of its name and arguments: IDs and the format's JSON syntax. */
const CALL_BYTES = 256;

export class AnswerMemory {
  #unreserved = 0;

  /** `hold` reserves the given number of additional bytes, or throws ApiError 503 or 422. */
  constructor(private readonly hold: (bytes: number) => void) {}

  /** Reserves memory for the event's text or arguments. Throws the errors of `hold`. */
  take(event: RunEvent): void {
    switch (event.type) {
      case 'text':
        return this.add(Buffer.byteLength(event.text));
      case 'call_started':
        return this.add(CALL_BYTES + Buffer.byteLength(event.name));
      case 'call_arguments':
        return this.add(Buffer.byteLength(event.text));
      case 'search_finished':
        if ('results' in event.outcome)
          for (const { title, url, content } of event.outcome.results)
            this.add(CALL_BYTES + Buffer.byteLength(title + url + content));
        return;
      case 'mcp_listing_finished':
        if ('tools' in event.listing)
          for (const { name, description, inputSchema, annotations } of event.listing.tools)
            this.add(
              CALL_BYTES + Buffer.byteLength(`${name}${description}${JSON.stringify([inputSchema, annotations])}`),
            );
        return;
      case 'mcp_started':
      case 'mcp_approval':
        return this.add(CALL_BYTES + Buffer.byteLength(event.label + event.name + event.arguments));
      case 'mcp_finished':
        return this.add(2 * Buffer.byteLength(event.outcome.text)); // a failure's text is also part of its error
      default:
    }
  }

  add(bytes: number): void {
    this.#unreserved += bytes;
    if (this.#unreserved < LARGE_ANSWER_BYTES) return;
    this.hold(this.#unreserved);
    this.#unreserved = 0;
  }
}
