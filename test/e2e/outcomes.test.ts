// Tests how operators see request outcomes in /metrics, in the log and in the live view, for every API format and
// transport. The HTTP status is not enough, because it is sent long before most failures occur.
import t, { type Test } from 'tap';
import { readEvents } from '../../src/dashboard/web/src/live/event-reader.js';
import type { CreatedApiKey } from '../../src/shared/wire/api-keys.js';
import type { LiveSample } from '../../src/shared/wire/live.js';
import { dashboardClient } from '../support/dashboard-client.js';
import { startScripted } from '../support/script-model.js';
import { Connection } from '../support/web-socket.js';
import { ask, get, post } from '../support/wire.js';
import { eventually } from './monolith.js';

t.setTimeout(300_000); // the machine may be busy

// The engine runs one sequence at a time. A stream's headers are sent long before its queued request times out.
const server = await startScripted({
  args: ['--engine-max-sequences', '1'],
  env: {
    MONOLITH_ENGINE_QUEUE_WAIT_MS: '400',
    MONOLITH_HTTP_KEEPALIVE_MS: '100',
    MONOLITH_METRICS_TOKEN: 'a-scrape-token-0123',
  },
});
t.teardown(() => server.stop());
const operator = dashboardClient(server.url);
await operator.signUp();
const tenant = dashboardClient(server.url);
const { organization } = await tenant.signUp();
const { secret } = await tenant.post<CreatedApiKey>(`/organizations/${organization.id}/api-keys`, { name: 'k' });
const asTenant = { authorization: `Bearer ${secret}` };

const RESPONSES = '/v1/responses';
const formats: readonly { path: string; body(text: string, tokens: number): object }[] = [
  {
    path: '/v1/chat/completions',
    body: (text, tokens) => ({
      model: 'hal-1.0',
      stream: true,
      messages: [{ role: 'user', content: text }],
      max_completion_tokens: tokens,
    }),
  },
  {
    path: '/v1/messages',
    body: (text, tokens) => ({
      model: 'hal-1.0',
      stream: true,
      messages: [{ role: 'user', content: text }],
      max_tokens: tokens,
    }),
  },
  {
    path: RESPONSES,
    body: (text, tokens) => ({ model: 'hal-1.0', stream: true, input: text, max_output_tokens: tokens, store: false }),
  },
];
const endless = { model: 'hal-1.0', input: 'L: x', max_output_tokens: 15_000 };

/** The outcomes counted since the server started, as "kind endpoint outcome code". */
async function outcomes(): Promise<Record<string, number>> {
  const counted: Record<string, number> = {};
  for (const [name, value] of await server.metrics()) {
    const [, kind, endpoint, outcome, code] =
      /^monolith_outcomes_total\{kind="(.*)",endpoint="(\/v1\/.*)",outcome="(.*)",code="(.*)"\}$/.exec(name) ?? [];
    if (kind !== undefined) counted[`${kind} ${endpoint} ${outcome} ${code}`.trim()] = value;
  }
  return counted;
}

/** Checks that `work` adds exactly the `expected` outcomes, waiting until they have been counted. */
async function adds(t: Test, expected: Record<string, number>, work: () => Promise<void>): Promise<void> {
  const before = await outcomes();
  await work();
  const added = async (): Promise<Record<string, number>> =>
    Object.fromEntries(
      Object.entries(await outcomes())
        .map(([name, value]) => [name, value - (before[name] ?? 0)] as const)
        .filter(([, value]) => value > 0),
    );
  await eventually(
    async () =>
      JSON.stringify(Object.entries(await added()).sort()) === JSON.stringify(Object.entries(expected).sort()),
    10_000,
  );
  t.same(await added(), expected);
}

/** Runs `work` while one of the first organization's requests occupies the engine's only sequence slot. */
async function occupied(work: () => Promise<void>): Promise<void> {
  const leaving = new AbortController();
  const stream = await fetch(`${server.url}/v1/chat/completions`, {
    method: 'POST',
    signal: leaving.signal,
    headers: { authorization: `Bearer ${server.key}`, 'content-type': 'application/json' },
    body: JSON.stringify({
      model: 'hal-1.0',
      stream: true,
      messages: [{ role: 'user', content: 'L: x' }],
      max_completion_tokens: 15_000,
    }),
  });
  const reader = stream.body!.getReader();
  for (let seen = ''; !seen.includes('upon'); ) seen += Buffer.from((await reader.read()).value ?? []).toString();
  reader.releaseLock();
  const whole = stream.body!.pipeTo(new WritableStream()).then(
    () => true,
    () => false,
  );
  await work();
  leaving.abort();
  if (await whole) throw new Error('the sequence slot was free before the end');
}

const lines = (path: string, method = 'POST'): Record<string, unknown>[] =>
  server
    .log()
    .split('\n')
    .flatMap((line) => (line === '' ? [] : [JSON.parse(line) as Record<string, unknown>]))
    .filter((line) => line['path'] === path && line['method'] === method);

for (const { path, body } of formats) {
  t.test(`a request refused after its stream has started counts as refused: ${path}`, async (t) => {
    await adds(t, { [`http ${path} refused capacity_exhausted`]: 1, 'http /v1/chat/completions cancelled': 1 }, () =>
      occupied(async () => {
        const response = await post(server, path, body('A: x', 20));
        t.equal(response.status, 200);
        t.match(await response.text(), /capacity_exhausted/);
      }),
    );
    const metrics = await server.metrics();
    t.equal(metrics.get(`monolith_http_requests_total{endpoint="${path}",status="200",code="capacity_exhausted"}`), 1);
    t.equal(metrics.get(`monolith_rejected_total{endpoint="${path}",code="capacity_exhausted"}`), 1);
    t.match(
      lines(path).find(({ code }) => code === 'capacity_exhausted'),
      { level: 'warn', status: 200, outcome: 'refused' },
    );
  });

  t.test(`requests count as failed, cancelled, completed or refused: ${path}`, async (t) => {
    await adds(
      t,
      {
        [`http ${path} failed organization_suspended`]: 1,
        [`http ${path} cancelled`]: 1,
        [`http ${path} completed`]: 1,
        [`http ${path} refused model_not_found`]: 1,
      },
      async () => {
        const response = await post(server, path, body('L: x', 15_000), asTenant);
        const reader = response.body!.getReader();
        let text = '';
        for (let suspended = false; ; ) {
          const { value, done } = await reader.read();
          if (done) break;
          text += Buffer.from(value).toString();
          if (suspended || !text.includes('upon')) continue;
          suspended = true;
          await operator.patch(`/operator/organizations/${organization.id}`, { status: 'suspended' });
        }
        t.match(text, /suspended/);
        await operator.patch(`/operator/organizations/${organization.id}`, { status: 'active' });
        await (await post(server, path, body('L: x', 15_000))).body!.cancel();
        t.ok(
          await eventually(
            async () => (await server.metrics()).get('monolith_sequences_running{model="hal-1.0"}') === 0,
          ),
        );
        await (await post(server, path, body('A: x', 20))).text();
        t.equal((await ask(server, path, { ...body('A: x', 20), model: 'none' })).status, 404);
      },
    );
    const broken = lines(path).find(({ code }) => code === 'organization_suspended');
    t.match(broken, { level: 'warn', status: 200, outcome: 'failed' });
    t.ok(Number(broken?.['completion_tokens']) > 0);
    t.match(
      lines(path).find(({ outcome }) => outcome === 'cancelled'),
      { level: 'info' },
    );
    t.match(
      lines(path).find(({ outcome }) => outcome === 'completed'),
      { level: 'info', code: null },
    );
  });
}

t.test('every turn of a WebSocket has its own outcome', async (t) => {
  await adds(
    t,
    {
      'websocket /v1/responses refused capacity_exhausted': 1,
      'websocket /v1/responses completed': 1,
      'http /v1/responses completed': 1,
      'http /v1/chat/completions cancelled': 1,
    },
    async () => {
      const connection = await Connection.open(server);
      await occupied(async () => {
        t.match(await connection.refused({ input: 'A: x' }), { status: 503 });
      });
      t.equal((await connection.turn({ input: 'A: x' })).at(-1)?.type, 'response.completed');
      await connection.close();
    },
  );
  await adds(
    t,
    {
      'websocket /v1/responses failed organization_suspended': 1,
      'websocket /v1/responses cancelled': 1,
      'http /v1/responses completed': 2,
    },
    async () => {
      const tenants = await Connection.open({ port: server.port, key: secret });
      tenants.send(endless);
      while ((await tenants.next()).type !== 'response.output_text.delta');
      await operator.patch(`/operator/organizations/${organization.id}`, { status: 'suspended' });
      t.equal((await tenants.rest()).at(-1)?.type, 'response.failed');
      await operator.patch(`/operator/organizations/${organization.id}`, { status: 'active' });
      await tenants.close();
      const leaver = await Connection.open(server);
      leaver.send(endless);
      await leaver.next();
      await leaver.close();
    },
  );
  t.match(
    lines(RESPONSES, 'WEBSOCKET').find(({ outcome }) => outcome === 'failed'),
    { level: 'warn', code: 'organization_suspended', status: 403 },
  );
});

t.test('a background response has its own outcome, separate from the request that created it', async (t) => {
  const begin = async (body: object): Promise<string> => {
    const answer = await ask(server, RESPONSES, { ...body, background: true });
    t.match(answer, { status: 200, body: { status: 'queued' } });
    return (answer.body as { id: string }).id;
  };
  const ended = (id: string): Promise<boolean> =>
    eventually(
      async () =>
        !/queued|in_progress/.test(((await get(server, `${RESPONSES}/${id}`)).body as { status: string }).status),
    );
  const before = await server.metrics();
  const [shed, whole, stopped] = [[], [], []] as string[][];
  await occupied(async () => {
    shed!.push(await begin({ ...endless, input: 'A: x' }));
    t.ok(await ended(shed![0]!));
  });
  whole!.push(await begin({ ...endless, input: 'A: x' }));
  t.ok(await ended(whole![0]!));
  stopped!.push(await begin(endless));
  t.equal((await ask(server, `${RESPONSES}/${stopped![0]}/cancel`, {})).status, 200);
  const after = await server.metrics();
  for (const [outcome, code] of [
    ['refused', 'capacity_exhausted'],
    ['completed', ''],
    ['cancelled', ''],
  ] as const) {
    const name = `monolith_outcomes_total{kind="background",endpoint="${RESPONSES}",outcome="${outcome}",code="${code}"}`;
    t.equal(after.get(name), 1, name);
  }
  const requests = `monolith_http_requests_total{endpoint="${RESPONSES}",status="200",code=""}`;
  t.equal(after.get(requests)! - before.get(requests)!, 3, 'background responses do not count as HTTP requests');
  t.match(lines(RESPONSES, 'BACKGROUND'), [
    { level: 'warn', response_id: shed![0], outcome: 'refused', code: 'capacity_exhausted', model: 'hal-1.0' },
    { level: 'info', response_id: whole![0], outcome: 'completed', code: null, finish: 'end_of_turn' },
    { level: 'info', response_id: stopped![0], outcome: 'cancelled' },
  ]);
});

t.test('the live view counts requests by outcome', async (t) => {
  const events = readEvents((await operator.fetch('/operator/live')).body!, { idleMs: 10_000 })[Symbol.asyncIterator]();
  const next = async (): Promise<LiveSample> => {
    const { value } = (await events.next()) as IteratorResult<{ event: string; data: string }, undefined>;
    return JSON.parse(value!.data) as LiveSample;
  };
  await next(); // the first sample covers earlier requests
  while ((await next()).requests !== 0); // later samples may contain the rest of these requests
  const sums = { requests: 0, rejected_503: 0, rejected_429: 0, errors: 0, cancelled: 0 };
  await occupied(async () => {
    await Promise.all(formats.map(async ({ path, body }) => (await post(server, path, body('A: x', 20))).text()));
  });
  const response = await post(server, RESPONSES, formats[2]!.body('L: x', 15_000), asTenant);
  const reading = response.text();
  t.ok(await eventually(async () => (await server.metrics()).get('monolith_sequences_running{model="hal-1.0"}') === 1));
  await operator.patch(`/operator/organizations/${organization.id}`, { status: 'suspended' });
  await reading;
  await operator.patch(`/operator/organizations/${organization.id}`, { status: 'active' });
  for (let samples = 0; samples < 30 && sums.requests < 5; samples++) {
    const sample = await next();
    for (const name of Object.keys(sums) as (keyof typeof sums)[]) sums[name] += sample[name];
  }
  t.same(sums, { requests: 5, rejected_503: 3, rejected_429: 0, errors: 1, cancelled: 1 });
  await events.return?.();
});

t.test("only an operator's credentials can read /metrics and the details of /readyz", async (t) => {
  const metrics = async (token: string | null, path = '/metrics'): Promise<{ status: number; text: string }> => {
    const response = await fetch(
      server.url + path,
      token === null ? {} : { headers: { authorization: `Bearer ${token}` } },
    );
    return { status: response.status, text: await response.text() };
  };
  t.match(await metrics(null), { status: 401, text: 'missing_api_key' });
  t.match(await metrics(secret), { status: 403, text: 'endpoint_not_allowed' });
  t.match(await metrics('a-scrape-token-0124'), { status: 401, text: 'invalid_api_key' });
  t.equal((await metrics('a-scrape-token-0123')).status, 200);
  t.equal(
    (await fetch(`${server.url}/metrics`, { headers: { 'x-api-key': server.key } })).status,
    200,
    'the API key from the settings',
  );
  t.equal(
    (await get(server, '/v1/models', { authorization: 'Bearer a-scrape-token-0123' })).status,
    401,
    'the scrape token is not an API key',
  );

  // A key has its creator's permissions. An operator's key can read /metrics regardless of its organization, and a
  // member's key cannot.
  const mine = (await operator.get<{ organizations: { id: string }[] }>('/me')).organizations[0]!.id;
  const own = await operator.post<CreatedApiKey>(`/organizations/${mine}/api-keys`, { name: 'scraper' });
  t.equal((await metrics(own.secret)).status, 200);
  const member = dashboardClient(server.url);
  const invited = await operator.post<{ url: string }>(`/organizations/${mine}/invites`, {
    email: 'member@example.com',
    role: 'developer',
  });
  const { user } = await member.signUp({
    email: 'member@example.com',
    invite: new URL(invited.url).searchParams.get('token') ?? invited.url.split(/[/=]/).at(-1)!,
  });
  const theirs = await member.post<CreatedApiKey>(`/organizations/${mine}/api-keys`, { name: 'app' });
  t.equal((await metrics(theirs.secret)).status, 403, 'a key created by a member of the same organization');
  await operator.patch(`/operator/users/${user.id}`, { operator: true });
  t.equal((await metrics(theirs.secret)).status, 200, 'the member is an operator now');
  await operator.patch(`/operator/users/${user.id}`, { operator: false });
  t.equal((await metrics(theirs.secret)).status, 403);

  for (const token of [null, secret, 'nonsense']) {
    const { status, text } = await metrics(token, '/readyz');
    t.equal(status, 200);
    t.same(JSON.parse(text), {
      status: 'ready',
      draining: false,
      models: ['hal-1.0', 'clarke-1.0', 'tycho-1.0'].map((name) => ({ name, state: 'ready', progress: 1 })),
    });
  }
  for (const token of [server.key, 'a-scrape-token-0123'])
    t.match(JSON.parse((await metrics(token, '/readyz')).text), {
      reason: null,
      models: [{ error: null, running: 0, waiting: 0 }, {}, {}],
    });
});
