// One request to one server: sent, read as it comes, given up. Nothing is followed elsewhere, nothing is kept but the
// beginning of a line (of a stream) or a bounded body (of a whole answer, of an error). Event-loop thread only.
import type { Dispatcher, Pool } from 'undici';
import type { AnswerReader } from './apis/api.js';
import { EventLines } from './event-lines.js';
import { brokeOff, cannotConnect, faultOfStatus, MAX_ERROR_BYTES, notUnderstood, UpstreamFault } from './fault.js';

export interface AttemptOptions {
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
  readonly maxEventBytes: number;
  readonly maxAnswerBytes: number;
  readonly secrets: readonly string[];
  readonly promptParam: string;
}

type Mode = 'stream' | 'whole' | 'error';

export class Attempt implements Dispatcher.DispatchHandlers {
  readonly #lines: EventLines;
  #mode: Mode = 'stream';
  #status = 0;
  #retryAfter: string | null = null;
  #abort: ((error?: Error) => void) | null = null;
  #connected = false;
  #bytes = 0;
  #body: Buffer[] = [];
  #over = false;

  /** `ended` is called once: null, the answer is there; else why it is not. Not after give up(). */
  constructor(private readonly options: AttemptOptions, private readonly reader: AnswerReader, private readonly ended: (fault: UpstreamFault | Error | null) => void) {
    this.#lines = new EventLines(options.maxEventBytes, (name, data) => { if (!this.#over) reader.event(name, data); }, () => notUnderstood('with an event that is too long'));
  }

  send(pool: Pool): void {
    const { path, headers, body } = this.options;
    // A connection that was used for an answer read to its end is used again; every other is closed.
    pool.dispatch({ path, method: 'POST', headers: { 'content-type': 'application/json', accept: 'text/event-stream', ...headers }, body, headersTimeout: 0, bodyTimeout: 0 }, this);
  }

  /** Nobody wants it any more. */
  giveUp(): void {
    if (this.#over) return;
    this.#over = true;
    this.#body = [];
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
    let type = '', encoding = '';
    for (let i = 0; i + 1 < headers.length; i += 2) {
      const name = headers[i]!.toString('latin1').toLowerCase();
      if (name === 'content-type') type = headers[i + 1]!.toString('latin1').toLowerCase();
      else if (name === 'content-encoding') encoding = headers[i + 1]!.toString('latin1').toLowerCase();
      else if (name === 'retry-after') this.#retryAfter = headers[i + 1]!.toString('latin1');
    }
    this.#mode = status >= 300 ? 'error' : type.startsWith('text/event-stream') ? 'stream' : 'whole';
    if (encoding !== '' && encoding !== 'identity') this.#fail(notUnderstood('in an encoding that was not asked for'));
    // Nothing of what it says of an elsewhere is wanted.
    else if (status < 400 && this.#mode === 'error') this.#fail(this.#statusFault());
    return true;
  }

  onData(chunk: Buffer): boolean {
    if (this.#over) return true;
    this.#bytes += chunk.length;
    try {
      if (this.#mode === 'error') this.#error(chunk);
      else if (this.#bytes > this.options.maxAnswerBytes) throw notUnderstood('with more than one answer may have');
      else if (this.#mode === 'stream') this.#lines.push(chunk);
      else this.#body.push(Buffer.from(chunk));
    } catch (error) {
      this.#fail(error);
    }
    return true;
  }

  onComplete(): void {
    if (this.#over) return;
    try {
      if (this.#mode === 'error') throw this.#statusFault();
      if (this.#mode === 'whole') this.#whole();
      else {
        this.#lines.end();
        this.reader.end();
      }
    } catch (error) {
      return this.#fail(error);
    }
    this.#end(null);
  }

  onError(error: Error): void {
    if (this.#over) return;
    // A server that says what is wrong and closes the connection has said it.
    if (this.#mode === 'error' && this.#status >= 400) return this.#end(this.#statusFault());
    const code = 'code' in error ? error.code : undefined;
    if (code === 'HPE_HEADER_OVERFLOW' || code === 'UND_ERR_HEADERS_OVERFLOW' || String(code).startsWith('HPE_')) return this.#end(notUnderstood('with what is not HTTP'));
    this.#end(this.#connected ? brokeOff() : cannotConnect());
  }

  #error(chunk: Buffer): void {
    this.#body.push(Buffer.from(chunk.subarray(0, Math.max(0, MAX_ERROR_BYTES - (this.#bytes - chunk.length)))));
    if (this.#bytes >= MAX_ERROR_BYTES) throw this.#statusFault();
  }

  #statusFault(): UpstreamFault {
    const { secrets, promptParam } = this.options;
    return faultOfStatus({ status: this.#status, body: Buffer.concat(this.#body).toString('utf8'), retryAfter: this.#retryAfter }, secrets, promptParam);
  }

  #whole(): void {
    let answer: unknown;
    try {
      answer = JSON.parse(Buffer.concat(this.#body).toString('utf8'));
    } catch {
      throw notUnderstood('with what is not JSON');
    }
    this.reader.whole(answer);
  }

  #fail(error: unknown): void {
    if (this.#over) return;
    this.#end(error instanceof Error ? error : new Error(String(error)));
    this.#abort?.(new Error('given up'));
  }

  #end(fault: UpstreamFault | Error | null): void {
    this.#over = true;
    this.#body = [];
    this.ended(fault);
  }
}
