// Sends a client the events of a stored response, at the pace it reads them: those there are, then, while the
// response runs, those that come. Nothing is kept for a slow reader; it is served from the log when it is
// ready again. Event-loop thread only.
import { apiError, type ApiError } from '../../shared/errors.js';
import type { EventStream, Exchange, StreamEvent } from '../../http/exchange.js';
import type { StoredEvent } from '../../shared/stored-event.js';
import type { RunningGenerations } from '../running-generations.js';
import type { EventDialect } from './encode-items.js';
import { inDialect, isOfEnd } from './replay.js';

// Read at a time, and handed to the socket before it has taken them.
const PAGE = 64;
const AHEAD_BYTES = 262_144;
// How often a reader who is behind is looked at.
const SLOW_MS = 20;

export interface EventSource {
  /**
   * Events above `after`, each the next one, about `atLeast` of them if there are so many; null if the source is gone. Where
   * some could not be kept, nothing comes until the end is there, and then the end: it has all that they told.
   */
  after(after: number, atLeast: number): Promise<readonly StoredEvent[] | null>;
  /** No event follows those there are. */
  readonly ended: boolean;
  /** The last events, as far as known: for who finds the source gone, since all are to see the same end. */
  readonly end: readonly StoredEvent[];
  /** `wake` is called when there are more, or the end has come; until the returned function is called. */
  watch(wake: () => void): () => void;
}

/** A source of events that are all there. */
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
 * Answers with an event stream; events up to number `after` are left out. It ends when the client leaves, and with an error when the
 * reader's key is revoked: `running` watches that.
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
  #woken = false; // while it read

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
      throw new Error(`events are missing after number ${this.last}`);
    for (const event of events) {
      if (bytes > AHEAD_BYTES) break;
      const { type, data } = inDialect(event, this.dialect);
      this.#stream.send(data, type);
      this.last = event.sequence;
      bytes += data.length;
    }
    if (events.length > 0) {
      this.#timer = setImmediate(() => void this.send()); // others have their turn in between
    } else if (ended) {
      this.#done();
    }
  }

  /** Those before are gone. */
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
