// Tests two server processes that share one PostgreSQL; one of the processes has several HTTP workers. A response
// stored by one process can be read, continued, listed and deleted on the other immediately. Background responses can
// be followed and cancelled from either process, and fail when their own process dies. Database outages are reported,
// and the servers recover from them.
import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import OpenAI from 'openai';
import t from 'tap';
import { said, startScripted } from '../support/script-model.js';
import { startRedis, withoutRedis } from '../support/redis.js';
import { dashboardClient } from '../support/dashboard-client.js';
import { leaveOutIf } from '../support/needed-programs.js';
import { startPostgres, withoutPostgres } from '../support/postgres.js';
import { events } from '../support/wire.js';
import { embeddedModel, eventually, main, type Monolith } from './monolith.js';

t.setTimeout(300_000); // the machine may be busy

type Event = OpenAI.Responses.ResponseStreamEvent;
const model = 'tycho-1.0';
const ENDLESS = { model, input: 'L: tell me', background: true, max_output_tokens: 16_000 };

leaveOutIf(t, withoutPostgres, withoutRedis);
const postgres = await startPostgres();
t.teardown(() => postgres.close());
const redis = await startRedis();
t.teardown(() => redis.stop());
const start = (more: string[] = []): Promise<Monolith> =>
  startScripted({
    models: [model],
    env: { MONOLITH_ACCOUNTS_SIGNUP: 'open' },
    args: [
      '--database',
      postgres.url,
      '--redis',
      redis.url,
      '--database-timeout-ms',
      '5000',
      '--engine-drain-ms',
      '100',
      '--responses-retention-days',
      '30',
      ...more,
    ],
  });
const clientOf = ({ url, key }: Pick<Monolith, 'url' | 'key'>): OpenAI =>
  new OpenAI({ baseURL: `${url}/v1`, apiKey: key, maxRetries: 0 });
const a = await start();
t.teardown(() => a.stop());
const b = await start(['--http-threads', '2']);
t.teardown(() => b.stop());
const [one, other] = [clientOf(a), clientOf(b)];

const collect = async (stream: AsyncIterable<Event>) => {
  const all: Event[] = [];
  for await (const event of stream) all.push(event);
  return all;
};
const numbers = (all: readonly Event[]) => all.map(({ sequence_number }) => sequence_number);
/** Returns every event of the event log, including errors. */
const logOf = async (server: Monolith, id: string) =>
  (
    await events(
      await fetch(`${server.url}/v1/responses/${id}?stream=true`, {
        headers: { authorization: `Bearer ${server.key}` },
      }),
    )
  )
    .filter(({ data }) => data !== '[DONE]')
    .map(({ data }) => JSON.parse(data) as { type: string; sequence_number: number });
const refusal = async (asked: Promise<unknown>): Promise<string> =>
  asked.then(
    () => 'none',
    (error: unknown) => `${(error as { status?: number }).status} ${(error as { code?: string }).code}`,
  );

t.test(
  'a response stored by one server can be read, continued, listed and deleted on the other immediately',
  async (t) => {
    for (let round = 0; round < 10; round++) {
      const made = await one.responses.create({ model, input: 'A: x' });
      t.same((await other.responses.retrieve(made.id)).output, made.output);
      t.same((await other.responses.inputItems.list(made.id)).data.length, 1);
      const next = await other.responses.create({ model, previous_response_id: made.id, input: 'S: y' });
      t.equal(next.output_text, said('S').content);
      t.equal((await one.responses.inputItems.list(next.id)).data.length, 3);
      await other.responses.delete(made.id);
      t.equal(await refusal(one.responses.retrieve(made.id)), '404 response_not_found');
      t.equal(
        await refusal(one.responses.create({ model, previous_response_id: made.id, input: 'A: z' })),
        '404 previous_response_not_found',
      );
      t.equal(
        (await one.responses.create({ model, previous_response_id: next.id, input: 'A: z' })).output_text,
        said('A').content,
        'a descendant keeps its context after the deletion',
      );
    }
  },
);

t.test('a background response can be followed from the other server, starting after any event', async (t) => {
  const stream = await one.responses.create({ ...ENDLESS, max_output_tokens: 600, stream: true });
  const seen: Event[] = [];
  for await (const event of stream) if (seen.push(event) === 20) break;
  const [first] = seen;
  if (first?.type !== 'response.created') throw new Error('the first event is not response.created');
  const { id } = first.response;
  const rests = await Promise.all(
    [one, other, other].map(async (client) =>
      collect(await client.responses.retrieve(id, { stream: true, starting_after: 19 })),
    ),
  );
  for (const rest of rests) {
    t.same(
      numbers([...seen, ...rest]),
      [...seen, ...rest].map((_, index) => index),
      'no event is missing or repeated',
    );
    t.equal(rest.at(-1)?.type, 'response.incomplete');
  }
  t.same(rests[1], rests[0]);
});

t.test('a background response can be cancelled from the other server within a second', async (t) => {
  // The first user gets the organization of the key that the servers created.
  await dashboardClient(b.url).signUp({ email: 'owner@example.com' });
  const stranger = dashboardClient(b.url);
  const { organization } = await stranger.signUp({ email: 'stranger@example.com' });
  const { secret } = await stranger.post<{ secret: string }>(`/organizations/${organization.id}/api-keys`, {
    name: 'k',
  });
  // Created only now, because the response would complete on its own after a few seconds.
  const { id } = await one.responses.create(ENDLESS);
  t.ok(await eventually(async () => (await other.responses.retrieve(id)).status === 'in_progress'));
  for (const { url } of [a, b])
    t.equal(
      await refusal(clientOf({ url, key: secret }).responses.cancel(id)),
      '404 response_not_found',
      'another organization gets 404 from either server',
    );
  const seen: Event[] = [];
  const stream = await other.responses.retrieve(id, { stream: true });
  const following = (async () => {
    for await (const event of stream) seen.push(event);
  })();
  t.ok(await eventually(() => seen.length > 3));
  const begun = performance.now();
  const ended = await other.responses.cancel(id);
  const ms = performance.now() - begun;
  t.equal(ended.status, 'cancelled');
  // Takes less than a second on an idle machine. Without the notification, the response would run to its end.
  t.ok(ms < 10_000, `${ms.toFixed(0)} ms, including time lost on a busy machine`);
  t.equal((await one.responses.retrieve(id)).status, 'cancelled');
  await following;
  const running = await other.responses.create(ENDLESS);
  await one.responses.delete(running.id);
  t.equal(await refusal(other.responses.retrieve(running.id)), '404 response_not_found');
});

t.test('responses of a killed process fail and keep their partial output', async (t) => {
  const doomed = await start();
  const done = await clientOf(doomed).responses.create({ model, input: 'A: x' });
  // Created only here, because the response would complete on its own.
  const { id } = await clientOf(doomed).responses.create(ENDLESS);
  const following = logOf(b, id);
  for await (const { type } of await other.responses.retrieve(id, { stream: true }))
    if (type === 'response.output_text.delta') break;
  doomed.process.kill('SIGKILL');
  const killed = performance.now();
  t.ok(await eventually(async () => (await one.responses.retrieve(id)).status === 'failed', 60_000));
  t.ok(
    performance.now() - killed > 5_000,
    'the response does not fail before its 15-second lease expires; the lease was last renewed up to 2.5 s earlier, or more on a busy machine',
  );
  const failed = await other.responses.retrieve(id);
  t.match(failed.error, { code: 'server_error' });
  t.ok(failed.output_text.length > 0 && failed.usage!.output_tokens > 0);
  const followed = await following;
  t.same(
    followed.map(({ sequence_number: number }) => number),
    followed.map((_, index) => index),
  );
  t.same(
    followed.slice(-2).map(({ type }) => type),
    ['error', 'response.failed'],
  );
  t.equal(
    (await one.responses.retrieve(done.id)).output_text,
    said('A').content,
    'the response that was completed before the crash is stored',
  );
  await sleep(3_000);
  t.same(await logOf(a, id), followed, 'only one of the two servers appended the failure');
});

t.test(
  'during a database outage, requests that need it get 503 and others succeed; the servers recover without a restart',
  async (t) => {
    const made = await one.responses.create({ model, input: 'A: x' });
    const chat = () => one.chat.completions.create({ model, messages: [{ role: 'user', content: 'A: x' }] });
    await chat();
    const { id } = await one.responses.create({ ...ENDLESS, max_output_tokens: 600 });
    await postgres.kill();
    t.equal(await refusal(one.responses.retrieve(made.id)), '503 maintenance');
    t.equal(
      (await chat()).choices[0]!.message.content,
      said('A').content,
      'a chat completion needs no storage and succeeds',
    );
    t.equal(
      await refusal(one.responses.create({ model, input: 'A: x' })),
      '503 maintenance',
      'a response that cannot be stored is refused',
    );
    await postgres.start();
    for (const client of [one, other])
      t.ok(await eventually(async () => (await refusal(client.responses.retrieve(made.id))) === 'none'));
    const next = await other.responses.create({ model, previous_response_id: made.id, input: 'S: y' });
    t.equal((await one.responses.retrieve(next.id)).output_text, said('S').content);
    t.ok(
      await eventually(async () => (await other.responses.retrieve(id)).status === 'incomplete'),
      'output generated during the outage is stored',
    );
    const all = await logOf(b, id);
    t.same(
      all.map(({ sequence_number: number }) => number),
      all.map((_, index) => index),
      'the event log has no gap',
    );
    t.equal(all.at(-1)?.type, 'response.incomplete');
    for (const { log } of [a, b]) t.notMatch(log(), /pass-word/);
  },
);

t.test('a call that one process wrote keeps its tokens on the other one', async (t) => {
  const tools = [{ type: 'function' as const, name: 'get_weather', parameters: { type: 'object' }, strict: false }];
  const asked = { model, tools, reasoning: { effort: 'none' as const } };
  const first = await one.responses.create({ ...asked, input: 'W: weather?' });
  const call = first.output.find((item) => item.type === 'function_call');
  const next = {
    ...asked,
    previous_response_id: first.id,
    input: [{ type: 'function_call_output' as const, call_id: call?.call_id ?? '', output: 'T: 14 C' }],
  };
  const replayed = async (client: OpenAI): Promise<string | null> =>
    (await client.responses.create(next).asResponse()).headers.get('x-replayed-items');
  t.equal(await replayed(one), call?.call_id);
  t.ok(await eventually(async () => (await replayed(other)) === call?.call_id));
});

t.test(
  'on a read-only database, cancelling returns 503 within seconds, and the response ends as cancelled once writes work',
  async (t) => {
    const readOnly = async (how: string): Promise<void> => {
      await postgres.ask(postgres.url, `ALTER SYSTEM ${how}`);
      await postgres.ask(postgres.url, 'SELECT pg_reload_conf()');
      t.ok(
        await eventually(
          async () =>
            (
              await postgres.ask<{ default_transaction_read_only: string }>(
                postgres.url,
                'SHOW default_transaction_read_only',
              )
            )[0]?.default_transaction_read_only === (how.startsWith('SET') ? 'on' : 'off'),
        ),
      );
    };
    const { id } = await one.responses.create(ENDLESS);
    await readOnly('SET default_transaction_read_only = on');
    t.equal(await refusal(one.responses.cancel(id, { timeout: 30_000 })), '503 maintenance');
    await readOnly('RESET default_transaction_read_only');
    t.ok(await eventually(async () => (await one.responses.retrieve(id)).status === 'cancelled', 60_000));
  },
);

t.test('if the database is unusable, the server exits at startup with an error that states the reason', async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'monolith-shared-'));
  t.teardown(() => rmSync(folder, { recursive: true, force: true }));
  for (const [url, says] of [
    [postgres.url.replace(/monolith$/, 'absent'), /database "absent" does not exist/],
    [postgres.url.replace(`:${postgres.port}`, ':1'), /cannot be reached/],
  ] as const) {
    const { status, stderr } = spawnSync(
      process.execPath,
      [
        main,
        'serve',
        '--port',
        '0',
        '--data-dir',
        folder,
        '--model',
        `x=${embeddedModel}`,
        '--database',
        url,
        '--redis',
        redis.url,
      ],
      { encoding: 'utf8', timeout: 60_000 },
    );
    t.equal(status, 1);
    t.match(stderr, says);
    t.notMatch(stderr, /pass-word/);
  }
});
