// Fuzzes the dashboard and operator APIs with signed-in users of several organizations: bodies, queries and ids are
// mutated. node scripts/fuzz/dashboard.mjs --seconds N [--seed N] [--clients N] | --run FILE. Started by
// scripts/fuzz.mjs as the `dashboard` target. whole-server.mjs defines what counts as a failure.
import { built, fuzzServer, SeenIds, wordsOf } from './whole-server.mjs';

const { dashboardClient, PASSWORD } = await built('support', 'dashboard-client.js');
const API = '/dashboard/api';
const PEOPLE = 12;
const MODEL = 'tycho-1.0';
const ORG = '/organizations/:org';
const limits = { '*': { rpm: 10_000, tpm: 1_000_000 }, [MODEL]: { rpm: 600 } };
const settings = { max_batch_tokens: 512, max_sequences: 8, step_ms: 20 };
const turn = {
  kind: 'answer',
  model: MODEL,
  text: 'yes',
  reasoning: '',
  finish_reason: 'stop',
  calls: [{ id: 'c', name: 'f', arguments: '{}' }],
  results: { c: '1' },
  usage: { prompt: 3, cached: 0, completion: 2, reasoning: 0 },
  first_ms: 3,
  total_ms: 9,
};
const trial = {
  number: 1,
  phase: 'search',
  settings,
  load: 2,
  seconds: 3,
  throughput: 4,
  goodput: 5,
  output_tokens_per_s: 6,
  ttft_ms: [1, 2],
  itl_ms: null,
  verdicts: [{ name: 'ttft', limit: 1, value: null, met: true }],
  met: true,
  stopped: false,
  errors: { a: 1 },
  front: true,
};
const run = {
  object: 'tune_run',
  id: ':run',
  model: MODEL,
  state: 'running',
  error: null,
  by: 'me',
  started_at: '2026-11-27T10:00:00Z',
  ended_at: null,
  objectives: ['ttft'],
  workload: 'chat',
  load_kind: 'concurrency',
  trials_planned: 3,
  trial_s: 1,
  seed: 1,
  apply: false,
  before: settings,
  phase: 'search',
  trials: [trial],
  result: null,
};

const own = [
  ['GET', '/status'],
  ['GET', '/me'],
  ['PATCH', '/me', { name: 'Somebody' }],
  ['GET', '/sessions?limit=2&after=:session'],
  ['DELETE', '/sessions/:session'],
  ['POST', '/login', { email: 'nobody@example.com', password: PASSWORD }],
  ['POST', '/login/code', { ticket: 'a', code: '123456' }],
  ['POST', '/password/forgot', { email: 'nobody@example.com' }],
  ['POST', '/password/reset', { token: ':token', password: PASSWORD }],
  ['POST', '/password/change', { current_password: 'wrong', new_password: PASSWORD }],
  ['POST', '/email/verify', { token: ':token' }],
  ['POST', '/email/change', { email: 'other@example.com', password: PASSWORD }],
  ['POST', '/email/change/confirm', { token: ':token' }],
  ['GET', '/second-factor'],
  ['POST', '/second-factor/begin', { password: PASSWORD }],
  ['POST', '/second-factor/enable', { code: '123456' }],
  ['GET', '/invites/:token'],
  ['POST', '/invites/:token/accept', {}],
  ['GET', '/organizations?limit=2&after=:org'],
  ['POST', '/organizations', { name: 'Another' }],
];
const organization = [
  ['GET', ORG],
  ['PATCH', ORG, { name: 'Renamed', request_text: true }],
  ['GET', `${ORG}/api-keys?limit=2&after=:key`],
  [
    'POST',
    `${ORG}/api-keys`,
    { name: 'k', models: ['*'], scopes: ['inference', 'models.read'], expires_at: '2027-01-31T12:00:00Z', limits },
  ],
  [
    'PATCH',
    `${ORG}/api-keys/:key`,
    { name: 'k2', models: [MODEL], scopes: ['inference'], expires_at: null, limits: null },
  ],
  ['POST', `${ORG}/api-keys/:key/rotate`, { overlap_seconds: 60 }],
  ['DELETE', `${ORG}/api-keys/:key`],
  ['GET', `${ORG}/members?limit=2`],
  ['PATCH', `${ORG}/members/:user`, { role: 'viewer' }],
  ['DELETE', `${ORG}/members/:user`],
  ['GET', `${ORG}/service-accounts?limit=2`],
  ['POST', `${ORG}/service-accounts`, { name: 'build', role: 'developer' }],
  ['GET', `${ORG}/service-accounts/:account`],
  ['PATCH', `${ORG}/service-accounts/:account`, { name: 'nightly', role: 'admin', disabled: false }],
  ['DELETE', `${ORG}/service-accounts/:account`],
  ['GET', `${ORG}/dashboard-addresses`],
  ['PUT', `${ORG}/dashboard-addresses`, { allowed_addresses: ['127.0.0.1', '10.0.0.0/8'] }],
  ['GET', `${ORG}/invites?limit=2&after=:invite`],
  ['POST', `${ORG}/invites`, { email: 'guest@example.com', role: 'developer' }],
  ['DELETE', `${ORG}/invites/:invite`],
  ['GET', `${ORG}/limits`],
  ['GET', `${ORG}/models`],
  ['GET', `${ORG}/prices`],
  ['GET', `${ORG}/budget`],
  ['PUT', `${ORG}/budget`, { amount: 5.5, mail: false, webhook_url: 'http://127.0.0.1:9/hook' }],
  [
    'GET',
    `${ORG}/usage?bucket=hour&group_by=model,api_key,endpoint&from=2026-11-01&to=2026-12-01&models=a&api_keys=:key&limit=2`,
  ],
  ['GET', `${ORG}/usage.csv?bucket=day&group_by=model`],
  ['GET', `${ORG}/usage/latency?bucket=hour&group_by=model&from=2026-11-27T00:00:00Z`],
  ['GET', `${ORG}/requests?limit=2&after=:next&outcome=completed&model=${MODEL}&api_key=:key`],
  ['GET', `${ORG}/requests/:request`],
  ['GET', `${ORG}/responses?limit=2`],
  ['GET', `${ORG}/responses/:response`],
  ['DELETE', `${ORG}/responses/:response`],
  ['GET', `${ORG}/audit-log?limit=2&after=:next`],
  ['GET', `${ORG}/playground/image?model=${MODEL}&width=64&height=64`],
  [
    'POST',
    `${ORG}/playground`,
    { model: MODEL, max_tokens: 2, stream: true, messages: [{ role: 'user', content: 'hi' }] },
  ],
  ['GET', `${ORG}/playground/saved?kind=preset&limit=2`],
  [
    'POST',
    `${ORG}/playground/saved`,
    {
      kind: 'conversation',
      name: 'talk',
      shared: true,
      expires_at: null,
      content: {
        settings: { temperature: '1' },
        columns: [{ model: MODEL, turns: [{ kind: 'user', text: 'hi' }, turn] }],
      },
    },
  ],
  ['GET', `${ORG}/playground/saved/:saved`],
  [
    'PATCH',
    `${ORG}/playground/saved/:saved`,
    { name: 'other', shared: false, content: { settings: {}, columns: [{ model: MODEL, turns: [] }] } },
  ],
  ['DELETE', `${ORG}/playground/saved/:saved`],
];
const operator = [
  ['GET', '/users?limit=2&after=:user'],
  ['PATCH', '/users/:user', { locked: false, operator: false }],
  ['DELETE', '/users/:user/second-factor'],
  ['POST', '/users/:user/reset-link', {}],
  ['GET', '/organizations?limit=2'],
  ['GET', ORG],
  ['PATCH', ORG, { status: 'active', limits, monthly_token_cap: 1_000_000 }],
  ['GET', '/models'],
  ['GET', `/models/${MODEL}`],
  [
    'PATCH',
    `/models/${MODEL}`,
    {
      lifecycle: 'deprecated',
      deprecated_at: '2026-12-01T00:00:00Z',
      retires_at: '2027-12-01T00:00:00Z',
      successor: 'hal-1.0',
    },
  ],
  ['POST', '/models', { name: 'mine', model: 'somebody/something:Q8_0', display_name: 'Mine', idle_minutes: 5 }],
  ['DELETE', '/models/mine'],
  ['POST', `/models/${MODEL}/load`, {}],
  ['GET', '/prices'],
  ['PUT', '/prices', { currency: 'EUR', models: { [MODEL]: { input: 1, cached_input: 0.1, output: 2 } } }],
  ['GET', '/tunables'],
  ['GET', `/tunables/${MODEL}`],
  [
    'PATCH',
    `/tunables/${MODEL}`,
    { max_batch_tokens: 512, max_sequences: 8, step_ms: 20, queue_max: 64, queue_max_tokens: 100_000 },
  ],
  ['PUT', `/tunables/${MODEL}/hold`, { id: 'holder-01', is_new: true, seconds: 1, values: settings }],
  ['DELETE', `/tunables/${MODEL}/hold?id=holder-01`],
  ['GET', '/tuning'],
  [
    'POST',
    '/tuning',
    {
      model: MODEL,
      slo: 'ttft_p99<200ms',
      workload: { kind: 'fixed', prompt_tokens: 8, output_tokens: 2 },
      load: 'concurrency',
      trials: 16,
      trial_s: 0.2,
      apply: false,
    },
  ],
  ['GET', '/tuning/:run'],
  ['PUT', '/tuning/:run', run],
  ['DELETE', '/tuning/:run'],
  ['GET', `/request-shapes?model=${MODEL}`],
  ['GET', '/requests?limit=2&organization=:org&outcome=failed'],
  ['GET', '/requests/:request'],
  ['GET', '/audit-log?limit=2&after=:next&organization=:org'],
  ['GET', '/disk'],
  ['POST', '/pulls', { model: 'somebody/something:Q8_0' }],
  ['DELETE', '/pulls/:pull'],
  ['GET', '/usage?from=2026-11-01&to=2026-12-01&organization=:org&limit=2'],
  ['GET', '/live/history?from=2026-11-27T00:00:00Z&to=2026-11-28T00:00:00Z'],
  ['GET', '/live/keys?from=2026-11-27T00:00:00Z'],
];
const seeds = [
  ...own,
  ...organization,
  ...operator.map(([method, path, body]) => [method, `/operator${path}`, body]),
].map(([method, path, body]) => [method, API + path, body]);

await fuzzServer({
  name: 'dashboard',
  seeds,
  words: wordsOf('dashboard/api', 'dashboard/admin', 'accounts'),
  env: {
    MONOLITH_LIMITS_RPM: 'off',
    MONOLITH_LIMITS_TPM: 'off',
    MONOLITH_LIMITS_EVENT_LOOP_MS: 'off',
    MONOLITH_HTTP_THREADS: '2',
    MONOLITH_ACCOUNTS_SIGNUP: 'open',
    MONOLITH_HUB_ENDPOINT: 'http://127.0.0.1:9',
  },
  callersOf: async (server, below) => {
    const seenBy = () =>
      new SeenIds({
        session: 'sess_',
        key: 'key_',
        user: 'user_',
        invite: 'inv_',
        account: 'svc_',
        token: /(?:invite|token)=([A-Za-z0-9_.-]{20,200})/g,
        request: 'req_',
        response: 'resp_',
        saved: 'sav_',
        pull: 'pul_',
        run: 'tun_',
        org: 'org_',
        next: /"next(?:_page)?":"([^"]{1,512})"/g,
      });
    const all = seenBy();
    let made = 0;
    async function newPerson() {
      const client = dashboardClient(server.url);
      const { user, organization } = await client.signUp({ email: `fuzz${++made}@example.com` });
      const { csrf_token: token } = await client.get('/me');
      return {
        id: user.id,
        organization: organization.id,
        seen: seenBy(),
        headers: { cookie: `sid=${client.cookie}`, origin: server.url, 'x-csrf-token': token },
      };
    }
    // The operator never sends requests that would end its own session, and other users' requests never target the
    // operator.
    const operator = await newPerson();
    const people = [];
    while (people.length < PEOPLE) people.push(await newPerson());

    async function caller(_, path) {
      const isOperator = path.startsWith(`${API}/operator`);
      const at = below(people.length),
        one = isOperator ? operator : people[at];
      // Requests usually use the ids of the user's own objects, and sometimes the ids of another user's objects.
      const ids = { ...(below(16) === 0 ? all : one.seen).ids };
      ids.org = isOperator || below(16) === 0 ? people.map(({ organization }) => organization) : [one.organization];
      ids.user = [...(ids.user ?? []), ...people.map(({ id }) => id)].filter((id) => id !== operator.id);
      ids.token = all.ids.token; // a token link works for any user
      return {
        headers: one.headers,
        ids,
        told(status, text) {
          if (status === 200) for (const seen of [all, one.seen]) seen.hear(text.slice(0, 16_384));
          // The user was signed out, locked or deleted: replace the user if sign-up is still possible.
          if (
            status === 401 &&
            !isOperator &&
            !/\/(login|password|email|second-factor)/.test(path) &&
            people[at] === one
          ) {
            newPerson().then(
              (next) => {
                people[at] = next;
              },
              () => undefined,
            );
          }
        },
      };
    }
    return { caller };
  },
});
