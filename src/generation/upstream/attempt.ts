// One request to one upstream server: sends it, reads the response as it arrives, and can abort it. Redirects are not
// followed. Memory holds only the start of an event, the needed parts of a large event or JSON body (json-reader.ts),
// or a bounded part of an error. Large log probabilities are emitted in slices (slices.ts); data that arrives in the
// meantime is queued and counts toward the same memory reservation. Event-loop thread only.
import { StringDecoder } from 'node:string_decoder';
import type { Dispatcher, Pool } from 'undici';
import { parsed, type AnswerReader } from './apis/api.js';
import { EventLines, type StreamEvent } from './event-lines.js';
import {
  brokeOff,
  cannotConnect,
  faultOfStatus,
  MAX_ERROR_BYTES,
  notUnderstood,
  tooMuch,
  type UpstreamFault,
} from './fault.js';
import { GrowingBytes } from './growing-bytes.js';
import { JsonReader } from './json-reader.js';
import { inSlices, measured } from './slices.js';

export interface AttemptOptions {
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
  readonly maxEventBytes: number;
  readonly maxAnswerBytes: number;
  /** Maximum bytes of text and arguments across all choices. */
  readonly maxTextBytes: number;
  readonly logprobs: boolean;
  readonly secrets: readonly string[];
  readonly promptParam: string;
  /** Reserves memory for the retained parts of the response. Throws ApiError 503 or 422. */
  reserve(bytes: number): void;
  free(bytes: number): void;
}

type Mode = 'stream' | 'whole' | 'error';

/** A JSON body that is read as it arrives. */
interface Body {
  readonly reader: JsonReader;
  readonly decoder: StringDecoder;
}

/** Maximum number of bytes that one byte of text takes in JSON, as in \u001f. */
const JSON_EXPANSION = 6;
/**
 * Allowance in bytes for the rest of a response: IDs, usage and calls, and the request, of which some upstreams return
 * two copies.
 */
const FRAME_BYTES = 1 << 20,
  REPEATS = 2;
/**
 * Chunks of at most SMALL_CHUNK bytes are processed without measuring the time, because measuring would cost more than
 * processing.
 */
const SMALL_CHUNK = 4_096,
  LARGE_CHUNK = 65_536;

export class Attempt implements Dispatcher.DispatchHandlers {
  readonly #lines: EventLines;
  readonly #maxJsonBytes: number;
  #mode: Mode = 'stream';
  #status = 0;
  #retryAfter: string | null = null;
  #abort: ((error?: Error) => void) | null = null;
  #connected = false;
  #bytes = 0;
  readonly #error = new GrowingBytes();
  #whole: Body | null = null;
  #work: Iterator<void> | null = null; // emits a large event or body
  #waiting: Buffer[] = []; // received but not read yet
  readonly #smallWaiting = new GrowingBytes(); // small chunks received after #waiting, joined
  #isScheduled = false;
  #complete = false; // everything has arrived
  #isFinal = false; // and has been read
  #broken: UpstreamFault | null = null; // the connection ended while events were waiting
  #over = false;

  /**
   * `ended` is called once: with null after a complete response, otherwise with the error. It is not called after
   * abort().
   */
  constructor(
    private readonly options: AttemptOptions,
    private readonly reader: AnswerReader,
    private readonly ended: (fault: UpstreamFault | Error | null) => void,
  ) {
    this.#maxJsonBytes = JSON_EXPANSION * options.maxTextBytes + FRAME_BYTES + REPEATS * options.body.length;
    this.#lines = new EventLines({
      maxBytes: options.maxEventBytes,
      tooLong: () => notUnderstood('with an event that is too long'),
      longReader: () => this.#jsonReader(),
    });
  }

  send(pool: Pool): void {
    const { path, headers, body } = this.options;
    // A connection is reused only if its response was read to the end; otherwise, it is closed.
    pool.dispatch(
      {
        path,
        method: 'POST',
        headers: { 'content-type': 'application/json', accept: 'text/event-stream', ...headers },
        body,
        headersTimeout: 0,
        bodyTimeout: 0,
      },
      this,
    );
  }

  /** Aborts the request, whose response is no longer needed. */
  abort(): void {
    if (this.#over) return;
    this.#drop();
    this.#abort?.(new Error('given up'));
  }

  onConnect(abort: (error?: Error) => void): void {
    this.#connected = true;
    this.#abort = abort;
    if (this.#over) abort(new Error('given up'));
  }

  onHeaders(status: number, headers: Buffer[]): boolean {
    if (status < 200) return true;
    this.#status = status;
    let type = '',
      encoding = '';
    for (let i = 0; i + 1 < headers.length; i += 2) {
      const name = headers[i]!.toString('latin1').toLowerCase();
      if (name === 'content-type') type = headers[i + 1]!.toString('latin1').toLowerCase();
      else if (name === 'content-encoding') encoding = headers[i + 1]!.toString('latin1').toLowerCase();
      else if (name === 'retry-after') this.#retryAfter = headers[i + 1]!.toString('latin1');
    }
    this.#mode = status >= 300 ? 'error' : type.startsWith('text/event-stream') ? 'stream' : 'whole';
    if (this.#mode === 'whole') this.#whole = { reader: this.#jsonReader(), decoder: new StringDecoder('utf8') };
    if (encoding !== '' && encoding !== 'identity') this.#fail(notUnderstood('with an unexpected content encoding'));
    // A redirect's body is not needed.
    else if (status < 400 && this.#mode === 'error') this.#fail(this.#statusFault());
    return true;
  }

  onData(chunk: Buffer): boolean {
    if (this.#over) return true;
    this.#bytes += chunk.length;
    try {
      if (this.#mode === 'error') this.#errorBody(chunk);
      else if (this.#bytes > this.#maxBytes())
        throw tooMuch('The upstream returned a larger response than is allowed for this request.');
      else if (this.#isBusy) this.#wait(chunk);
      else if (chunk.length > SMALL_CHUNK) measured(() => this.#take(chunk));
      else this.#take(chunk);
    } catch (error) {
      this.#fail(error);
    }
    return true;
  }

  onComplete(): void {
    if (this.#over) return;
    this.#complete = true;
    try {
      if (this.#mode === 'error') throw this.#statusFault();
      if (!this.#isBusy) this.#finish();
    } catch (error) {
      this.#fail(error);
    }
  }

  onError(error: Error): void {
    if (this.#over) return;
    // If the upstream sends an error and then closes the connection, the error takes precedence.
    if (this.#mode === 'error' && this.#status >= 400) return this.#end(this.#statusFault());
    const code = 'code' in error ? error.code : undefined;
    if (code === 'HPE_HEADER_OVERFLOW' || code === 'UND_ERR_HEADERS_OVERFLOW' || String(code).startsWith('HPE_'))
      return this.#end(notUnderstood('with invalid HTTP'));
    if (this.#isBusy) this.#broken = brokeOff();
    else this.#end(this.#connected ? brokeOff() : cannotConnect());
  }

  /** The maximum size of a valid response to this request. A larger response is rejected while it is arriving. */
  #maxBytes(): number {
    const { logprobs, maxAnswerBytes } = this.options;
    return this.#mode === 'whole' && !logprobs ? Math.min(maxAnswerBytes, this.#maxJsonBytes) : maxAnswerBytes;
  }

  #jsonReader(): JsonReader {
    const { logprobs, reserve, free } = this.options;
    return new JsonReader({
      maxBytes: this.#maxJsonBytes,
      logprobs,
      reserve,
      free,
      tooLong: () => tooMuch('The upstream returned a larger response than is allowed for this request.'),
      malformed: () => notUnderstood('with invalid JSON'),
    });
  }

  /** Whether there is received data that has not been read or emitted yet. */
  get #isBusy(): boolean {
    return this.#work !== null || this.#waiting.length > 0 || this.#smallWaiting.length > 0;
  }

  #wait(chunk: Buffer): void {
    this.options.reserve(chunk.length);
    const small = this.#smallWaiting;
    if (chunk.length <= SMALL_CHUNK && small.length < LARGE_CHUNK) small.add(chunk);
    else {
      this.#gatherSmall();
      // The chunk need not be copied, because every read from a socket returns a new buffer.
      this.#waiting.push(chunk);
    }
    this.#schedule();
  }

  #gatherSmall(): void {
    if (this.#smallWaiting.length > 0) this.#waiting.push(this.#smallWaiting.bytes());
    this.#smallWaiting.clear();
  }

  #schedule(): void {
    if (this.#isScheduled) return;
    this.#isScheduled = true;
    inSlices(() => (this.#isScheduled = this.#step()));
  }

  #step(): boolean {
    if (this.#over) return false;
    try {
      if (this.#work !== null) {
        if (this.#work.next().done !== true) return !this.#over;
        this.#work = null;
        if (this.#whole === null) this.#drain();
      } else {
        if (this.#waiting.length === 0) this.#gatherSmall();
        const chunk = this.#waiting.shift();
        if (chunk !== undefined) {
          this.options.free(chunk.length);
          this.#take(chunk);
        }
      }
      if (this.#over) return false;
      if (this.#isBusy) return true;
      if (this.#broken !== null) this.#end(this.#broken);
      else if (this.#complete) this.#finish();
    } catch (error) {
      this.#fail(error);
    }
    return this.#isBusy;
  }

  #take(chunk: Buffer): void {
    if (this.#whole !== null) this.#whole.reader.push(this.#whole.decoder.write(chunk));
    else {
      this.#lines.push(chunk);
      this.#drain();
    }
  }

  /** Reads the received events up to and including the first large one. Throws UpstreamFault. */
  #drain(): void {
    while (!this.#over && this.#work === null) {
      const event = this.#lines.next();
      if (event === undefined) return;
      if ('value' in event) this.#begin(this.#long(event));
      else if (event.data === '[DONE]') this.reader.done();
      else for (const _ of this.reader.event(event.name, parsed(event.data)));
    }
  }

  *#long({ name, value, reserved }: Extract<StreamEvent, { value: unknown }>): Generator<void, void> {
    yield* this.reader.event(name, parsed(value));
    this.options.free(reserved);
  }

  /** Called when all data has arrived and been read. Emits the end of the response. May be called more than once. */
  #finish(): void {
    if (!this.#isFinal) {
      this.#isFinal = true;
      if (this.#whole !== null) {
        const { reader, decoder } = this.#whole;
        reader.push(decoder.end());
        this.#begin(this.reader.whole(reader.end()));
      } else {
        this.#lines.end();
        this.#drain();
      }
      if (this.#over || this.#isBusy) return;
    }
    if (this.#whole === null) this.reader.end();
    this.#end(null);
  }

  /** Emits the response: synchronously if it is short, otherwise in slices. */
  #begin(work: Iterator<void>): void {
    if (work.next().done === true || this.#over) return;
    this.#work = work;
    this.#schedule();
  }

  #errorBody(chunk: Buffer): void {
    this.#error.add(chunk.subarray(0, Math.max(0, MAX_ERROR_BYTES - (this.#bytes - chunk.length))));
    if (this.#bytes >= MAX_ERROR_BYTES) throw this.#statusFault();
  }

  #statusFault(): UpstreamFault {
    const { secrets, promptParam } = this.options;
    return faultOfStatus(
      { status: this.#status, body: this.#error.bytes().toString('utf8'), retryAfter: this.#retryAfter },
      secrets,
      promptParam,
    );
  }

  #fail(error: unknown): void {
    if (this.#over) return;
    this.#end(
      error instanceof SyntaxError
        ? notUnderstood('with invalid JSON')
        : error instanceof Error
          ? error
          : new Error(String(error)),
    );
    this.#abort?.(new Error('given up'));
  }

  #end(fault: UpstreamFault | Error | null): void {
    this.#drop();
    this.ended(fault);
  }

  /** Frees all buffers. */
  #drop(): void {
    this.#over = true;
    this.#error.clear();
    this.#whole = this.#work = null;
    this.#gatherSmall();
    for (const { length } of this.#waiting) this.options.free(length);
    this.#waiting = [];
  }
}
