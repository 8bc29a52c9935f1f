// Queues the events of an upstream's stream. The size of a single event is limited. The data of a long event is read as
// JSON while it arrives (json-reader.ts), so neither its full text nor skipped parts are kept in memory. Event-loop
// thread only.
import { SseParser } from '../../shared/sse-parser.js';
import { utf8Chunks } from '../../shared/utf8-chunks.js';
import type { JsonReader } from './json-reader.js';

/**
 * One event. `name`: null if absent. `data`: the event's data lines, joined. `value`: for a long event, the JSON that
 * was read. `reserved`: number of bytes reserved for it.
 */
export type StreamEvent =
  | { readonly name: string | null; readonly data: string }
  | { readonly name: string | null; readonly value: unknown; readonly reserved: number };

export interface EventLineLimits {
  /** Maximum number of bytes per event. */
  readonly maxBytes: number;
  /** Creates the error for an event above the limit. */
  tooLong(): Error;
  /** Creates a reader for a long event's data. */
  longReader(): JsonReader;
}

/** Event data longer than this many bytes is read while it arrives. */
const LONG = 65_536;

export class EventLines {
  readonly #parser: SseParser;
  readonly #events: StreamEvent[] = [];
  #failure: unknown; // thrown after the last of #events
  #failed = false;

  constructor({ maxBytes, tooLong, longReader }: EventLineLimits) {
    this.#parser = new SseParser({
      maxLength: maxBytes, // every character takes at least one byte
      tooLong,
      decode: utf8Chunks(),
      onEvent: ({ event, data }) => {
        // Some upstreams send events without data as keep-alives.
        if (data.trim() !== '') this.#events.push({ name: nameOf(event), data });
      },
      long: {
        over: LONG,
        open: () => {
          const reader = longReader();
          return {
            text: (part) => reader.push(part),
            end: (event) => {
              this.#events.push({ name: nameOf(event), value: reader.end(), reserved: reader.reserved });
            },
          };
        },
      },
    });
  }

  /**
   * Returns the next complete event. Errors from tooLong() or the long-event reader are thrown after all earlier
   * events.
   */
  next(): StreamEvent | undefined {
    if (this.#failed && this.#events.length === 0) throw this.#failure;
    return this.#events.shift();
  }

  /** The caller may reuse `chunk` afterwards. */
  push(chunk: Buffer): void {
    this.#guarded(() => this.#parser.push(chunk));
  }

  /** Called at the end of the stream. Some upstreams omit the last empty line. */
  end(): void {
    this.#guarded(() => this.#parser.end(true));
  }

  #guarded(work: () => void): void {
    if (this.#failed) return;
    try {
      work();
    } catch (error) {
      this.#failed = true;
      this.#failure = error;
    }
  }
}

function nameOf(event: string): string | null {
  const name = event.trim();
  return name === '' ? null : name;
}
