// Tests two-factor authentication with one-time codes: enabling, sign-in, rate limits, recovery, and the requirement
// for operators.
import { request } from 'node:http';
import type { IncomingMessage } from 'node:http';
import t from 'tap';
import type { ListPage } from '../../src/shared/wire/list.js';
import type { AuditEntry } from '../../src/shared/wire/organizations.js';
import type {
  LoginAnswer,
  Me,
  OperatorUser,
  RecoveryCodes,
  SecondFactorProposal,
  SecondFactorState,
} from '../../src/shared/wire/users.js';
import { PASSWORD, refusal } from '../support/dashboard-client.js';
import type { DashboardClient } from '../support/dashboard-client.js';
import { startDashboard, folderDirectory } from '../support/dashboard-server.js';
import { codeOf, roomInStep } from '../support/one-time-codes.js';

t.setTimeout(300_000); // password hashing is slow on a busy machine

const KEYS = ['11'.repeat(32), '22'.repeat(32)] as const;

const dashboard = await startDashboard({ secrets: { signing_keys: [KEYS[0]] } });
t.teardown(() => dashboard.close());
let operator = dashboard.client();
await operator.signUp({ email: 'operator@example.com' });
let user = dashboard.client();
const {
  user: { id },
} = await user.signUp({ email: 'user@example.com' });

const ticketFor = async (client: DashboardClient, email = 'user@example.com'): Promise<string> => {
  const answer = await client.post<LoginAnswer>('/login', { email, password: PASSWORD });
  if (!('second_factor' in answer)) throw new Error('signed in without a code');
  return answer.second_factor.ticket;
};
const signIn = async (client: DashboardClient, code: string, email?: string): Promise<unknown> =>
  client.post('/login/code', { ticket: await ticketFor(client, email), code });
const forget = (): Promise<void> =>
  dashboard.inside((store) =>
    store.transaction(() => {
      for (const kind of ['code', 'password'] as const)
        folderDirectory(dashboard.server).attempts.clearAttempts(kind, id);
    }),
  );

/** Restarts the server with different settings; the clients keep their cookies. */
const restart = async (settings: object): Promise<void> => {
  await dashboard.restart(settings);
  [operator, user] = [operator, user].map(({ cookie }) => Object.assign(dashboard.client(), { cookie })) as [
    DashboardClient,
    DashboardClient,
  ];
};

let secret = '',
  turnedOn = '';
let recovery: string[] = [];

t.test('the second factor is enabled with a code computed from the secret', async (t) => {
  const elsewhere = dashboard.client();
  await elsewhere.login('user@example.com');
  t.match(await refusal(user.post('/second-factor/begin', { password: 'wrong' })), { status: 422, param: 'password' });
  t.match(
    await refusal(user.post('/second-factor/enable', { code: '123456' })),
    { status: 422, code: 'invalid_value', param: 'code' },
    'enabling fails if no setup was started',
  );
  const proposal = await user.post<SecondFactorProposal>('/second-factor/begin', { password: PASSWORD });
  secret = proposal.secret;
  t.match(proposal, {
    secret: /^[A-Z2-7]{32}$/,
    uri: `otpauth://totp/Monolith%20127.0.0.1%3A${new URL(dashboard.url).port}:user%40example.com?secret=${secret}&`,
  });
  t.match(await refusal(user.post('/second-factor/enable', { code: codeOf(secret, 5) })), {
    status: 401,
    code: 'invalid_code',
    param: 'code',
  });
  t.match(await user.get('/second-factor'), { enabled: false }, 'an unconfirmed setup does not count as enabled');
  await dashboard.client().login('user@example.com');
  await roomInStep();
  turnedOn = codeOf(secret, -1);
  const answer = await user.post<RecoveryCodes>('/second-factor/enable', { code: turnedOn });
  recovery = answer.recovery_codes;
  t.equal(new Set(recovery).size, 10);
  t.match(recovery[0], /^[A-Z2-7]{4}(-[A-Z2-7]{4}){3}$/);
  t.match(await user.get<SecondFactorState>('/second-factor'), {
    enabled: true,
    recovery_codes_left: 10,
    required: false,
  });
  t.match(await user.get<Me>('/me'), { user: { second_factor: true } });
  t.match(await refusal(elsewhere.get('/me')), { status: 401 }, 'sessions that were started without a code have ended');
  t.match(await refusal(user.post('/second-factor/begin', { password: PASSWORD })), {
    status: 422,
    code: 'invalid_value',
  });
  const stored = await dashboard.inside(async (store) => JSON.stringify([...store.table('second-factors').range()]));
  t.notMatch(stored, Buffer.from(secret).toString('base64'));
  t.notOk(
    stored.includes(secret) || recovery.some((code) => stored.includes(code.replaceAll('-', ''))),
    'the database has neither the secret nor the recovery codes in plain text',
  );
});

t.test('a sign-in needs the password and a code', async (t) => {
  const client = dashboard.client();
  t.match(await refusal(client.login('user@example.com', 'wrong')), { code: 'invalid_credentials' });
  const ticket = await ticketFor(client);
  t.equal(client.cookie, null, 'the password alone does not create a session');
  t.match(await refusal(client.post('/login/code', { ticket: 'acc1.nonsense', code: codeOf(secret) })), {
    status: 400,
    code: 'invalid_token',
    param: 'ticket',
  });
  t.match(await refusal(client.post('/login/code', { ticket, code: '000000' })), {
    status: 401,
    code: 'invalid_code',
    message: /wrong/,
  });
  t.match(
    await refusal(client.post('/login/code', { ticket, code: turnedOn })),
    { status: 401, code: 'invalid_code', message: /already been used/ },
    'the code used to enable the second factor cannot be reused',
  );
  const code = codeOf(secret, 1);
  const at = await Promise.allSettled(
    [dashboard.client(), dashboard.client()].map((one) => one.post('/login/code', { ticket, code })),
  );
  t.equal(
    at.filter(({ status }) => status === 'fulfilled').length,
    1,
    'one of two concurrent sign-ins with the same code succeeds',
  );
  t.match(await refusal(client.post('/login/code', { ticket, code })), {
    code: 'invalid_code',
    message: /already been used/,
  });
});

t.test('each recovery code works once', async (t) => {
  await forget();
  const client = dashboard.client();
  const [code = ''] = recovery;
  await signIn(client, ` ${code.toLowerCase().replaceAll('-', ' ')}`);
  t.match(await client.get('/me'), { user: { id } });
  t.match(await refusal(signIn(dashboard.client(), code)), { code: 'invalid_code', message: /recovery code/ });
  t.match(await client.get('/second-factor'), { recovery_codes_left: 9 });
  const { recovery_codes: next } = await client.post<RecoveryCodes>('/second-factor/recovery-codes', {
    code: recovery[1],
  });
  t.match(
    await refusal(signIn(dashboard.client(), recovery[2] ?? '')),
    { code: 'invalid_code' },
    'new recovery codes invalidate the earlier ones',
  );
  recovery = next;
  await signIn(dashboard.client(), recovery.pop() ?? '');
});

t.test('wrong codes are counted per user, regardless of the client address', async (t) => {
  await forget();
  const client = dashboard.client();
  const ticket = await ticketFor(client);
  const guesses = await Promise.all(
    Array.from({ length: 7 }, () => refusal(client.post('/login/code', { ticket, code: '000000' }))),
  );
  t.equal(guesses.filter(({ code }) => code === 'invalid_code').length, 5);
  t.equal(guesses.filter(({ status, code }) => status === 429 && code === 'too_many_attempts').length, 2);
  t.match(
    await refusal(client.post('/login/code', { ticket, code: recovery[0] })),
    { code: 'too_many_attempts' },
    'even a correct code is refused while the limit is exceeded',
  );
  for (let i = 0; i < 12; i++) await ticketFor(dashboard.client());
  t.pass('a correct password is not counted as a failed sign-in');
  await forget();
});

t.test('a sign-in ticket becomes invalid when the password changes', async (t) => {
  const ticket = await ticketFor(dashboard.client());
  const { url } = await operator.post<{ url: string }>(`/operator/users/${id}/reset-link`);
  await dashboard
    .client()
    .post('/password/reset', { token: new URL(url).searchParams.get('token'), password: PASSWORD });
  t.match(await refusal(dashboard.client().post('/login/code', { ticket, code: recovery[0] })), {
    code: 'invalid_token',
  });
  await signIn(user, recovery.shift() ?? '');
  t.pass('a password reset keeps the second factor enabled');
});

t.test('the stored secret survives a rotation of the signing keys', async (t) => {
  await restart({ secrets: { signing_keys: [KEYS[1], KEYS[0]] } });
  await restart({ secrets: { signing_keys: [KEYS[1]] } });
  const ticket = await ticketFor(dashboard.client());
  t.match(
    await refusal(dashboard.client().post('/login/code', { ticket, code: '000000' })),
    { code: 'invalid_code', message: /wrong/ },
    'the secret was re-encrypted while both keys were configured',
  );
  await restart({ secrets: { signing_keys: ['33'.repeat(32)] } });
  t.match(dashboard.logs.join(''), /cannot decrypt a two-factor secret/);
  t.match(await refusal(signIn(dashboard.client(), '000000')), {
    status: 422,
    code: 'invalid_value',
    message: /recovery code/,
  });
  await signIn(user, recovery.shift() ?? '');
  await restart({ secrets: { signing_keys: [KEYS[1]] } });
});

t.test('the second factor can be disabled by the user or reset by an operator', async (t) => {
  await forget();
  await operator.login('operator@example.com');
  t.match(await refusal(user.post('/second-factor/disable', { password: 'wrong', code: recovery[0] })), {
    param: 'password',
  });
  await user.post('/second-factor/disable', { password: PASSWORD, code: recovery[0] });
  await dashboard.client().login('user@example.com');
  const again = await user.post<SecondFactorProposal>('/second-factor/begin', { password: PASSWORD });
  await user.post('/second-factor/enable', { code: codeOf(again.secret) });
  t.match(await refusal(user.delete(`/operator/users/${id}/second-factor`)), { code: 'role_not_allowed' });
  const { data } = await operator.get<ListPage<OperatorUser>>('/operator/users');
  t.equal(data.find((one) => one.id === id)?.second_factor, true);
  await operator.delete(`/operator/users/${id}/second-factor`);
  t.match(await refusal(operator.delete(`/operator/users/${id}/second-factor`)), { status: 404 });
  t.match(await refusal(user.get('/me')), { status: 401 }, 'all sessions of the user have ended');
  await user.login('user@example.com');
  const { data: entries } = await operator.get<ListPage<AuditEntry>>('/operator/audit-log?limit=100');
  const said = entries.filter(({ target }) => target === id).map(({ action }) => action);
  for (const action of ['enabled', 'disabled', 'reset']) t.ok(said.includes(`user.second_factor_${action}`), action);
  t.ok(said.includes('user.recovery_code_used') && said.includes('user.recovery_codes_replaced'));
});

t.test('operators without a second factor are refused where it is required', async (t) => {
  await restart({ accounts: { operator_second_factor: 'required' } });
  t.match(await operator.get<Me>('/me'), { second_factor_missing: true });
  t.match(await user.get<Me>('/me'), { second_factor_missing: false });
  t.match(await refusal(operator.get('/operator/users')), { status: 403, code: 'second_factor_required' });
  const { secret: own } = await operator.post<SecondFactorProposal>('/second-factor/begin', { password: PASSWORD });
  const {
    recovery_codes: [code],
  } = await operator.post<RecoveryCodes>('/second-factor/enable', { code: codeOf(own) });
  await operator.get('/operator/users');
  t.match(await operator.get<Me>('/me'), { second_factor_missing: false });
  t.match(await refusal(operator.post('/second-factor/disable', { password: PASSWORD, code })), {
    status: 403,
    code: 'second_factor_required',
  });
});

t.test('a Host header with an invalid port is accepted', async (t) => {
  const client = dashboard.client();
  await client.signUp({ email: 'odd-host@example.com' });
  const { csrf_token: token } = await client.get<Me>('/me');
  const host = '127.0.0.1:99999';
  const answer = await new Promise<IncomingMessage>((resolve, reject) => {
    request(
      `${dashboard.url}/dashboard/api/second-factor/begin`,
      {
        method: 'POST',
        headers: {
          host,
          origin: `http://${host}`,
          cookie: `sid=${client.cookie ?? ''}`,
          'x-csrf-token': token,
          'content-type': 'application/json',
        },
      },
      resolve,
    )
      .on('error', reject)
      .end(JSON.stringify({ password: PASSWORD }));
  });
  answer.resume();
  t.equal(answer.statusCode, 200, 'the host is used only as a label in the authenticator app');
});
