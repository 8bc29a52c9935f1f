// A fake upstream without a model. It implements the three API formats at a given speed, so the latency and throughput
// that a client should measure are known in advance. Runs in this process with start(), or as a separate process:
//
//   node stand-in-server.js [FIRST_MS GAP_MS]     prints its port

import { createServer } from 'node:http';
import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { setTimeout as after } from 'node:timers/promises';
import { pathToFileURL } from 'node:url';

export interface StandIn {
  /** Milliseconds before the first token, and between tokens; with 0 for both, all events are written immediately. */
  readonly firstMs: number;
  readonly gapMs: number;
  /** Whether to support POST /tokenize, which counts one token per four letters of a word, rounded up. */
  readonly tokenizes?: boolean;
  /**
   * Handles a request itself and returns true, or returns false for the default response. `number` counts requests from
   * 0.
   */
  readonly instead?: (number: number, response: ServerResponse, body: WireBody) => boolean | Promise<boolean>;
}

/** The fields that the server reads from a request body. */
export interface WireBody {
  readonly max_tokens?: number;
  readonly max_completion_tokens?: number;
  readonly max_output_tokens?: number;
  readonly prompt?: string;
  readonly messages?: readonly { role: string; content: string }[];
  readonly input?: readonly { role: string; content: string }[];
  readonly instructions?: string;
  readonly previous_response_id?: string;
  readonly store?: boolean;
  readonly ignore_eos?: boolean;
  readonly response_format?: object;
  readonly text?: object;
}

/** How long idle connections stay open, so that a client can reuse them after a pause. */
const KEEP_MS = 60_000;

/** The number of tokens in a text, as the fake upstream counts tokens. */
export const tokensOf = (text: string): number =>
  text
    .trim()
    .split(/\s+/)
    .filter((word) => word !== '')
    .reduce((sum, word) => sum + Math.ceil(word.length / 4), 0);

/** Number of tokens that the template adds to each prompt. */
export const TEMPLATE_TOKENS = 7;

const frame = (data: object, event?: string): string =>
  `${event === undefined ? '' : `event: ${event}\n`}data: ${JSON.stringify(data)}\n\n`;

interface Voice {
  token(n: number): string;
  end(prompt: number, tokens: number): string;
}

const VOICES: Readonly<Record<string, Voice>> = {
  '/v1/chat/completions': {
    token: (n) =>
      frame({
        id: 'chat',
        object: 'chat.completion.chunk',
        choices: [{ index: 0, delta: { content: ` word${n}` }, finish_reason: null }],
      }),
    end: (prompt, tokens) =>
      `${frame({ id: 'chat', choices: [{ index: 0, delta: {}, finish_reason: 'length' }] })}${frame({ id: 'chat', choices: [], usage: { prompt_tokens: prompt, completion_tokens: tokens, prompt_tokens_details: { cached_tokens: 2 } } })}data: [DONE]\n\n`,
  },
  '/v1/completions': {
    token: (n) => frame({ id: 'text', choices: [{ index: 0, text: ` word${n}`, finish_reason: null }] }),
    end: (prompt, tokens) =>
      `${frame({ id: 'text', choices: [{ index: 0, text: '', finish_reason: 'length' }] })}${frame({ id: 'text', choices: [], usage: { prompt_tokens: prompt, completion_tokens: tokens } })}data: [DONE]\n\n`,
  },
  '/v1/responses': {
    token: (n) => frame({ type: 'response.output_text.delta', delta: ` word${n}` }, 'response.output_text.delta'),
    end: (prompt, tokens) =>
      frame(
        {
          type: 'response.incomplete',
          response: {
            id: `resp_${prompt}`,
            status: 'incomplete',
            incomplete_details: { reason: 'max_output_tokens' },
            usage: { input_tokens: prompt, output_tokens: tokens, input_tokens_details: { cached_tokens: 0 } },
          },
        },
        'response.incomplete',
      ),
  },
};

export class StandInServer {
  /** The bodies of generation requests in order of arrival, if the server is configured to keep bodies. */
  readonly bodies: WireBody[] = [];
  /** The arrival time of each request, from performance.now(). */
  readonly times: number[] = [];
  #count = 0;

  private constructor(
    private readonly server: Server,
    private readonly settings: StandIn,
    private readonly keeps: boolean,
  ) {}

  static async start(settings: StandIn, keeps = true): Promise<StandInServer> {
    const server = createServer({ keepAliveTimeout: KEEP_MS });
    const one = new StandInServer(server, settings, keeps);
    server.on('request', (request, response) => {
      void one.#serve(request, response).catch(() => response.destroy());
    });
    await new Promise<void>((resolve) => {
      server.listen(0, '127.0.0.1', resolve);
    });
    return one;
  }

  get port(): number {
    return (this.server.address() as AddressInfo).port;
  }

  get url(): string {
    return `http://127.0.0.1:${this.port}/v1`;
  }

  async close(): Promise<void> {
    this.server.closeAllConnections();
    await new Promise((resolve) => {
      this.server.close(resolve);
    });
  }

  async #serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const pieces: Buffer[] = [];
    for await (const piece of request as AsyncIterable<Buffer>) pieces.push(piece);
    const text = Buffer.concat(pieces).toString('utf8');
    const path = request.url ?? '';
    if (path === '/v1/models') return void json(response, 200, { data: [{ id: 'stand-in' }] });
    const body = JSON.parse(text === '' ? '{}' : text) as WireBody;
    if (path === '/tokenize' && this.settings.tokenizes === true)
      return void json(response, 200, { tokens: Array.from({ length: tokensOf(body.prompt ?? '') }, () => 1) });
    const voice = VOICES[path];
    if (voice === undefined) return void json(response, 404, { error: { message: `nothing at ${path}` } });
    if (this.keeps) {
      this.bodies.push(body);
      this.times.push(performance.now());
    }
    if (await this.settings.instead?.(this.#count++, response, body)) return;
    await this.#answer(voice, body, response);
  }

  async #answer(voice: Voice, body: WireBody, response: ServerResponse): Promise<void> {
    const { firstMs, gapMs } = this.settings;
    const tokens = body.max_completion_tokens ?? body.max_tokens ?? body.max_output_tokens ?? 16;
    const said = [
      body.instructions ?? '',
      body.prompt ?? '',
      ...(body.messages ?? body.input ?? []).map(({ content }) => content),
    ];
    const prompt = said.reduce((sum, one) => sum + tokensOf(one), 0) + TEMPLATE_TOKENS;
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    if (firstMs > 0) {
      response.flushHeaders();
      await after(firstMs);
    }
    if (gapMs === 0) {
      response.end(`${Array.from({ length: tokens }, (_, n) => voice.token(n)).join('')}${voice.end(prompt, tokens)}`);
      return;
    }
    for (let n = 0; n < tokens && !response.destroyed; n++) {
      response.write(voice.token(n));
      if (n + 1 < tokens) await after(gapMs);
    }
    response.end(voice.end(prompt, tokens));
  }
}

function json(response: ServerResponse, status: number, body: object): void {
  response.writeHead(status, { 'content-type': 'application/json' });
  response.end(JSON.stringify(body));
}

if (process.argv[1] !== undefined && import.meta.url === pathToFileURL(process.argv[1]).href) {
  const [firstMs = 0, gapMs = 0] = process.argv.slice(2).map(Number);
  const server = await StandInServer.start({ firstMs, gapMs, tokenizes: true }, false);
  process.stdout.write(`${server.port}\n`);
}
