// The upstream that serves the models used in the rounds. The prompt specifies the output and its pace (history.ts).
// The upstream records when each generation held its concurrency slot. It runs in the test's process, so both use the
// same clock.
import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { performance } from 'node:perf_hooks';
import { setTimeout as sleep } from 'node:timers/promises';
import { answerTo, type Generation } from './history.js';

interface Body {
  messages?: readonly { role: string; content: string | readonly { text?: string }[] }[];
}

const textOf = (content: string | readonly { text?: string }[]): string =>
  typeof content === 'string' ? content : content.map(({ text = '' }) => text).join('');
const frame = (data: object): string => `data: ${JSON.stringify(data)}\n\n`;

export interface Teller {
  readonly url: string;
  close(): Promise<void>;
}

export async function startTeller(note: (generation: Generation) => void): Promise<Teller> {
  async function tell(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const parts: Buffer[] = [];
    for await (const part of request as AsyncIterable<Buffer>) parts.push(part);
    if (request.method !== 'POST') return void response.writeHead(404).end('{}');
    const messages = ((JSON.parse(Buffer.concat(parts).toString()) as Body).messages ?? []).map(({ content }) =>
      textOf(content),
    );
    const prompt = messages.at(-1) ?? '';
    const [n, , gapMs = 0] = prompt.slice(1).split(' ').map(Number) as [number, number, number];
    const generation: Generation = { kind: 'generation', n, from: performance.now(), to: Infinity, messages };
    note(generation);
    // Called when the output is complete, and when the client disconnects or is killed. After that, its slot may be
    // given to another request.
    const over = (): void => {
      generation.to = Math.min(generation.to, performance.now());
    };
    response.on('close', over);
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    const pieces = answerTo(prompt).split(/(?= )/);
    for (const piece of pieces) {
      if (response.destroyed) return;
      response.write(
        frame({
          id: 'x',
          object: 'chat.completion.chunk',
          choices: [{ index: 0, delta: { content: piece }, finish_reason: null }],
        }),
      );
      if (gapMs > 0) await sleep(gapMs);
    }
    over();
    response.end(
      `${frame({ id: 'x', choices: [{ index: 0, delta: {}, finish_reason: 'stop' }] })}${frame({ id: 'x', choices: [], usage: { prompt_tokens: messages.length, completion_tokens: pieces.length } })}data: [DONE]\n\n`,
    );
  }
  const server = createServer((request, response) => {
    void tell(request, response).catch(() => response.destroy());
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`,
    async close() {
      server.closeAllConnections();
      server.close();
      await once(server, 'close');
    },
  };
}
