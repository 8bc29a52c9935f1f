// Tests changing and resetting passwords, on a server that sends email through a real SMTP server and on one that sends
// no email.
import t from 'tap';
import { SMTPServer } from 'smtp-server';
import type { AddressInfo } from 'node:net';
import type { InviteObject } from '../../src/shared/wire/organizations.js';
import type { Me } from '../../src/shared/wire/users.js';
import { eventually } from '../e2e/monolith.js';
import { PASSWORD, refusal } from '../support/dashboard-client.js';
import { startDashboard } from '../support/dashboard-server.js';

t.setTimeout(300_000); // password hashing is slow on a busy machine

const NEXT = 'another long password';

t.test('without mail, users change passwords and operators issue reset links', async (t) => {
  const dashboard = await startDashboard();
  t.teardown(() => dashboard.close());
  const operator = dashboard.client();
  await operator.signUp({ email: 'operator@example.com' });
  const user = dashboard.client();
  const {
    user: { id },
  } = await user.signUp({ email: 'user@example.com' });

  await t.test('changing the password ends the other sessions of the user', async (t) => {
    const elsewhere = dashboard.client();
    await elsewhere.login('user@example.com');
    t.match(await refusal(user.post('/password/change', { current_password: 'wrong', new_password: NEXT })), {
      status: 422,
      code: 'invalid_value',
      param: 'current_password',
    });
    t.match(await refusal(user.post('/password/change', { current_password: PASSWORD, new_password: 'short' })), {
      status: 422,
      param: 'new_password',
    });
    await user.post('/password/change', { current_password: PASSWORD, new_password: NEXT });
    t.equal((await user.get<Me>('/me')).user.id, id, 'the session that changed the password stays valid');
    t.match(await refusal(elsewhere.get('/me')), { status: 401 }, "the user's other sessions have ended");
    t.match(await refusal(dashboard.client().login('user@example.com')), { status: 401 });
    await dashboard.client().login('user@example.com', NEXT);
  });

  await t.test('an operator creates a reset link for a user who forgot the password', async (t) => {
    t.same(await dashboard.client().post('/password/forgot', { email: 'user@example.com' }), {});
    t.same(await dashboard.client().post('/password/forgot', { email: 'nobody@example.com' }), {});
    t.match(await refusal(user.post(`/operator/users/${id}/reset-link`)), { status: 403, code: 'role_not_allowed' });
    const { url: outdated } = await operator.post<{ url: string }>(`/operator/users/${id}/reset-link`);
    const { url } = await operator.post<{ url: string }>(`/operator/users/${id}/reset-link`);
    const token = new URL(url).searchParams.get('token') as string;
    t.equal(new URL(url).pathname, '/dashboard/reset');
    t.notMatch(
      await dashboard.inside(async (store) => JSON.stringify([...store.table('tokens').range()])),
      token,
      'the token is not stored in plain text',
    );
    const reset = (with_: string, password = PASSWORD): Promise<unknown> =>
      dashboard.client().post('/password/reset', { token: with_, password });
    t.match(await refusal(reset(new URL(outdated).searchParams.get('token') as string)), {
      status: 400,
      code: 'invalid_token',
      param: 'token',
    });
    t.match(await refusal(reset('nonsense')), { status: 400, code: 'invalid_token' });
    t.match(await refusal(reset(token, 'short')), { status: 422, param: 'password' });
    const answers = await Promise.allSettled([reset(token), reset(token)]);
    t.equal(answers.filter(({ status }) => status === 'fulfilled').length, 1, 'a reset link works once');
    t.match(await refusal(user.get('/me')), { status: 401 }, 'a password reset ends all sessions of the user');
    await user.login('user@example.com');
    t.equal(
      (await user.get<Me>('/me')).user.email_verified,
      false,
      'a link passed on by an operator does not verify the address',
    );
    t.match(await refusal(operator.post('/operator/users/user_x/reset-link')), { status: 404 });
  });

  await t.test('a reset link expires after an hour', async (t) => {
    const { url } = await operator.post<{ url: string }>(`/operator/users/${id}/reset-link`);
    await dashboard.inside(async (store) => {
      const table = store.table<{ expiresAt: number }>('tokens');
      for (const { key, value } of [...table.range({ from: ['hash'], to: ['hash', '\uffff'] })]) {
        t.ok(value.expiresAt - Date.now() <= 3_600_000);
        await table.put(key, { ...value, expiresAt: Date.now() - 1 });
      }
    });
    t.match(
      await refusal(
        dashboard.client().post('/password/reset', { token: new URL(url).searchParams.get('token'), password: NEXT }),
      ),
      { code: 'invalid_token' },
    );
  });

  await t.test('guesses of the current password are rate-limited', async (t) => {
    for (let i = 0; i < 9; i++) await dashboard.server.directory.attempts.count('password', [id]);
    const guess = async (): Promise<string> =>
      (await refusal(user.post('/password/change', { current_password: 'guess', new_password: NEXT }))).code;
    t.equal(await guess(), 'invalid_value');
    t.equal(await guess(), 'too_many_attempts');
  });

  t.match(await refusal(user.post('/email/send-verification')), { status: 422, code: 'unsupported_feature' });
});

t.test('with mail, verification and reset links are sent to the user', async (t) => {
  const mails: { to: string[]; text: string }[] = [];
  const smtp = new SMTPServer({
    authOptional: true,
    disabledCommands: ['STARTTLS'],
    onData(stream, session, done) {
      let text = '';
      stream
        .setEncoding('utf8')
        .on('data', (piece: string) => {
          text += piece;
        })
        .on('end', () => {
          mails.push({
            to: session.envelope.rcptTo.map(({ address }) => address),
            text: text.replaceAll('=\r\n', '').replaceAll('=3D', '='),
          });
          done();
        });
    },
  });
  await new Promise<void>((resolve) => smtp.listen(0, '127.0.0.1', resolve));
  const { port } = smtp.server.address() as AddressInfo;
  t.teardown(() => new Promise<void>((resolve) => smtp.close(resolve)));
  await t.rejects(startDashboard({ mail: { smtp_url: `smtp://127.0.0.1:${port}` } }), {
    name: 'StartError',
    message: /dashboard\.url/,
  });
  // With a single SMTP connection, messages arrive in the order in which they were sent.
  const dashboard = await startDashboard({
    mail: { smtp_url: `smtp://127.0.0.1:${port}/?maxConnections=1` },
    dashboard: { url: 'http://localhost:9999/' },
  });
  t.teardown(() => dashboard.close());
  const letter = async (to: string, pattern: RegExp): Promise<string> => {
    const find = (): string | undefined => mails.find((mail) => mail.to.includes(to) && pattern.test(mail.text))?.text;
    if (!(await eventually(() => find() !== undefined)))
      throw new Error(`no mail ${pattern.source} to ${to} among ${JSON.stringify(mails)}`);
    const text = find() as string;
    mails.length = 0;
    return text;
  };
  const tokenIn = (text: string): string => /token=([\w.-]+)/.exec(text)?.[1] ?? '';
  const user = dashboard.client();
  await user.signUp({ email: 'user@example.com', name: 'Ada' });
  t.match(await user.get('/status'), { mail: true });

  const confirm = await letter('user@example.com', /Confirm your email/);
  t.match(confirm, 'http://localhost:9999/dashboard/verify?token=', 'links use the configured dashboard URL');
  await dashboard.client().post('/email/verify', { token: tokenIn(confirm) });
  t.equal((await user.get<Me>('/me')).user.email_verified, true);
  t.match(await refusal(dashboard.client().post('/email/verify', { token: tokenIn(confirm) })), {
    code: 'invalid_token',
  });

  t.same(await dashboard.client().post('/password/forgot', { email: 'nobody@example.com' }), {});
  t.same(await dashboard.client().post('/password/forgot', { email: 'User@example.com' }), {});
  const reset = await letter('user@example.com', /Choose a new password/);
  t.match(
    await refusal(dashboard.client().post('/email/verify', { token: tokenIn(reset) })),
    { code: 'invalid_token' },
    'a reset token does not work for email verification',
  );
  await dashboard.client().post('/password/reset', { token: tokenIn(reset), password: NEXT });
  await letter('user@example.com', /was changed/);
  await user.login('user@example.com', NEXT);

  const {
    organizations: [home],
  } = await user.get<Me>('/me');
  /** Sends an invitation, which arrives after all messages sent before. */
  const lastOfAll = async (email: string): Promise<void> => {
    await user.post(`/organizations/${home?.id ?? ''}/invites`, { email, role: 'viewer' });
    if (!(await eventually(() => mails.some(({ to }) => to.includes(email))))) throw new Error(`no mail to ${email}`);
  };
  const invite = await user.post<InviteObject>(`/organizations/${home?.id ?? ''}/invites`, {
    email: 'guest@example.com',
    role: 'viewer',
  });
  t.match(await letter('guest@example.com', /Invitation to/), tokenIn(invite.url as string));
  for (let i = 0; i < 5; i++)
    await user.post(`/organizations/${home?.id ?? ''}/invites`, { email: 'guest@example.com', role: 'viewer' });
  await lastOfAll('last@example.com');
  t.equal(
    mails.filter(({ to }) => to.includes('guest@example.com')).length,
    2,
    'one address gets a limited number of mails, however often it is invited',
  );
  mails.length = 0;

  const statuses = [];
  for (let i = 0; i < 11; i++)
    statuses.push(
      (await dashboard.client().fetch('/password/forgot', { method: 'POST', body: { email: 'user@example.com' } }))
        .status,
    );
  t.equal(statuses.at(-1), 429, 'a client that is not signed in cannot flood a mailbox');
  await lastOfAll('last-again@example.com');
  t.ok(mails.length <= 3 + 1, `${mails.length} mails`);
  t.notMatch(dashboard.logs.join(), /token=/);
});
