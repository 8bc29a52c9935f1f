// Tests the dashboard while the disk is full: every route that changes something, even revoking a key, returns 503
// `maintenance` and changes nothing. Reads succeed, and changes succeed again once there is space.
import { rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { packageRoot } from '../../src/engine/load-addon.js';
import type { ApiKeyObject } from '../../src/shared/wire/api-keys.js';
import type { InviteObject } from '../../src/shared/wire/organizations.js';
import type { Me } from '../../src/shared/wire/users.js';
import { dataFolder } from '../e2e/stored-server.js';
import { dashboardClient, PASSWORD, refusal } from '../support/dashboard-client.js';
import { startScripted } from '../support/script-model.js';

t.setTimeout(300_000); // the machine may be busy

const TOKEN = 'operator-token-of-the-test';
const data = dataFolder();
t.teardown(() => data.remove());
const full = join(data.path, 'full');
const server = await startScripted({
  models: ['hal-1.0'],
  args: ['--admin-token', TOKEN, '--admin-port', '0'],
  env: {
    MONOLITH_DATA_DIR: data.path,
    MONOLITH_ACCOUNTS_SIGNUP: 'open',
    LD_PRELOAD: join(packageRoot, 'build', 'Release', 'libstorage_faults.so'),
    FAULT_FILE: '/db/data.mdb',
    FAULT_FROM: full,
    FAULT_AT: '1',
    FAULT_HOW: 'full',
    FAULT_SEEN: join(data.path, 'seen'),
  },
});
t.teardown(() => server.stop());
const adminUrl = /"url":"([^"]*\/admin\/api)"/.exec(server.log())?.[1] ?? '';

const owner = dashboardClient(server.url);
const { organization, user } = await owner.signUp({ email: 'owner@example.com' });
const ORG = `/organizations/${organization.id}`;
const key = await owner.post<ApiKeyObject & { secret: string }>(`${ORG}/api-keys`, { name: 'k' });
const invite = await owner.post<InviteObject>(`${ORG}/invites`, { email: 'a@example.com', role: 'viewer' });
const colleague = dashboardClient(server.url);
const {
  user: { id: colleagueId },
} = await colleague.signUp({
  email: 'colleague@example.com',
  invite: new URL(
    (await owner.post<InviteObject>(`${ORG}/invites`, { email: 'colleague@example.com', role: 'developer' })).url!,
  ).searchParams.get('token')!,
});
const second = dashboardClient(server.url);
await second.login('owner@example.com');
const otherSession = (await owner.get<{ data: { id: string; current: boolean }[] }>('/sessions')).data.find(
  ({ current }) => !current,
)!.id;
const content = { settings: {}, columns: [{ model: 'hal-1.0', turns: [] }] };
const saved = await owner.post<{ id: string }>(`${ORG}/playground/saved`, { kind: 'preset', name: 'p', content });
const stored = (await (
  await fetch(`${server.url}/v1/responses`, {
    method: 'POST',
    headers: { authorization: `Bearer ${key.secret}`, 'content-type': 'application/json' },
    body: JSON.stringify({ model: 'hal-1.0', input: 'A: go' }),
  })
).json()) as { id: string };

type Change = readonly [method: string, path: string, body?: unknown];
const OPERATOR: readonly Change[] = [
  ['PATCH', `/organizations/${organization.id}`, { monthly_token_cap: 5 }],
  ['PATCH', `/users/${colleagueId}`, { locked: true }],
  ['POST', `/users/${colleagueId}/reset-link`],
  ['PATCH', '/models/hal-1.0', { lifecycle: 'deprecated' }],
  ['POST', '/models/hal-1.0/drain'],
  ['PATCH', '/tunables/hal-1.0', { step_ms: 50 }],
  ['PUT', '/prices', { currency: 'EUR', models: { 'hal-1.0': { input: 1, cached_input: 1, output: 1 } } }],
  [
    'PUT',
    '/tunables/hal-1.0/hold',
    {
      id: 'a hold of a test',
      is_new: true,
      seconds: 5,
      values: { max_batch_tokens: 256, max_sequences: 4, step_ms: 50 },
    },
  ],
];
const CHANGES: readonly Change[] = [
  ['POST', '/organizations', { name: 'another' }],
  ['PATCH', ORG, { name: 'renamed' }],
  ['PUT', `${ORG}/budget`, { amount: 5, mail: false, webhook_url: null }],
  ['PUT', `${ORG}/budgets/${key.id}`, { amount: 5 }],
  ['POST', `${ORG}/api-keys`, { name: 'k2' }],
  ['PATCH', `${ORG}/api-keys/${key.id}`, { name: 'k3' }],
  ['POST', `${ORG}/api-keys/${key.id}/rotate`, {}],
  ['DELETE', `${ORG}/api-keys/${key.id}`],
  ['POST', `${ORG}/invites`, { email: 'b@example.com', role: 'viewer' }],
  ['DELETE', `${ORG}/invites/${invite.id}`],
  ['PATCH', `${ORG}/members/${colleagueId}`, { role: 'viewer' }],
  ['DELETE', `${ORG}/members/${colleagueId}`],
  ['POST', `${ORG}/playground/saved`, { kind: 'preset', name: 'q', content }],
  ['PATCH', `${ORG}/playground/saved/${saved.id}`, { name: 'r' }],
  ['DELETE', `${ORG}/playground/saved/${saved.id}`],
  ['DELETE', `${ORG}/responses/${stored.id}`],
  ['PATCH', '/me', { name: 'renamed' }],
  ['DELETE', `/sessions/${otherSession}`],
  ['POST', '/password/change', { current_password: PASSWORD, new_password: 'another long password' }],
  ['POST', '/email/change', { email: 'new@example.com', password: PASSWORD }],
  ['POST', '/second-factor/begin', { password: PASSWORD }],
  ['POST', '/account/delete', { password: PASSWORD }],
  ['DELETE', ORG],
  ['POST', '/logout'],
  ...OPERATOR.map(([method, path, body]): Change => [method, `/operator${path}`, body]),
];
const OPEN: readonly Change[] = [
  ['POST', '/signup', { email: 'c@example.com', password: PASSWORD, name: 'C' }],
  ['POST', '/login', { email: 'owner@example.com', password: PASSWORD }],
  ['POST', '/password/forgot', { email: 'owner@example.com' }],
];

async function told(response: Response): Promise<string> {
  const body = (await response.json()) as { error?: { code: string; message: string } };
  return body.error === undefined ? String(response.status) : `${response.status} ${body.error.code}`;
}

t.test(
  'while the disk is full, changes get 503 maintenance and reads succeed; changes succeed again afterwards',
  async (t) => {
    const { cookie } = owner;
    // This request makes the client fetch its CSRF token.
    await owner.fetch('/me', { method: 'PATCH', body: { name: 'before' } });
    writeFileSync(full, '');
    for (const [method, path, body] of CHANGES) {
      owner.cookie = cookie;
      t.equal(
        await told(await owner.fetch(path, { method, ...(body === undefined ? {} : { body }) })),
        '503 maintenance',
        `${method} ${path}`,
      );
    }
    for (const [method, path, body] of OPEN)
      t.equal(
        await told(await dashboardClient(server.url).fetch(path, { method, body })),
        '503 maintenance',
        `${method} ${path}`,
      );
    for (const [method, path, body] of OPERATOR) {
      const init = {
        method,
        headers: {
          authorization: `Bearer ${TOKEN}`,
          ...(body === undefined ? {} : { 'content-type': 'application/json' }),
        },
        ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      };
      t.equal(await told(await fetch(`${adminUrl}${path}`, init)), '503 maintenance', `${method} ${adminUrl}${path}`);
    }
    owner.cookie = cookie;
    t.match(await owner.get<Me>('/me'), { user: { id: user.id, name: 'before' } });
    t.match(await owner.get(`${ORG}/api-keys`), { data: [{ id: key.id, name: 'k', status: 'active' }] });
    t.match(server.log(), /No space left on device[^\n]*database write refused/);
    t.notMatch(server.log(), /unexpected failure/);
    rmSync(full);
    t.match(await owner.delete(`${ORG}/api-keys/${key.id}`), { status: 'revoked' });
    t.match(await refusal(owner.get(`${ORG}/api-keys/none`)), { status: 404 });
  },
);
