// Tests two server processes that share one PostgreSQL and one Redis; one of the processes has several HTTP workers.
// Changes to keys, organizations, sessions and settings on one process must take effect on the other within a second,
// even if notifications are lost. Usage must add up exactly. Also covers a database outage.
import { spawnSync } from 'node:child_process';
import t from 'tap';
import type { ApiKeyObject } from '../../src/shared/wire/api-keys.js';
import type { UsageRowObject } from '../../src/shared/wire/usage.js';
import type { LoginAnswer, Me, RecoveryCodes, SecondFactorProposal } from '../../src/shared/wire/users.js';
import { dashboardClient, PASSWORD, refusal, type DashboardClient } from '../support/dashboard-client.js';
import { codeOf, roomInStep } from '../support/one-time-codes.js';
import { leaveOutIf } from '../support/needed-programs.js';
import { startPostgres, withoutPostgres } from '../support/postgres.js';
import { startRedis, withoutRedis } from '../support/redis.js';
import { startScripted } from '../support/script-model.js';
import { clockAhead } from '../support/shifted-clock.js';
import { eventually, main } from './monolith.js';

t.setTimeout(300_000); // the machine may be busy

const AWAY_S = 8;
leaveOutIf(t, withoutPostgres, withoutRedis);
const postgres = await startPostgres();
t.teardown(() => postgres.close());
const redis = await startRedis();
t.teardown(() => redis.stop());
const state = postgres.url;
const start = (more: string[] = [], env: Record<string, string> = {}): ReturnType<typeof startScripted> =>
  startScripted({
    models: ['hal-1.0'],
    args: ['--database', state, '--redis', redis.url, '--database-stale-keys-s', String(AWAY_S), ...more],
    env: { MONOLITH_ACCOUNTS_SIGNUP: 'open', ...env },
  });
const a = await start();
t.teardown(() => a.stop());
// Server `b` has a clock that is ten minutes slow. No test may depend on the clock.
const BEHIND_MS = 600_000;
const b = await start(['--http-threads', '2', '--metrics-token', 'token-that-reads-all'], clockAhead(-BEHIND_MS));
t.teardown(() => b.stop());

const owner = dashboardClient(a.url);
const { organization } = await owner.signUp({ email: 'owner@example.com' });
const KEYS = `/organizations/${organization.id}/api-keys`;
const newKey = (): Promise<ApiKeyObject & { secret: string }> => owner.post(KEYS, { name: 'k' });
const sleep = (ms: number): Promise<void> =>
  new Promise((done) => {
    setTimeout(done, ms);
  });

const chat = (url: string, key: string): Promise<Response> =>
  fetch(`${url}/v1/chat/completions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
    body: JSON.stringify({ model: 'hal-1.0', messages: [{ role: 'user', content: 'A' }] }),
  });

/** Returns how a server responds to a key: the status and the error code. */
async function said(url: string, key: string, more: Record<string, string> = {}): Promise<string> {
  const response = await fetch(`${url}/v1/models`, { headers: { authorization: `Bearer ${key}`, ...more } });
  const { error } = (await response.json()) as { error?: { code: string } };
  return error === undefined ? String(response.status) : `${response.status} ${error.code}`;
}

/** Returns the distinct ways in which a server's HTTP workers respond to a key. New connections reach every worker. */
async function saidByThreads(url: string, key: string): Promise<string> {
  return [...new Set(await Promise.all(Array.from({ length: 8 }, () => said(url, key, { connection: 'close' }))))]
    .sort()
    .join(', ');
}

/**
 * Sends requests with `key` continuously, as a client would, until one second after `change`. Returns the response at
 * that time.
 */
async function aSecondAfter(change: () => Promise<unknown>, key: string): Promise<string> {
  let stop = false;
  const asking = (async () => {
    while (!stop) await said(b.url, key);
  })();
  try {
    await sleep(50);
    await change();
    await sleep(1_000);
    return await said(b.url, key);
  } finally {
    stop = true;
    await asking;
  }
}

t.test(
  'a key created on one server works on the other immediately, and its revocation takes effect within a second',
  async (t) => {
    for (let round = 0; round < 3; round++) {
      const { id, secret } = await newKey();
      t.equal(await said(b.url, secret), '200');
      t.equal(await aSecondAfter(() => owner.delete(`${KEYS}/${id}`), secret), '401 api_key_revoked');
    }
  },
);

t.test(
  'the overlap of a rotated key ends on time on both servers, and /readyz and the log report the clock skew',
  async (t) => {
    const { id, secret } = await newKey();
    await owner.post(`${KEYS}/${id}/rotate`, { overlap_seconds: 2 });
    t.same([await said(a.url, secret), await said(b.url, secret)], ['200', '200']);
    await sleep(2_100);
    t.same([await said(a.url, secret), await said(b.url, secret)], ['401 api_key_revoked', '401 api_key_revoked']);
    const ready = async (
      url: string,
      key: string,
    ): Promise<{ clock?: { state: string; skew_ms?: number; spread_ms?: number; threads?: number } }> =>
      (await (await fetch(`${url}/readyz`, { headers: { authorization: `Bearer ${key}` } })).json()) as {};
    t.same((await ready(b.url, 'sk-nobody')).clock, { state: 'skewed' });
    const { clock } = await ready(b.url, 'token-that-reads-all');
    t.ok(
      Math.abs(clock!.skew_ms! + BEHIND_MS) < 5_000 &&
        Math.abs(clock!.spread_ms! - BEHIND_MS) < 5_000 &&
        clock!.threads === 4,
      JSON.stringify(clock),
    );
    t.ok(
      await eventually(async () => (await ready(a.url, 'sk-nobody')).clock?.state === 'skewed'),
      'the process whose clock is right reports the skew too',
    );
    for (const server of [a, b])
      t.match(server.log(), /clock skew between this machine, the database and other processes/);
  },
);

t.test('a revocation takes effect within a second even if all notifications are lost', async (t) => {
  let cutting = true;
  const cut = (async () => {
    while (cutting)
      await postgres.ask(
        state,
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND (query LIKE 'LISTEN%' OR query = 'SELECT 1' OR query LIKE 'SELECT pg_notify%') AND state = 'idle'",
      );
  })();
  const { id, secret } = await newKey();
  t.equal(await said(b.url, secret), '200');
  t.equal(await aSecondAfter(() => owner.delete(`${KEYS}/${id}`), secret), '401 api_key_revoked');
  cutting = false;
  await cut;
});

t.test('suspending an organization and changing its limits take effect on both servers within a second', async (t) => {
  const { secret } = await newKey();
  const set = (body: object): Promise<unknown> => owner.patch(`/operator/organizations/${organization.id}`, body);
  t.equal(await aSecondAfter(() => set({ status: 'suspended' }), secret), '403 organization_suspended');
  t.equal(await aSecondAfter(() => set({ status: 'active' }), secret), '200');
  await aSecondAfter(() => set({ limits: { '*': { rpm: 1 } } }), secret);
  t.same([(await chat(b.url, secret)).status, (await chat(b.url, secret)).status], [200, 429]);
  t.equal(await aSecondAfter(() => set({ limits: {} }), secret), '200');
});

t.test('a session works on both servers, and logging out ends it on both immediately', async (t) => {
  const there = Object.assign(dashboardClient(b.url), { cookie: owner.cookie }) as DashboardClient;
  t.match(await there.get<Me>('/me'), { user: { email: 'owner@example.com', operator: true } });
  const { cookie } = await (async () => {
    const one = dashboardClient(a.url);
    await one.login('owner@example.com');
    return one;
  })();
  const again = Object.assign(dashboardClient(b.url), { cookie }) as DashboardClient;
  await again.logout();
  t.match(await refusal(Object.assign(dashboardClient(a.url), { cookie }).get('/me')), { status: 401 });
  t.match(
    await there.get<Me>('/me'),
    { user: { email: 'owner@example.com' } },
    'another session of the same user is still valid',
  );
});

t.test('a sign-in started on one server can be completed on the other', async (t) => {
  const user = dashboardClient(a.url);
  await user.signUp({ email: 'user@example.com' });
  const { secret } = await user.post<SecondFactorProposal>('/second-factor/begin', { password: PASSWORD });
  await roomInStep();
  await user.post<RecoveryCodes>('/second-factor/enable', { code: codeOf(secret, -1) });
  const answer = await dashboardClient(a.url).post<LoginAnswer>('/login', {
    email: 'user@example.com',
    password: PASSWORD,
  });
  if (!('second_factor' in answer)) throw new Error('signed in without a code');
  const there = dashboardClient(b.url);
  const code = codeOf(secret, 1);
  await there.post('/login/code', { ticket: answer.second_factor.ticket, code });
  t.match(await there.get<Me>('/me'), { user: { email: 'user@example.com' } });
  t.match(
    await refusal(dashboardClient(a.url).post('/login/code', { ticket: answer.second_factor.ticket, code })),
    { code: 'invalid_code', message: /already been used/ },
    'a one-time code is valid only once across servers',
  );
});

t.test('usage recorded by both servers adds up exactly', async (t) => {
  const { id, secret } = await newKey();
  const ask = async (url: string): Promise<{ prompt_tokens: number; completion_tokens: number }> =>
    ((await (await chat(url, secret)).json()) as { usage: { prompt_tokens: number; completion_tokens: number } }).usage;
  const used = (
    await Promise.all(
      Array.from({ length: 12 }, async (_, at) => {
        await sleep(at * 40);
        return [await ask(a.url), await ask(b.url)];
      }),
    )
  ).flat();
  const sum = async (): Promise<UsageRowObject | undefined> =>
    (
      await owner.get<{ data: UsageRowObject[] }>(
        `/organizations/${organization.id}/usage?group_by=api_key&bucket=day&api_keys=${id}`,
      )
    ).data[0];
  t.ok(await eventually(async () => (await sum())?.requests === 24));
  t.match(await sum(), {
    requests: 24,
    errors: 0,
    input_tokens: used.reduce((all, { prompt_tokens: one }) => all + one, 0),
    output_tokens: used.reduce((all, { completion_tokens: one }) => all + one, 0),
  });
  t.ok(
    await eventually(
      async () =>
        (await owner.get<{ data: unknown[] }>(`/organizations/${organization.id}/requests?api_key=${id}&limit=100`))
          .data.length === 24,
    ),
    'the request log has the requests of both servers',
  );
});

t.test('a budget spent on one server stops requests on both within 5 seconds', async (t) => {
  const { id, secret } = await newKey();
  await owner.fetch('/operator/prices', {
    method: 'PUT',
    body: { currency: 'EUR', models: { 'hal-1.0': { input: 1e6, cached_input: 1e6, output: 1e6 } } },
  });
  await owner.fetch(`/organizations/${organization.id}/budgets/${id}`, { method: 'PUT', body: { amount: 1 } });
  t.equal((await chat(a.url, secret)).status, 200);
  const statuses = (): Promise<number[]> =>
    Promise.all([a.url, b.url, b.url, b.url].map(async (url) => (await chat(url, secret)).status));
  t.ok(await eventually(async () => (await statuses()).every((status) => status === 429), 5_000));
});

t.test('CLI commands work on the shared database', async (t) => {
  const run = (...words: string[]): string =>
    spawnSync(process.execPath, [main, 'keys', ...words, '--database', state, '--organization', organization.id], {
      encoding: 'utf8',
    }).stdout.trim();
  const secret = run('create', '--name', 'by hand');
  t.equal(await said(b.url, secret), '200');
  t.match(run('list'), /by hand/);
});

t.test('a slow database delays requests but does not fail them, even with a key not seen before', async (t) => {
  const { secret } = await newKey();
  const slow = postgres.ask(
    state,
    'BEGIN; LOCK TABLE accounts_state IN ACCESS EXCLUSIVE MODE; SELECT pg_sleep(2.5); COMMIT',
  );
  // While the lock keeps recent changes from being read, the next poll starts within 300 ms and counts as overdue after
  // another second.
  await sleep(1_700);
  t.equal(await said(b.url, secret), '200');
  await slow;
  // Wait for the next poll. Otherwise, keys cached since an older poll would be valid for less time in the next test.
  await sleep(700);
});

t.test(
  'during a database outage, cached keys work for a limited time and unknown keys get 503; both recover afterwards',
  async (t) => {
    // Each HTTP worker caches keys on its own, and detects the outage and the recovery on its own.
    const both = async (key: string): Promise<string[]> => [await said(a.url, key), await saidByThreads(b.url, key)];
    const { secret } = await newKey();
    t.same(
      [...(await both(secret)), ...(await both('sk-nobody'))],
      ['200', '200', '401 invalid_api_key', '401 invalid_api_key'],
    );
    await postgres.kill(); // no clean shutdown, so the remaining lifetime of cached keys starts now
    const since = Date.now();
    t.ok(await eventually(async () => (await both('sk-nobody')).every((one) => one === '503 maintenance')));
    t.same(await both(secret), ['200', '200']);
    t.match(await refusal(owner.get('/me')), { status: 503 });
    // Check every worker, because one that still accepts the cached key would look as if it had already seen the
    // database recover.
    t.ok(await eventually(async () => (await both(secret)).every((one) => one === '503 maintenance')));
    t.ok(
      Date.now() - since >= (AWAY_S - 4) * 1000,
      'cached keys are not refused before their lifetime, counted from the last successful poll, has passed',
    );
    await postgres.start();
    t.ok(await eventually(async () => (await both(secret)).every((one) => one === '200')));
    t.same(await both('sk-nobody'), ['401 invalid_api_key', '401 invalid_api_key']);
    const { secret: another } = await newKey();
    t.same(await both(another), ['200', '200'], 'both servers accept new keys without a restart');
  },
);
