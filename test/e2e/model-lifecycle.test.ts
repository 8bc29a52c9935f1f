// Tests a whole server that loads models on demand and unloads idle models, with one and with two HTTP workers.

import t from 'tap';
import { post } from '../support/wire.js';
import { eventually, startMonolith } from './monolith.js';

t.setTimeout(300_000);

for (const threads of [1, 2]) {
  t.test(`with ${threads} HTTP worker${threads > 1 ? 's' : ''}`, async (t) => {
    const models = {
      'hal-1.0': { pinned: true },
      'clarke-1.0': { load: 'demand' },
      'tycho-1.0': { load: 'demand', idle_minutes: 0.03 },
    };
    const server = await startMonolith({
      args: ['--http-threads', String(threads)],
      env: { MONOLITH_MODELS: JSON.stringify(models) },
    });
    t.teardown(() => server.stop());
    const states = async (): Promise<string[]> => {
      const body = (await (await fetch(`${server.url}/readyz`)).json()) as {
        status: string;
        models: { state: string }[];
      };
      return [body.status, ...body.models.slice(0, 3).map(({ state }) => state)];
    };
    const ask = (): Promise<Response> =>
      fetch(`${server.url}/v1/chat/completions`, {
        method: 'POST',
        headers: { authorization: `Bearer ${server.key}`, 'content-type': 'application/json' },
        body: JSON.stringify({ model: 'tycho-1.0', max_tokens: 8, messages: [{ role: 'user', content: 'Hello' }] }),
      });
    t.same(await states(), ['ready', 'ready', 'idle', 'idle'], 'the server is ready without the on-demand models');
    for (let round = 0; round < 2; round++) {
      const answers = await Promise.all(Array.from({ length: 4 }, ask));
      t.same(
        answers.map(({ status }) => status),
        [200, 200, 200, 200],
      );
      t.ok(
        await eventually(async () => (await states()).join() === 'ready,ready,idle,idle'),
        'the model is unloaded again',
      );
    }
  });
}

t.test(
  'a request whose client disconnects while the model loads is logged as cancelled, in every API format',
  async (t) => {
    const server = await startMonolith({
      env: {
        MONOLITH_MODELS: JSON.stringify({
          'hal-1.0': { pinned: true },
          'clarke-1.0': { load: 'demand', idle_minutes: 0.03 },
          'tycho-1.0': { load: 'demand' },
        }),
      },
    });
    t.teardown(() => server.stop());
    const messages = [{ role: 'user', content: 'Hello' }];
    const requests: readonly [string, object][] = [false, true].flatMap((stream) => [
      ['/v1/chat/completions', { stream, messages }],
      ['/v1/messages', { stream, messages, max_tokens: 8 }],
      ['/v1/responses', { stream, input: 'Hello' }],
      ['/v1/completions', { stream, prompt: 'Hello' }],
    ]);
    const state = async (): Promise<string | undefined> =>
      ((await (await fetch(`${server.url}/readyz`)).json()) as { models: { state: string }[] }).models[1]?.state;
    const lines = (): Record<string, unknown>[] =>
      server
        .log()
        .split('\n')
        .filter((line) => line.includes('"path":"/v1/'))
        .map((line) => JSON.parse(line) as Record<string, unknown>);
    for (let round = 1, left = 0; left < requests.length; round++) {
      if (round > 20) throw new Error('the model loads too fast for a client to disconnect in time');
      t.ok(await eventually(async () => (await state()) === 'idle'));
      const leaving = new AbortController();
      for (const [path, body] of requests)
        void post(server, path, { model: 'clarke-1.0', ...body }, {}, leaving.signal).catch(() => undefined);
      while ((await state()) === 'idle');
      leaving.abort();
      t.ok(await eventually(() => lines().length === round * requests.length));
      const now = lines().slice(-requests.length);
      left = now.filter(({ outcome, prompt_tokens }) => outcome === 'cancelled' && prompt_tokens === undefined).length;
    }
    t.notMatch(server.log(), /unexpected/);
  },
);
