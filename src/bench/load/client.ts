// One request: sent, its answer read to the end and timed. One client per thread; it holds connections and keeps them
// open between requests.

import { Agent, request as httpRequest } from 'node:http';
import type { ClientRequest, IncomingMessage, RequestOptions } from 'node:http';
import { Agent as SecureAgent, request as httpsRequest } from 'node:https';
import { newAnswer, wordsOf } from './dialects/dialect.js';
import type { Answer, DialectRules, Question, WireError } from './dialects/dialect.js';
import { rulesOf } from './dialects/rules.js';
import { EventData } from './event-data.js';
import type { ErrorKind, RequestRecord, Target } from './types.js';

/** Of an answer that is an error. */
const LONGEST_REFUSAL = 64 * 1024;
const LONGEST_MESSAGE = 300;

/** What a record says of one request, by the client's clock, and its answer. */
export type Asked = Pick<RequestRecord, 'sent' | 'headers' | 'firstToken' | 'end' | 'gaps' | 'status' | 'error'> & {
  readonly answer: Answer;
};

/** What has become of a request that is not answered. */
class Failure extends Error {
  constructor(
    readonly kind: ErrorKind,
    message: string,
  ) {
    super(message.slice(0, LONGEST_MESSAGE));
  }
}

export class LoadClient {
  readonly #rules: DialectRules;
  readonly #send: (options: RequestOptions) => ClientRequest;
  readonly #options: RequestOptions;
  readonly #agent: Agent;
  /** What ends each request under way. */
  readonly #running = new Set<(failure: Failure) => void>();
  #closed = false;

  /** `now`: milliseconds of any origin. */
  constructor(
    private readonly target: Target,
    private readonly now: () => number,
  ) {
    this.#rules = rulesOf(target.dialect);
    const url = new URL(`${target.url.replace(/\/+$/, '')}${this.#rules.path}`);
    const isSecure = url.protocol === 'https:';
    const pooled = { keepAlive: true, noDelay: true, maxSockets: Infinity, maxFreeSockets: Infinity };
    this.#agent = isSecure ? new SecureAgent(pooled) : new Agent(pooled);
    this.#send = isSecure ? httpsRequest : httpRequest;
    this.#options = {
      method: 'POST',
      protocol: url.protocol,
      hostname: url.hostname.replace(/^\[|\]$/g, ''),
      port: url.port,
      path: url.pathname + url.search,
      agent: this.#agent,
      headers: { 'content-type': 'application/json', accept: 'text/event-stream', ...target.headers },
    };
  }

  /** The body of a question, to be made before its time has come. */
  write(question: Question): Buffer {
    return Buffer.from(JSON.stringify(this.#rules.body(this.target, question)));
  }

  /** Never rejects: what went wrong is in what it resolves to. */
  async ask(body: Buffer): Promise<Asked> {
    const timing: Timing = { sent: this.now(), headers: null, firstToken: null, last: 0, gaps: [], status: null };
    const answer = newAnswer();
    let error: Asked['error'] = null;
    try {
      await this.#exchange(body, timing, answer);
    } catch (thrown) {
      const { kind, message } =
        thrown instanceof Failure ? thrown : new Failure('connection', String((thrown as Error).message));
      error = { kind, message };
    }
    const { sent, headers, firstToken, gaps, status } = timing;
    return { sent, headers, firstToken, gaps: Float32Array.from(gaps), status, error, answer, end: this.now() };
  }

  /** What is under way is `cancelled`; nothing more can be asked. */
  close(): void {
    this.#closed = true;
    for (const fail of [...this.#running]) fail(new Failure('cancelled', 'cancelled'));
    this.#agent.destroy();
  }

  async #exchange(body: Buffer, timing: Timing, answer: Answer): Promise<void> {
    for (let tries = 0; ; tries++) {
      if (this.#closed) throw new Failure('cancelled', 'cancelled');
      const request = this.#send(this.#options);
      try {
        await this.#once(request, body, timing, answer);
        return;
      } catch (thrown) {
        // The server had closed a connection that lay idle: nobody has seen the request.
        const lost =
          request.reusedSocket &&
          timing.headers === null &&
          ['ECONNRESET', 'EPIPE'].includes((thrown as NodeJS.ErrnoException).code ?? '');
        if (!lost || tries > 0) throw thrown;
      }
    }
  }

  #once(request: ClientRequest, body: Buffer, timing: Timing, answer: Answer): Promise<void> {
    return new Promise((resolve, reject) => {
      const settle = (failure: Error | null): void => {
        clearTimeout(timer);
        this.#running.delete(fail);
        if (failure === null) resolve();
        else reject(failure);
      };
      // Settled first: what the socket says of its end comes later and is nobody's.
      const fail = (failure: Failure): void => {
        settle(failure);
        request.destroy();
      };
      const timer = setTimeout(
        () => fail(new Failure('timeout', `no end within ${this.target.timeoutMs} ms`)),
        this.target.timeoutMs,
      );
      this.#running.add(fail);
      request.on('error', settle);
      request.on('response', (response) => {
        timing.headers = this.now();
        timing.status = response.statusCode ?? 0;
        response.on('error', (error) => settle(new Failure('truncated', error.message)));
        if (timing.status >= 400) refused(response, timing.status, settle);
        else this.#read(response, timing, answer, settle, fail);
      });
      request.end(body);
    });
  }

  #read(
    response: IncomingMessage,
    timing: Timing,
    answer: Answer,
    settle: (failure: Error | null) => void,
    fail: (failure: Failure) => void,
  ): void {
    const events = new EventData();
    const onData = (data: string): void => {
      if (!this.#rules.take(answer, data)) return;
      const at = this.now();
      if (timing.firstToken === null) timing.firstToken = at;
      else timing.gaps.push(at - timing.last);
      timing.last = at;
    };
    response.on('data', (piece: Buffer) => {
      try {
        events.take(piece, onData);
      } catch (error) {
        fail(
          new Failure(
            'malformed',
            `an event is not of the ${this.target.dialect} dialect: ${(error as Error).message}`,
          ),
        );
      }
    });
    response.on('end', () => {
      if (answer.error !== null) settle(new Failure('stream_error', answer.error));
      else if (answer.ended || answer.finish !== null) settle(null);
      else if (timing.firstToken === null)
        settle(new Failure('malformed', `the answer has no event of the ${this.target.dialect} dialect`));
      else settle(new Failure('truncated', 'the answer ended before its end'));
    });
  }
}

interface Timing {
  sent: number;
  headers: number | null;
  firstToken: number | null;
  last: number;
  gaps: number[];
  status: number | null;
}

function refused(response: IncomingMessage, status: number, settle: (failure: Error) => void): void {
  const pieces: Buffer[] = [];
  let bytes = 0;
  response.on('data', (piece: Buffer) => {
    if (bytes < LONGEST_REFUSAL) pieces.push(piece);
    bytes += piece.length;
  });
  response.on('end', () =>
    settle(new Failure(`http_${status}`, refusal(Buffer.concat(pieces).toString('utf8'), status))),
  );
}

/** The server's own words, if it has any. */
export function refusal(text: string, status: number): string {
  try {
    const { error, message } = JSON.parse(text) as { error?: WireError | string; message?: string };
    return wordsOf(error ?? message ?? text);
  } catch {
    return text.trim() === '' ? `the server answered ${status}` : text.trim();
  }
}
