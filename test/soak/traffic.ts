// Concurrent clients on every endpoint, some of which disconnect at random: complete, streamed and background
// responses, WebSockets, interrupted bodies, schemas, tools, images, continuations, reads and token counts. A single
// seed determines all random choices; the timing depends on the machine.
import { connect } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { WebSocket } from 'ws';
import { randomFrom, type Random } from '../support/random.js';

export interface TrafficOptions {
  server: { url: string; port: number };
  secret: string;
  seed: number;
  /** Percentage of HTTP requests that are aborted. */
  abortPercent: number;
  /** Turns per second across all clients; unlimited if absent. */
  rate?: number;
  /** A vision model, and the images to send to it. */
  sight?: { model: string; pictures: readonly string[] };
}

export const MODELS = ['hal-1.0', 'clarke-1.0', 'tycho-1.0'] as const;
/** Number of recent stored responses that may be read and continued. */
const RECENT = 64;

interface Request {
  method: 'GET' | 'POST' | 'DELETE';
  path: string;
  body?: object;
}

export class Traffic {
  /** Number of occurrences of each outcome. An outcome is a status code, or an event such as a disconnect. */
  readonly statuses = new Map<string, number>();
  /** Endpoints that were called, with {id} in place of ids. */
  readonly endpoints = new Set<string>();
  readonly #recent: string[] = [];
  readonly #authorization: string;
  readonly #random: Random;

  constructor(private readonly options: TrafficOptions) {
    this.#authorization = `Bearer ${options.secret}`;
    this.#random = randomFrom(options.seed);
  }

  async run(clients: number, end: number): Promise<void> {
    await Promise.all(
      Array.from({ length: clients }, async () => {
        while (performance.now() < end) {
          const draw = this.#random.below(6);
          const began = performance.now();
          await (draw < 4 ? this.#overHttp() : draw === 4 ? this.#overSocket() : this.#broken());
          if (this.options.rate !== undefined)
            await sleep(
              Math.max(0, this.#random.below(2000 * clients) / this.options.rate - (performance.now() - began)),
            );
        }
      }),
    );
  }

  #note(what: string): void {
    this.statuses.set(what, (this.statuses.get(what) ?? 0) + 1);
  }

  #text(): string {
    const { below, pick } = this.#random;
    return `${pick(['A', 'H', 'L', 'L', 'R', 'W', 'E'])}: ${'x'.repeat(below(200))}`;
  }

  /** Chooses a random request. Only a few may generate thousands of tokens. Stored responses are continued and read. */
  #request(): Request {
    const { below: draw, pick } = this.#random;
    const messages = [{ role: 'user', content: this.#text() }];
    const model = pick(MODELS);
    const stream = draw(2) === 0;
    const post = (path: string, body: object): Request => ({ method: 'POST', path, body });
    const get = (path: string): Request => ({ method: 'GET', path });
    const previous = this.#recent.length > 0 && draw(3) === 0 ? pick(this.#recent) : null;
    switch (draw(13)) {
      case 0:
        return post('/v1/chat/completions', {
          model,
          messages,
          max_completion_tokens: 1 + draw(600),
          stream,
          n: 1 + draw(2),
        });
      case 1:
        return post('/v1/messages', { model, messages, max_tokens: 1 + draw(600), stream });
      case 2:
        return post('/v1/responses', {
          model,
          input: this.#text(),
          max_output_tokens: 16 + draw(600),
          stream,
          store: draw(2) === 0,
          previous_response_id: previous,
        });
      case 3:
        return post('/v1/responses', {
          model,
          input: this.#text(),
          max_output_tokens: 16 + draw(300),
          stream,
          background: true,
        });
      case 4:
        return post('/v1/responses/compact', { model, input: this.#text() });
      case 5:
        return pick([
          post('/v1/messages/count_tokens', { model, messages }),
          post('/v1/responses/input_tokens', { model, input: this.#text() }),
          post('/tokenize', { model, prompt: this.#text() }),
          post('/detokenize', { model, tokens: [65, 66, 67 + draw(9)] }),
        ]);
      case 6:
        return post('/v1/completions', {
          model,
          prompt: this.#text(),
          max_tokens: 1 + draw(300),
          stream,
          logprobs: draw(3),
        });
      case 7:
        return post('/v1/chat/completions', {
          model,
          messages,
          max_completion_tokens: 200,
          stream,
          response_format: formOf(draw),
        });
      case 8:
        return post('/v1/chat/completions', {
          model,
          messages: [{ role: 'user', content: 'W: weather?' }],
          stream,
          tools: [
            {
              type: 'function',
              function: {
                name: 'get_weather',
                parameters: {
                  type: 'object',
                  properties: { location: { type: 'string', maxLength: 20 + draw(1000) } },
                },
              },
            },
          ],
        });
      case 9:
        return post('/v1/chat/completions', this.#sight(model));
      case 10:
        return get(
          pick([
            '/v1/models',
            `/v1/models/${model}`,
            '/tokenizer_info',
            '/readyz',
            '/livez',
            '/openapi.json',
            '/version',
          ]),
        );
      case 11: {
        const id = previous ?? `resp_${'0'.repeat(32)}`;
        return get(
          `/v1/responses/${id}${pick(['', `?stream=true&starting_after=${draw(20)}`, '/input_items?limit=5', '?stream=true'])}`,
        );
      }
      default:
        return post(pick(['/v1/chat/completions', '/v1/messages', '/v1/responses']), {
          model: pick([...MODELS, 'nothing']),
          messages,
          input: 7,
          temperature: 9,
        });
    }
  }

  /**
   * A request with images. In half of these requests, a random text before the images prevents their pages from being
   * reused.
   */
  #sight(model: string): object {
    const { below: draw, pick } = this.#random;
    const { sight } = this.options;
    const parts =
      sight === undefined
        ? []
        : Array.from({ length: 1 + draw(2) }, () => ({
            type: 'image_url',
            image_url: { url: pick(sight.pictures), detail: pick(['low', 'high']) },
          }));
    return {
      model: sight?.model ?? model,
      messages: [{ role: 'user', content: [{ type: 'text', text: `${draw(20)}: what is this?` }, ...parts] }],
      max_completion_tokens: 1 + draw(8),
      stream: draw(2) === 0,
    };
  }

  async #overHttp(): Promise<void> {
    const { below: draw } = this.#random;
    const {
      server: { url },
      abortPercent,
    } = this.options;
    const request = this.#request();
    const controller = new AbortController();
    const timer = draw(100) < abortPercent ? setTimeout(() => controller.abort(), draw(draw(2) === 0 ? 8 : 250)) : null;
    const authorization = this.#authorization;
    const ask = ({ method, path, body }: Request, signal?: AbortSignal): Promise<Response> => {
      this.endpoints.add(`${method} ${templateOf(path)}`);
      return fetch(`${url}${path}`, {
        method,
        headers: { authorization, 'content-type': 'application/json' },
        ...(body === undefined ? {} : { body: JSON.stringify(body) }),
        ...(signal === undefined ? {} : { signal }),
      });
    };
    try {
      const response = await ask(request, controller.signal);
      this.#note(String(response.status));
      const id = /"id":"(resp_[0-9a-f]+)"/.exec(await response.text())?.[1];
      if (id === undefined) return;
      const path = `/v1/responses/${id}`;
      if (draw(2) === 0) await (await ask({ method: 'POST', path: `${path}/cancel` })).text();
      if (draw(2) === 0) await (await ask({ method: 'DELETE', path })).text();
      else if (this.#recent.push(id) > RECENT) this.#recent.shift();
    } catch (error) {
      if (!controller.signal.aborted) throw error;
      this.#note('left');
    } finally {
      if (timer !== null) clearTimeout(timer);
    }
  }

  /** Sends a truncated body, or closes the connection in the middle of a body. */
  async #broken(): Promise<void> {
    const { below: draw, pick } = this.#random;
    const socket = connect(this.options.server.port, '127.0.0.1');
    socket.on('error', () => undefined);
    const body = JSON.stringify({ model: pick(MODELS), messages: [{ role: 'user', content: this.#text() }] });
    socket.write(
      `POST /v1/chat/completions HTTP/1.1\r\nhost: 127.0.0.1\r\nauthorization: ${this.#authorization}\r\ncontent-type: application/json\r\ncontent-length: ${body.length}\r\n\r\n${body.slice(0, draw(body.length + 1))}`,
    );
    await sleep(draw(60));
    socket.destroy();
    this.#note('broken off');
  }

  async #overSocket(): Promise<void> {
    const { below: draw, pick } = this.#random;
    const socket = new WebSocket(`ws://127.0.0.1:${this.options.server.port}/v1/responses`, {
      headers: { authorization: this.#authorization },
    });
    const ended = new Promise<void>((resolve) => {
      socket.on('close', () => resolve());
      socket.on('error', () => resolve());
    });
    socket.on('open', () => {
      this.#note('connected');
      for (let turn = draw(3); turn >= 0; turn--) {
        socket.send(
          draw(8) === 0
            ? '{"type":'
            : JSON.stringify({
                type: 'response.create',
                model: pick(MODELS),
                input: this.#text(),
                max_output_tokens: 16 + draw(400),
                store: false,
              }),
        );
      }
    });
    // A quarter of the clients disconnect before the socket is open.
    if (draw(4) > 0) await Promise.race([ended, new Promise((resolve) => socket.on('open', resolve))]);
    await Promise.race([ended, sleep(draw(400))]);
    if (draw(2) === 0) socket.close();
    else socket.terminate();
    await ended;
  }
}

const templateOf = (path: string): string =>
  path
    .replace(/\?.*$/, '')
    .replace(/^(\/v1\/responses\/)resp_[0-9a-f]+/, '$1{id}')
    .replace(/^(\/v1\/models\/).+/, '$1{id}');

/** Returns a JSON schema that usually no earlier request has had. */
function formOf(below: Random['below']): object {
  const properties = Object.fromEntries(
    Array.from({ length: 1 + below(4) }, () => [
      `p${below(100_000)}`,
      below(2) === 0 ? { type: 'integer' } : { type: 'string', enum: ['a', 'b'] },
    ]),
  );
  return {
    type: 'json_schema',
    json_schema: {
      name: 'form',
      strict: true,
      schema: { type: 'object', properties, required: Object.keys(properties), additionalProperties: false },
    },
  };
}
