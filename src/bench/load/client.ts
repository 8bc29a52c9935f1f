// Sends requests, reads their responses to the end, and measures times. Each thread has one client, which keeps
// connections open between requests.

import { Agent, request as httpRequest } from 'node:http';
import type { ClientRequest, IncomingMessage, RequestOptions } from 'node:http';
import { Agent as SecureAgent, request as httpsRequest } from 'node:https';
import { newAnswer, wordsOf } from './dialects/dialect.js';
import type { Answer, DialectRules, Question, WireError } from './dialects/dialect.js';
import { SseParser } from '../../shared/sse-parser.js';
import { utf8Chunks } from '../../shared/utf8-chunks.js';
import type { ErrorKind, RequestRecord, Target, Dialect } from './types.js';
import { chat } from './dialects/chat.js';
import { completions } from './dialects/completions.js';
import { responses } from './dialects/responses.js';

/** In characters. */
const LONGEST_EVENT = 64 * 1024 * 1024;
/** Maximum number of bytes of an error response that are kept. */
const LONGEST_REFUSAL = 64 * 1024;
const LONGEST_MESSAGE = 300;

const rulesOf = (dialect: Dialect): DialectRules => ({ chat, completions, responses })[dialect];

/** The response to one request, with its measurements on the client's clock. */
export type Asked = Pick<RequestRecord, 'sent' | 'headers' | 'firstToken' | 'end' | 'gaps' | 'status' | 'error'> & {
  readonly answer: Answer;
};

/** Why a request failed. */
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
  /** Callbacks that abort the running requests. */
  readonly #running = new Set<(failure: Failure) => void>();
  #closed = false;

  /** `now` returns milliseconds since an arbitrary origin. */
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

  /** The request body, which is prepared before the request is due. */
  write(question: Question): Buffer {
    return Buffer.from(JSON.stringify(this.#rules.body(this.target, question)));
  }

  /** Never rejects. A failure is part of the result. */
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

  /** Ends running requests as `cancelled`. No further requests can be sent. */
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
        // The server had closed the idle connection before it received the request.
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
      // Settles before destroying the request, so that later socket errors are ignored.
      const fail = (failure: Failure): void => {
        settle(failure);
        request.destroy();
      };
      const timer = setTimeout(
        () => fail(new Failure('timeout', `not complete within ${this.target.timeoutMs} ms`)),
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
    // Event names are ignored, because every dialect also puts the event's type in its data.
    const events = new SseParser({
      maxLength: LONGEST_EVENT,
      tooLong: () => new Error(`a line of more than ${LONGEST_EVENT} bytes`),
      decode: utf8Chunks(),
      onEvent: ({ data }) => {
        if (!this.#rules.take(answer, data)) return;
        const at = this.now();
        if (timing.firstToken === null) timing.firstToken = at;
        else timing.gaps.push(at - timing.last);
        timing.last = at;
      },
    });
    const parse = (step: () => void): void => {
      try {
        step();
      } catch (error) {
        fail(
          new Failure('malformed', `invalid event for the ${this.target.dialect} dialect: ${(error as Error).message}`),
        );
      }
    };
    response.on('data', (piece: Buffer) => parse(() => events.push(piece)));
    response.on('end', () => {
      parse(() => events.end(false));
      if (answer.error !== null) settle(new Failure('stream_error', answer.error));
      else if (answer.ended || answer.finish !== null) settle(null);
      else if (timing.firstToken === null)
        settle(new Failure('malformed', `the response has no event of the ${this.target.dialect} dialect`));
      else settle(new Failure('truncated', 'the response was cut off'));
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

/**
 * Returns the error message in a server's response. If there is none, returns the response's text or a message with the
 * status.
 */
export function refusal(text: string, status: number): string {
  try {
    const { error, message } = JSON.parse(text) as { error?: WireError | string; message?: string };
    return wordsOf(error ?? message ?? text);
  } catch {
    return text.trim() === '' ? `the server returned status ${status}` : text.trim();
  }
}
