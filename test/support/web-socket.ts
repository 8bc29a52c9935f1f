// A test's WebSocket connection to /v1/responses: sends requests and reads events.
import { once } from 'node:events';
import type { ClientRequest, IncomingMessage } from 'node:http';
import { WebSocket, type ClientOptions } from 'ws';

export interface WireError {
  type: 'error';
  status: number;
  stream_id?: string;
  error: { type: string; code: string; message: string; param: string | null; headers?: Record<string, string> };
}
export interface WireEvent {
  type: string;
  sequence_number: number;
  stream_id?: string;
  [field: string]: unknown;
}
export type Received = WireEvent | WireError;

const TERMINAL: ReadonlySet<string> = new Set([
  'response.completed',
  'response.incomplete',
  'response.failed',
  'error',
]);

export class Connection {
  readonly #received: Received[] = [];
  #wake: (() => void) | null = null;
  ended = false;
  readonly closed: Promise<[code: number, reason: string]>;

  private constructor(readonly socket: WebSocket) {
    socket.on('message', (data: Buffer) => {
      this.#received.push(JSON.parse(data.toString()) as Received);
      this.#wake?.();
    });
    this.closed = once(socket, 'close').then(([code, reason]) => {
      this.ended = true;
      this.#wake?.();
      return [code as number, String(reason)];
    });
  }

  static async open(server: { port: number; key: string }, options: ClientOptions = {}): Promise<Connection> {
    const socket = new WebSocket(`ws://127.0.0.1:${server.port}/v1/responses`, {
      ...options,
      headers: { authorization: `Bearer ${server.key}`, ...options.headers },
    });
    const connection = new Connection(socket);
    await once(socket, 'open');
    return connection;
  }

  send(message: object | string): void {
    this.socket.send(
      typeof message === 'string' ? message : JSON.stringify({ type: 'response.create', model: 'hal-1.0', ...message }),
    );
  }

  /** Resolves with the next message. Rejects if the connection ends first, or after 20 seconds. */
  async next(): Promise<Received> {
    for (const end = Date.now() + 20_000; this.#received.length === 0; ) {
      if (this.ended || Date.now() > end) throw new Error(this.ended ? 'the connection has ended' : 'no message came');
      await new Promise<void>((resolve) => {
        const timer = setTimeout(resolve, 1_000);
        this.#wake = () => {
          clearTimeout(timer);
          resolve();
        };
      });
    }
    return this.#received.shift() as Received;
  }

  /** Returns every remaining message of the current response. */
  async rest(): Promise<Received[]> {
    const events: Received[] = [];
    do events.push(await this.next());
    while (!TERMINAL.has((events.at(-1) as Received).type));
    return events;
  }

  turn(message: object | string): Promise<Received[]> {
    this.send(message);
    return this.rest();
  }

  /** Sends a request that must be refused with exactly one error message. */
  async refused(message: object | string): Promise<WireError> {
    const [first, ...more] = await this.turn(message);
    if (first?.type !== 'error' || more.length > 0)
      throw new Error(`expected one error message, got ${JSON.stringify(first)}`);
    return first as WireError;
  }

  /** Number of messages that were received but not yet read. */
  get unread(): number {
    return this.#received.length;
  }

  async close(): Promise<void> {
    this.socket.close();
    await this.closed;
  }
}

export interface Resource {
  id: string;
  status: string;
  output: { type: string; content?: { text: string }[] }[];
  previous_response_id: string | null;
  usage: { input_tokens: number; input_tokens_details: { cached_tokens: number } };
  error: { code: string } | null;
  incomplete_details: object | null;
}

/** Returns the response resource in the last event. */
export function resourceOf(events: readonly Received[]): Resource {
  const last = events.at(-1) as WireEvent;
  if (!('response' in last)) throw new Error(`no response in ${JSON.stringify(last)}`);
  return last['response'] as Resource;
}

export function textOf({ output }: Pick<Resource, 'output'>): string {
  return output
    .flatMap(({ type, content }) => (type === 'message' ? (content ?? []).map(({ text }) => text) : []))
    .join('');
}

/** Returns the HTTP status of a refused handshake. */
export async function handshakeStatus(port: number, key: string): Promise<number | undefined> {
  const socket = new WebSocket(`ws://127.0.0.1:${port}/v1/responses`, { headers: { authorization: `Bearer ${key}` } });
  socket.on('error', () => undefined);
  const [request, response] = (await once(socket, 'unexpected-response')) as [ClientRequest, IncomingMessage];
  request.destroy();
  return response.statusCode;
}
