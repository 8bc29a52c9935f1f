// Streams a stored response's events to a client at the client's reading speed: first the existing events and then,
// while the response is running, new ones. No events are buffered for a slow reader; it is served from the log when it
// can read again. Event-loop thread only.
import { apiError, type ApiError } from '../../shared/errors.js';
import type { EventStream, Exchange, StreamEvent } from '../../http/exchange.js';
import type { StoredEvent } from '../../shared/stored-event.js';
import type { RunningGenerations } from '../running-generations.js';
import type { EventDialect } from './encode-items.js';
import { inDialect, isOfEnd } from './replay.js';

// PAGE: maximum number of events read at a time. AHEAD_BYTES: maximum number of bytes buffered in the socket.
const PAGE = 64;
const AHEAD_BYTES = 262_144;
// How often a slow reader is checked, in ms.
const SLOW_MS = 20;

export interface EventSource {
  /**
   * Returns consecutive events after number `after`, about `atLeast` of them if available, or null if the source is
   * gone. If events were lost, returns no events until the response ends, and then its last events, which contain the
   * full output.
   */
  after(after: number, atLeast: number): Promise<readonly StoredEvent[] | null>;
  /** Whether no more events will be added. */
  readonly ended: boolean;
  /**
   * The response's last events, if they are already known. If the source is deleted, they are needed so that all
   * readers receive the same end.
   */
  readonly end: readonly StoredEvent[];
  /** Calls `wake` when there are more events or the response has ended, until the returned function is called. */
  watch(wake: () => void): () => void;
}

/** A source with a fixed list of events. */
export function eventList(events: readonly StoredEvent[]): EventSource {
  return {
    after: async (after, atLeast) => {
      const begin = events.findIndex(({ sequence }) => sequence > after);
      return begin < 0 ? [] : events.slice(begin, begin + atLeast);
    },
    ended: true,
    end: [],
    watch: () => () => undefined,
  };
}

/**
 * Responds with an event stream that starts after number `after`. The stream stops when the client disconnects, and
 * ends with an error when the client's key is revoked, which `running` detects.
 */
export function sendEvents(
  exchange: Exchange,
  source: EventSource,
  after: number,
  dialect: EventDialect,
  running: Pick<RunningGenerations, 'add'>,
): void {
  void new Sender(exchange, source, after, dialect, running).send();
}

class Sender {
  readonly #stream: EventStream;
  #unwatch: (() => void) | null = null;
  #unlist: (() => void) | null = null;
  #timer: NodeJS.Timeout | NodeJS.Immediate | null = null;
  #over = false;
  #reading = false;
  #woken = false; // wake() was called during a read

  constructor(
    private readonly exchange: Exchange,
    private readonly source: EventSource,
    private last: number,
    private readonly dialect: EventDialect,
    running: Pick<RunningGenerations, 'add'>,
  ) {
    this.#stream = exchange.sse((error) => this.#failure(error));
    this.#unwatch = source.watch(() => {
      if (this.#timer === null) void this.send();
    });
    this.#unlist = running.add(exchange.identity, { stop: (error) => this.#fail(error) });
    exchange.onAborted(() => this.#leave());
  }

  /** Never rejects. */
  async send(): Promise<void> {
    this.#timer = null;
    this.#woken = this.#reading;
    if (this.#over || this.#reading) return;
    this.#reading = true;
    try {
      await this.#sendSome();
    } catch (error) {
      this.#fail(error);
    }
    this.#reading = false;
    if (this.#woken && this.#timer === null) await this.send();
  }

  async #sendSome(): Promise<void> {
    if (this.#stream.bufferedBytes > AHEAD_BYTES) {
      this.#timer = setTimeout(() => void this.send(), SLOW_MS).unref();
      return;
    }
    const { ended } = this.source;
    const events = await this.source.after(this.last, PAGE);
    if (this.#over) return;
    if (events === null) {
      this.#sendEnd();
      return;
    }
    let bytes = 0;
    const [first] = events;
    if (first !== undefined && first.sequence !== this.last + 1 && !(first.sequence > this.last && isOfEnd(first)))
      throw new Error(`events after number ${this.last} are missing`);
    for (const event of events) {
      if (bytes > AHEAD_BYTES) break;
      const { type, data } = inDialect(event, this.dialect);
      this.#stream.send(data, type);
      this.last = event.sequence;
      bytes += data.length;
    }
    if (events.length > 0) {
      this.#timer = setImmediate(() => void this.send()); // lets other work run first
    } else if (ended) {
      this.#done();
    }
  }

  /** Sends the last events when the earlier events are no longer available. */
  #sendEnd(): void {
    const { end } = this.source;
    if (end.length === 0) throw apiError('response_not_found', 'The response was deleted.', 'response_id');
    for (const event of end) if (event.sequence > this.last) this.#stream.send(event.data, event.type);
    this.#done();
  }

  #done(): void {
    this.#leave();
    this.#stream.send('[DONE]');
    this.#stream.end();
  }

  #fail(error: unknown): void {
    if (this.#over) return;
    this.#leave();
    this.exchange.fail(error);
  }

  #leave(): void {
    this.#over = true;
    this.#unwatch?.();
    this.#unlist?.();
    this.#unlist = null;
  }

  *#failure({ type, code, message, param }: ApiError): Generator<StreamEvent> {
    yield {
      event: 'error',
      data: JSON.stringify({
        type: 'error',
        sequence_number: this.last + 1,
        error: { type, code, message, param },
        code,
        message,
        param,
      }),
    };
    yield { data: '[DONE]' };
  }
}
