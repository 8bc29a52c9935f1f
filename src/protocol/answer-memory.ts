// What an answer in the making keeps, counted in http.max_answering_bytes: its text, and the arguments of its calls. Small answers
// cost less than counting them is worth. Event-loop thread only.
import { LARGE_ANSWER_BYTES } from '../http/answer-budget.js';
import type { RunEvent } from './run-tally.js';

/** Bytes of a call in addition to its name and arguments: ids, and the syntax of its format. */
const CALL_BYTES = 256;

export class AnswerMemory {
  #unreserved = 0;

  /** `hold` reserves this many more bytes, or throws ApiError 503, 422. */
  constructor(private readonly hold: (bytes: number) => void) {}

  /** The text and the arguments of the event are kept. Throws what `hold` throws. */
  take(event: RunEvent): void {
    switch (event.type) {
      case 'text':
        return this.add(Buffer.byteLength(event.text));
      case 'call_started':
        return this.add(CALL_BYTES + Buffer.byteLength(event.name));
      case 'call_arguments':
        return this.add(Buffer.byteLength(event.text));
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
