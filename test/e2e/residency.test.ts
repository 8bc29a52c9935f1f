// Models on demand through a whole server: loaded for who asks, given up when nobody does, on every answering thread.

import t from 'tap';
import { eventually, startMonolith } from './monolith.js';

t.setTimeout(300_000);

for (const threads of [1, 2]) {
  t.test(`with ${threads} HTTP thread${threads > 1 ? 's' : ''}`, async (t) => {
    const models = { 'hal-1.0': { pinned: true }, 'clarke-1.0': { load: 'demand' }, 'tycho-1.0': { load: 'demand', idle_minutes: 0.03 } };
    const server = await startMonolith({ args: ['--http-threads', String(threads)], env: { MONOLITH_MODELS: JSON.stringify(models) } });
    t.teardown(() => server.stop());
    const states = async (): Promise<string[]> => {
      const body = await (await fetch(`${server.url}/readyz`)).json() as { status: string; models: { state: string }[] };
      return [body.status, ...body.models.map(({ state }) => state)];
    };
    const ask = (): Promise<Response> => fetch(`${server.url}/v1/chat/completions`, {
      method: 'POST', headers: { authorization: `Bearer ${server.key}`, 'content-type': 'application/json' },
      body: JSON.stringify({ model: 'tycho-1.0', max_tokens: 8, messages: [{ role: 'user', content: 'Hello' }] }),
    });
    t.same(await states(), ['ready', 'ready', 'idle', 'idle'], 'ready without them');
    for (let round = 0; round < 2; round++) {
      const answers = await Promise.all(Array.from({ length: 4 }, ask));
      t.same(answers.map(({ status }) => status), [200, 200, 200, 200]);
      t.ok(await eventually(async () => (await states()).join() === 'ready,ready,idle,idle'), 'and it goes again');
    }
  });
}
