// Many concurrent requests continue conversations far longer than any context, which are truncated for the model. The
// server must free the data it has read as soon as the prompt is built, and the data it will store must count toward
// the memory limit while it is in memory. Otherwise, a hundred such requests would exhaust the heap.
import t from 'tap';
import type { StoredConversation } from '../../src/shared/wire/stored-responses.js';
import { dashboardClient } from '../support/dashboard-client.js';
import { startMonolith, type Monolith } from './monolith.js';

t.setTimeout(300_000); // the machine may be busy

const CHAIN_BYTES = 20_000_000;
const AT_ONCE = 24;
const LONG = [
  { role: 'user', content: 'ab c'.repeat(CHAIN_BYTES / 4) },
  { role: 'assistant', content: 'ok' },
  { role: 'user', content: 'Hi' },
];
/**
 * Occupies the engine with requests that run far longer than these tests, so that all other requests queue. Calling the
 * returned function aborts these long requests.
 */
function occupy({ url, key }: Monolith): () => Promise<unknown> {
  const leaving = new AbortController();
  const busy = Array.from({ length: 80 }, () =>
    fetch(`${url}/v1/chat/completions`, {
      method: 'POST',
      signal: leaving.signal,
      headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
      body: JSON.stringify({
        model: 'tycho-1.0',
        max_tokens: 1_024,
        n: 8,
        ignore_eos: true,
        messages: [{ role: 'user', content: 'Hi' }],
      }),
    })
      .then((response) => response.text())
      .catch(() => undefined),
  );
  return () => {
    leaving.abort();
    return Promise.all(busy);
  };
}

async function start(t: { teardown(end: () => unknown): void }): Promise<{
  server: Monolith;
  create(body: object): Promise<{ status: number; id: string; error?: { code: string; message: string } }>;
}> {
  const server = await startMonolith({
    // One sequence runs at a time, so that other requests wait; each choice counts as a request. The heap has room for
    // some of these requests' conversations, but not for all.
    args: [
      '--engine-max-sequences',
      '1',
      '--engine-queue-wait-ms',
      '300000',
      '--limits-event-loop-ms',
      'off',
      '--limits-tpm',
      'off',
      '--limits-concurrency',
      'off',
      '--http-max-answering-bytes',
      '64MiB',
    ],
    env: { NODE_OPTIONS: '--max-old-space-size=320' },
  });
  t.teardown(() => server.stop());
  return {
    server,
    create: async (body) => {
      const response = await fetch(`${server.url}/v1/responses`, {
        method: 'POST',
        headers: { authorization: `Bearer ${server.key}`, 'content-type': 'application/json' },
        body: JSON.stringify({ model: 'tycho-1.0', truncation: 'auto', max_output_tokens: 60, ...body }),
      });
      const { id, error } = (await response.json()) as { id: string; error: { code: string; message: string } | null };
      return { status: response.status, id, ...(error === null ? {} : { error }) };
    },
  };
}

t.test('requests that wait for the model do not hold the conversation that they continue in memory', async (t) => {
  const { server, create } = await start(t);
  const { status, id } = await create({ input: LONG });
  t.equal(status, 200);
  const all = await Promise.all(
    Array.from({ length: AT_ONCE }, () => create({ previous_response_id: id, input: 'Hi' })),
  );
  t.same(
    all.map((one) => one.status),
    Array.from({ length: AT_ONCE }, () => 200),
  );
  t.equal(server.process.exitCode, null);
});

t.test('many concurrent views of a long conversation on the dashboard do not exhaust the heap', async (t) => {
  const { server, create } = await start(t);
  const { id } = await create({ input: LONG });
  const member = dashboardClient(server.url);
  const { organization } = await member.signUp(); // the first account gets the organization of the first key
  const all = await Promise.all(
    Array.from({ length: AT_ONCE }, () =>
      member.get<StoredConversation>(`/organizations/${organization.id}/responses/${id}`),
    ),
  );
  for (const { turns } of all) t.match(turns, [{ input: [{ cut: true }, { text: 'ok' }, { text: 'Hi' }] }]);
  t.equal(server.process.exitCode, null);
});

t.test('requests that will be stored are accepted only while there is memory for them', async (t) => {
  const { server, create } = await start(t);
  const free = occupy(server);
  const asked = Array.from({ length: 8 }, () => create({ input: LONG }));
  await Promise.race(asked); // the first to settle is a refusal, because no other request has finished
  await free();
  const all = await Promise.all(asked);
  t.ok(all.some(({ status }) => status === 200));
  const refused = all.filter(({ status }) => status !== 200);
  t.ok(refused.length > 0);
  for (const one of refused)
    t.match(one, {
      status: 503,
      error: { code: 'capacity_exhausted', message: /^The server is holding too many large responses in memory/ },
    });
  t.match(await create({ input: LONG }), { status: 200 }, 'afterwards, there is room again');
});
