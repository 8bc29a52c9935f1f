// Tests engine settings that are changed while the engine is running, with a session and with the token. Changes
// survive a restart, and null resets them.
import { once } from 'node:events';
import t from 'tap';
import type { ListPage } from '../../src/shared/wire/list.js';
import type { EngineTunables, TunableName } from '../../src/shared/wire/tunables.js';
import { eventually } from '../e2e/monolith.js';
import { dataFolder } from '../e2e/stored-server.js';
import { dashboardClient, refusal } from '../support/dashboard-client.js';
import { startScripted } from '../support/script-model.js';
import { ask, post } from '../support/wire.js';

t.setTimeout(300_000); // the machine may be busy

const data = dataFolder();
t.teardown(() => data.remove());
const TOKEN = 'operator-token-0123456789';
const settings = {
  context: 4_096,
  env: {
    MONOLITH_DATA_DIR: data.path,
    MONOLITH_ADMIN_TOKEN: TOKEN,
    MONOLITH_ADMIN_PORT: '0',
    MONOLITH_ENGINE_MAX_SEQUENCES: '2',
    MONOLITH_ENGINE_QUEUE_WAIT_MS: '60000',
  },
};

const valueOf = ({ tunables }: EngineTunables, name: TunableName): number | undefined =>
  tunables.find((one) => one.name === name)?.value;

t.test('a changed setting takes effect immediately, survives a restart and can be reset', async (t) => {
  let server = await startScripted(settings);
  t.teardown(async () => {
    await server.stop();
  });
  let client = dashboardClient(server.url);
  await client.signUp({ email: 'operator@example.com' });

  const { data: list } = await client.get<ListPage<EngineTunables>>('/operator/tunables');
  t.equal(list.length, 1, 'three model names share one engine');
  const [engine] = list as [EngineTunables];
  t.same(engine.names, ['hal-1.0', 'clarke-1.0', 'tycho-1.0']);
  t.match(engine.tunables, [
    {
      name: 'max_batch_tokens',
      value: 256,
      default: 256,
      min: 1,
      max: 1_024,
      help: /^Maximum tokens per engine step\. Decode tokens are scheduled first\.$/,
      given: null,
    },
    { name: 'max_sequences', value: 2, default: 2, min: 1, max: 8, given: 'MONOLITH_ENGINE_MAX_SEQUENCES' },
    { name: 'step_ms', value: 250, default: 250, min: 0, max: 60_000 },
    { name: 'queue_max', value: 512, default: 512, min: 1 },
    { name: 'queue_max_tokens', value: 4_000_000, default: 4_000_000, min: 1 },
  ]);

  // Four endless responses compete for two sequence slots. Then the number of slots is raised to four.
  const leaving = new AbortController();
  const endless = [1, 2, 3, 4].map(async () => {
    const response = await fetch(`${server.url}/v1/chat/completions`, {
      method: 'POST',
      signal: leaving.signal,
      headers: { authorization: `Bearer ${server.key}`, 'content-type': 'application/json' },
      body: JSON.stringify({
        model: 'hal-1.0',
        stream: true,
        max_completion_tokens: 4_000,
        messages: [{ role: 'user', content: 'L: x' }],
      }),
    });
    for await (const piece of response.body!) if (leaving.signal.aborted) throw new Error(String(piece));
  });
  const running = async (): Promise<number> =>
    (await server.metrics()).get('monolith_sequences_running{model="hal-1.0"}') ?? 0;
  t.ok(await eventually(async () => (await running()) === 2));
  t.equal(
    valueOf(
      await client.patch<EngineTunables>('/operator/tunables/clarke-1.0', { max_sequences: 4, step_ms: 100 }),
      'max_sequences',
    ),
    4,
  );
  t.ok(await eventually(async () => (await running()) === 4), 'the waiting requests start');

  // Queue limits are exact.
  await client.patch('/operator/tunables/hal-1.0', { queue_max: 1, max_sequences: 1 });
  const waiting = post(server, '/v1/chat/completions', {
    model: 'hal-1.0',
    max_completion_tokens: 1,
    messages: [{ role: 'user', content: 'A: x' }],
  }).catch(() => null);
  t.ok(await eventually(async () => (await server.metrics()).get('monolith_requests_waiting{model="hal-1.0"}') === 1));
  const full = await ask(server, '/v1/chat/completions', {
    model: 'hal-1.0',
    messages: [{ role: 'user', content: 'A: x' }],
  });
  t.match(full.body, { error: { code: 'capacity_exhausted' } });
  await client.patch('/operator/tunables/hal-1.0', { queue_max: 10, queue_max_tokens: 3 });
  t.match(
    (await ask(server, '/v1/chat/completions', { model: 'hal-1.0', messages: [{ role: 'user', content: 'A: x' }] }))
      .status,
    503,
    'the number of prompt tokens in the queue is limited too',
  );
  leaving.abort();
  await Promise.allSettled(endless);
  t.equal((await waiting)?.status, 200);
  t.equal(
    (
      await ask(server, '/v1/chat/completions', {
        model: 'hal-1.0',
        messages: [{ role: 'user', content: 'A: longer than three tokens' }],
      })
    ).status,
    200,
    'an empty queue accepts a prompt of any length',
  );

  // A refused change names the field and changes nothing.
  for (const [body, code, param] of [
    [{ max_sequences: 9 }, 'value_out_of_range', 'max_sequences'],
    [{ step_ms: -1 }, 'value_out_of_range', 'step_ms'],
    [{ queue_max: 0, step_ms: 5 }, 'value_out_of_range', 'queue_max'],
    [{ step_ms: 'fast' }, 'invalid_type', 'step_ms'],
    [{ step_ms: 1.5 }, 'invalid_type', 'step_ms'],
  ] as const)
    await t.rejects(client.patch('/operator/tunables/hal-1.0', body), { code, param });
  const several = await refusal(client.patch('/operator/tunables/hal-1.0', { max_batch_tokens: 0, queue_max: 0 }));
  t.match(
    several.fields,
    [
      { param: 'max_batch_tokens', message: 'max_batch_tokens must be between 1 and 1024.' },
      { param: 'queue_max', message: 'queue_max must be between 1 and 1000000.' },
    ],
    'an error names every value that is out of range',
  );
  await t.rejects(client.patch('/operator/tunables/nobody', {}), { code: 'resource_not_found' });
  const other = dashboardClient(server.url);
  await other.signUp();
  await t.rejects(other.get('/operator/tunables'), { code: 'role_not_allowed' });

  // The admin token reads the same settings.
  const admin = /"url":"(http:[^"]+\/admin\/api)"/.exec(server.log())?.[1];
  const answer = await fetch(`${admin}/tunables/hal-1.0`, { headers: { authorization: `Bearer ${TOKEN}` } });
  t.equal(valueOf((await answer.json()) as EngineTunables, 'step_ms'), 100);

  // The server is killed without a clean shutdown.
  server.process.kill('SIGKILL');
  await once(server.process, 'exit');
  server = await startScripted(settings);
  client = dashboardClient(server.url);
  await client.login('operator@example.com');
  const kept = await client.get<EngineTunables>('/operator/tunables/hal-1.0');
  t.same(
    kept.tunables.map(({ value }) => value),
    [256, 2, 100, 10, 3],
    'stored settings are kept unless the command line overrides them',
  );
  t.match(
    server.log(),
    /"setting":"engine\.max_sequences","value":2,"by":"MONOLITH_ENGINE_MAX_SEQUENCES","forgotten":1,.*setting given at startup replaces/,
  );
  t.match(server.log(), /"step_ms":100,.*applied engine settings from the dashboard/);
  t.equal(kept.tunables[1]?.default, 2);
  await client.patch('/operator/tunables/hal-1.0', { max_sequences: 3, queue_max_tokens: null });

  // A flag overrides a stored setting. Once the flag is no longer given, the stored value applies again.
  await server.stop();
  server = await startScripted({
    ...settings,
    args: ['--engine-queue-max', '20'],
    env: { ...settings.env, MONOLITH_ENGINE_MAX_SEQUENCES: '' },
  });
  client = dashboardClient(server.url);
  await client.login('operator@example.com');
  const flagged = await client.get<EngineTunables>('/operator/tunables/hal-1.0');
  t.same(
    flagged.tunables.map(({ value }) => value),
    [256, 3, 100, 20, 4_000_000],
  );
  t.same(
    flagged.tunables.map(({ given }) => given),
    [null, null, null, '--engine-queue-max', null],
  );
  const undone = await client.patch<EngineTunables>('/operator/tunables/hal-1.0', {
    max_sequences: null,
    queue_max: null,
    step_ms: null,
  });
  t.same(
    undone.tunables.map(({ value }) => value),
    [256, flagged.tunables[1]?.default, 250, 20, 4_000_000],
  );
});
