// Clients on every endpoint at once, some of which leave whenever they like: whole, streamed, in the background, on WebSockets,
// in the middle of a body. All of it is drawn from one seed; when what comes about is the machine's.
import { connect } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { WebSocket } from 'ws';
import { randomFrom, type Random } from '../support/random.js';

export interface TrafficOptions {
  server: { url: string; port: number };
  secret: string;
  seed: number;
  /** Of a hundred requests over HTTP, so many are given up. */
  abortPercent: number;
}

export const MODELS = ['hal-1.0', 'clarke-1.0', 'tycho-1.0'] as const;

export class Traffic {
  /** How often what came about. */
  readonly statuses = new Map<string, number>();
  readonly #authorization: string;
  readonly #random: Random;

  constructor(private readonly options: TrafficOptions) {
    this.#authorization = `Bearer ${options.secret}`;
    this.#random = randomFrom(options.seed);
  }

  async run(clients: number, end: number): Promise<void> {
    await Promise.all(Array.from({ length: clients }, async () => {
      while (performance.now() < end) {
        const draw = this.#random.below(6);
        await (draw < 4 ? this.#overHttp() : draw === 4 ? this.#overSocket() : this.#broken());
      }
    }));
  }

  #note(what: string): void {
    this.statuses.set(what, (this.statuses.get(what) ?? 0) + 1);
  }

  #text(): string {
    const { below, pick } = this.#random;
    return `${pick(['A', 'H', 'L', 'L', 'R', 'W', 'E'])}: ${'x'.repeat(below(200))}`;
  }

  #request(): { path: string; body: object } {
    const { below: draw, pick } = this.#random;
    const messages = [{ role: 'user', content: this.#text() }];
    const model = pick(MODELS);
    const stream = draw(2) === 0;
    switch (draw(7)) {
      case 0: return { path: '/v1/chat/completions', body: { model, messages, max_completion_tokens: 1 + draw(600), stream, n: 1 + draw(2) } };
      case 1: return { path: '/v1/messages', body: { model, messages, max_tokens: 1 + draw(600), stream } };
      case 2: return { path: '/v1/responses', body: { model, input: this.#text(), max_output_tokens: 16 + draw(600), stream, store: draw(2) === 0 } };
      case 3: return { path: '/v1/responses', body: { model, input: this.#text(), max_output_tokens: 16 + draw(300), stream, background: true } };
      case 4: return { path: '/v1/responses/compact', body: { model, input: this.#text() } };
      case 5: return { path: '/v1/messages/count_tokens', body: { model, messages } };
      default: return { path: pick(['/v1/chat/completions', '/v1/messages', '/v1/responses']), body: { model: pick([...MODELS, 'nothing']), messages, input: 7, temperature: 9 } };
    }
  }

  async #overHttp(): Promise<void> {
    const { below: draw } = this.#random;
    const { server: { url }, abortPercent } = this.options;
    const { path, body } = this.#request();
    const controller = new AbortController();
    const timer = draw(100) < abortPercent ? setTimeout(() => controller.abort(), draw(draw(2) === 0 ? 8 : 250)) : null;
    const authorization = this.#authorization;
    try {
      const response = await fetch(`${url}${path}`, { method: 'POST', body: JSON.stringify(body), headers: { authorization, 'content-type': 'application/json' }, signal: controller.signal });
      this.#note(String(response.status));
      const id = /"id":"(resp_[0-9a-f]+)"/.exec(await response.text())?.[1];
      if (id === undefined) return;
      if (draw(2) === 0) await (await fetch(`${url}/v1/responses/${id}/cancel`, { method: 'POST', headers: { authorization } })).text();
      if (draw(2) === 0) await (await fetch(`${url}/v1/responses/${id}`, { method: 'DELETE', headers: { authorization } })).text();
    } catch (error) {
      if (!controller.signal.aborted) throw error;
      this.#note('left');
    } finally {
      if (timer !== null) clearTimeout(timer);
    }
  }

  /** A body that breaks off, or is no JSON, by a connection that ends in the middle. */
  async #broken(): Promise<void> {
    const { below: draw, pick } = this.#random;
    const socket = connect(this.options.server.port, '127.0.0.1');
    socket.on('error', () => undefined);
    const body = JSON.stringify({ model: pick(MODELS), messages: [{ role: 'user', content: this.#text() }] });
    socket.write(`POST /v1/chat/completions HTTP/1.1\r\nhost: 127.0.0.1\r\nauthorization: ${this.#authorization}\r\ncontent-type: application/json\r\ncontent-length: ${body.length}\r\n\r\n${body.slice(0, draw(body.length + 1))}`);
    await sleep(draw(60));
    socket.destroy();
    this.#note('broken off');
  }

  async #overSocket(): Promise<void> {
    const { below: draw, pick } = this.#random;
    const socket = new WebSocket(`ws://127.0.0.1:${this.options.server.port}/v1/responses`, { headers: { authorization: this.#authorization } });
    const ended = new Promise<void>((resolve) => {
      socket.on('close', () => resolve());
      socket.on('error', () => resolve());
    });
    socket.on('open', () => {
      this.#note('connected');
      for (let turn = draw(3); turn >= 0; turn--) {
        socket.send(draw(8) === 0 ? '{"type":' : JSON.stringify({ type: 'response.create', model: pick(MODELS), input: this.#text(), max_output_tokens: 16 + draw(400), store: false }));
      }
    });
    if (draw(4) > 0) await Promise.race([ended, new Promise((resolve) => socket.on('open', resolve))]);   // others leave before it is open
    await Promise.race([ended, sleep(draw(400))]);
    if (draw(2) === 0) socket.close();
    else socket.terminate();
    await ended;
  }
}
