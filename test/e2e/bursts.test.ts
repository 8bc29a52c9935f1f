// Sends bursts over hundreds of sockets, to one and to two HTTP workers. The limits must admit exactly the allowed
// number of requests, and refused requests must not count toward any limit. The official clients must wait for as long
// as the response requires.
import { Agent, request } from 'node:http';
import Anthropic from '@anthropic-ai/sdk';
import OpenAI from 'openai';
import t, { type Test } from 'tap';
import { withoutThreads } from '../support/http-server.js';
import { startScripted } from '../support/script-model.js';
import { ask, post } from '../support/wire.js';
import { eventually, type Monolith } from './monolith.js';

t.setTimeout(300_000); // the machine may be busy

const LIMITS = JSON.stringify({
  '*': {
    'hal-1.0': { rpm: 100, tpm: null, concurrency: null },
    'clarke-1.0': { rpm: null, tpm: null, concurrency: 10 },
    'tycho-1.0': { rpm: 30, tpm: 60_000, concurrency: 5 },
  },
});

interface Got {
  status: number;
  code: string | null;
  retryAfter: number;
  destroy(): void;
}

/**
 * Sends a request over its own socket. Resolves when the first data of a stream arrives, or when any other response
 * ends.
 */
function send(server: Monolith, agent: Agent, model: string, body: object): Promise<Got> {
  return new Promise((resolve, reject) => {
    const sent = request(
      {
        host: '127.0.0.1',
        port: server.port,
        agent,
        method: 'POST',
        path: '/v1/chat/completions',
        headers: { authorization: `Bearer ${server.key}`, 'content-type': 'application/json' },
      },
      (response) => {
        let text = '';
        const got = (): void =>
          resolve({
            status: response.statusCode ?? 0,
            retryAfter: Number(response.headers['retry-after'] ?? NaN),
            destroy: () => {
              sent.destroy();
            },
            code: text.startsWith('{"error"') ? (JSON.parse(text) as { error: { code: string } }).error.code : null,
          });
        if (response.statusCode === 200 && String(response.headers['content-type']).startsWith('text/event-stream')) {
          response.once('data', got);
          return;
        }
        response
          .setEncoding('utf8')
          .on('data', (part: string) => {
            text += part;
          })
          .on('end', got);
      },
    );
    sent.on('error', reject);
    sent.end(
      JSON.stringify({ model, messages: [{ role: 'user', content: 'A: x' }], max_completion_tokens: 20, ...body }),
    );
  });
}

async function burst(t: Test, server: Monolith, model: string, body: object, count: number): Promise<Got[]> {
  const agent = new Agent({ keepAlive: true, maxSockets: 400 });
  t.teardown(() => agent.destroy());
  return Promise.all(Array.from({ length: count }, () => send(server, agent, model, body)));
}

for (const threads of [1, 2]) {
  t.test(`HTTP workers: ${threads}`, { skip: threads > 1 && withoutThreads }, async (t) => {
    const server = await startScripted({
      env: {
        MONOLITH_LIMITS_OVERRIDES: LIMITS,
        MONOLITH_HTTP_THREADS: String(threads),
        MONOLITH_ENGINE_QUEUE_MAX: '4000',
        MONOLITH_LOG_LEVEL: 'error',
      },
      args: ['--engine-max-sequences', '16'],
    });
    t.teardown(() => server.stop());

    await t.test(
      'admits only 100 of 600 concurrent requests, plus the refill, when the limit is 100 per minute',
      async (t) => {
        const began = performance.now();
        const got = await burst(t, server, 'hal-1.0', {}, 600);
        const refilled = Math.ceil((((performance.now() - began) / 1000) * 100) / 60);
        const admitted = got.filter(({ status }) => status === 200).length;
        t.ok(
          admitted >= 100 && admitted <= 100 + refilled,
          `${admitted} admitted; expected 100 and up to ${refilled} refilled`,
        );
        const refused = got.filter(({ status }) => status !== 200);
        t.ok(
          refused.every(
            ({ status, code, retryAfter }) =>
              status === 429 && code === 'rpm_limit_exceeded' && retryAfter >= 1 && retryAfter <= 60,
          ),
        );
      },
    );

    await t.test('runs only ten of 600 concurrent streams when the concurrency limit is ten', async (t) => {
      const got = await burst(
        t,
        server,
        'clarke-1.0',
        { messages: [{ role: 'user', content: 'L: x' }], max_completion_tokens: 12_000, stream: true },
        600,
      );
      const running = got.filter(({ status }) => status === 200);
      t.equal(running.length, 10, 'ten streams run');
      t.ok(
        got.every(({ status, code }) => status === 200 || (status === 429 && code === 'concurrency_limit_exceeded')),
      );
      for (const { destroy } of running) destroy();
      t.ok(
        await eventually(async () => {
          const { headers } = await post(server, '/v1/chat/completions', {
            model: 'clarke-1.0',
            messages: [{ role: 'user', content: 'x'.repeat(30_000) }],
          });
          return headers.get('x-ratelimit-remaining-concurrency') === '10';
        }),
        'all ten slots are free after the clients disconnect',
      );
    });

    await t.test('300 rejected requests of every kind leave the rate limits unchanged', async (t) => {
      const model = 'tycho-1.0';
      const kinds: object[] = [
        { temperature: 9 },
        { messages: [] },
        { messages: [{ role: 'user', content: 'x'.repeat(30_000) }] },
        { n: 6 },
        { max_completion_tokens: 'x' },
        { tool_choice: { type: 'function', function: { name: 'nothing' } } },
      ];
      const answers = new Map<number, number>();
      const agent = new Agent({ keepAlive: true, maxSockets: 100 });
      t.teardown(() => agent.destroy());
      await Promise.all(
        Array.from({ length: 300 }, async (_, at) => {
          const { status } = await send(server, agent, model, kinds[at % kinds.length]!);
          answers.set(status, (answers.get(status) ?? 0) + 1);
        }),
      );
      t.equal(answers.get(200), undefined);
      t.ok(answers.size >= 3, [...answers.keys()].join());
      const { status, headers } = await ask(server, '/v1/chat/completions', {
        model,
        messages: [{ role: 'user', content: 'A: x' }],
        max_completion_tokens: 100,
      });
      t.equal(status, 200);
      t.equal(headers.get('x-ratelimit-remaining-requests'), '29', 'this is the first request that counts');
      t.equal(headers.get('x-ratelimit-remaining-concurrency'), '4');
      t.ok(Number(headers.get('x-ratelimit-remaining-tokens')) > 59_000);
    });
  });
}

t.test('official clients wait as long as the response asks them to', async (t) => {
  const server = await startScripted({
    env: {
      MONOLITH_LIMITS_OVERRIDES: JSON.stringify({ '*': { 'hal-1.0': { rpm: 30 } } }),
      MONOLITH_ENGINE_QUEUE_MAX: '1',
      MONOLITH_LOG_LEVEL: 'error',
    },
    args: ['--engine-max-sequences', '1'],
  });
  t.teardown(() => server.stop());

  interface Seen {
    status: number;
    waitMs: number;
    at: number;
  }
  const watched =
    (seen: Seen[]): typeof fetch =>
    async (url, init) => {
      const response = await fetch(url, init);
      seen.push({
        status: response.status,
        waitMs: Number(response.headers.get('retry-after-ms')),
        at: performance.now(),
      });
      return response;
    };
  const clients = (seen: Seen[]): Record<string, (model: string) => Promise<unknown>> => {
    const openai = new OpenAI({ baseURL: `${server.url}/v1`, apiKey: server.key, maxRetries: 3, fetch: watched(seen) });
    const anthropic = new Anthropic({ baseURL: server.url, apiKey: server.key, maxRetries: 3, fetch: watched(seen) });
    return {
      openai: async (model) =>
        openai.chat.completions.create({
          model,
          messages: [{ role: 'user', content: 'A: x' }],
          max_completion_tokens: 20,
        }),
      anthropic: async (model) =>
        anthropic.messages.create({ model, messages: [{ role: 'user', content: 'A: x' }], max_tokens: 20 }),
    };
  };
  const waited = (t: Test, seen: readonly Seen[], status: number): void => {
    t.equal(seen.at(-1)?.status, 200, 'the last attempt succeeds');
    for (const [at, one] of seen.slice(0, -1).entries()) {
      t.equal(one.status, status);
      const took = seen[at + 1]!.at - one.at;
      t.ok(
        one.waitMs >= 1 && took >= one.waitMs - 5,
        `retry-after-ms ${one.waitMs}, retried after ${Math.round(took)} ms`,
      );
    }
  };

  const emptyBucket = async (): Promise<void> => {
    const body = {
      model: 'hal-1.0',
      messages: [{ role: 'user', content: 'A: x' }],
      max_completion_tokens: 5,
    };
    for (let i = 0; i < 40; i++) if ((await ask(server, '/v1/chat/completions', body)).status === 429) return;
  };

  await t.test('after a 429 the first retry succeeds, because retry-after-ms is exact', async (t) => {
    for (const who of ['openai', 'anthropic'] as const) {
      let seen: Seen[] = [];
      // On a busy machine, the bucket may refill before the client's first attempt.
      for (let attempt = 0; attempt < 5 && seen.length < 2; attempt++) {
        await emptyBucket();
        seen = [];
        await clients(seen)[who]!('hal-1.0');
      }
      t.equal(seen.length, 2, who);
      waited(t, seen, 429);
    }
  });

  await t.test('after a 503 for a full queue, the client retries until it succeeds', async (t) => {
    for (const who of ['openai', 'anthropic'] as const) {
      const controller = new AbortController();
      const endless = {
        model: 'clarke-1.0',
        messages: [{ role: 'user', content: 'L: x' }],
        max_completion_tokens: 12_000,
        stream: true,
      };
      const hold = () =>
        fetch(`${server.url}/v1/chat/completions`, {
          method: 'POST',
          body: JSON.stringify(endless),
          headers: { authorization: `Bearer ${server.key}`, 'content-type': 'application/json' },
          signal: controller.signal,
        });
      await (await hold()).body!.getReader().read();
      hold().catch(() => undefined); // this request waits in the queue
      t.ok(
        await eventually(async () =>
          [...(await server.metrics())].some(
            ([name, value]) => name.startsWith('monolith_requests_waiting') && value === 1,
          ),
        ),
      );
      const seen: Seen[] = [];
      const answer = clients(seen)[who]!('clarke-1.0');
      t.ok(await eventually(() => seen.length > 0));
      controller.abort();
      await answer;
      t.ok(seen.length >= 2, who);
      waited(t, seen, 503);
    }
  });
});
