// Tests changing the email address and deleting an account, on a server that sends email through a real SMTP server
// and on one that sends no email.
import t from 'tap';
import { SMTPServer } from 'smtp-server';
import type { AddressInfo } from 'node:net';
import type { ListPage } from '../../src/shared/wire/list.js';
import type { AuditEntry, InviteObject } from '../../src/shared/wire/organizations.js';
import type { EmailChange, Me, RecoveryCodes, SecondFactorProposal } from '../../src/shared/wire/users.js';
import { eventually } from '../e2e/monolith.js';
import { PASSWORD, refusal } from '../support/dashboard-client.js';
import { startDashboard } from '../support/dashboard-server.js';
import { codeOf } from '../support/one-time-codes.js';

t.setTimeout(300_000); // password hashing is slow on a busy machine

t.test('without mail, an address change takes effect immediately', async (t) => {
  const dashboard = await startDashboard();
  t.teardown(() => dashboard.close());
  const operator = dashboard.client();
  await operator.signUp({ email: 'operator@example.com' });
  const user = dashboard.client();
  const {
    user: { id },
  } = await user.signUp({ email: 'old@example.com' });
  const change = (email: string, password = PASSWORD): Promise<EmailChange> =>
    user.post('/email/change', { email, password });
  t.match(await refusal(change('new@example.com', 'wrong')), { status: 422, param: 'password' });
  t.match(await refusal(change('OLD@example.com')), { status: 422, param: 'email', message: /must differ/ });
  t.match(await refusal(change('Operator@example.com')), { status: 422, code: 'email_taken', param: 'email' });
  t.match(await refusal(change('nonsense')), { status: 422, param: 'email' });
  const { url } = await operator.post<{ url: string }>(`/operator/users/${id}/reset-link`);
  t.same(await change('New@example.com'), { email: 'new@example.com', confirmation_sent: false });
  t.match(
    await user.get<Me>('/me'),
    { user: { id, email: 'new@example.com', email_verified: false } },
    'the session stays valid after the address change',
  );
  t.match(
    await refusal(
      dashboard.client().post('/password/reset', { token: new URL(url).searchParams.get('token'), password: PASSWORD }),
    ),
    { code: 'invalid_token' },
    'links issued for the old address are invalid',
  );
  t.match(await refusal(dashboard.client().login('old@example.com')), { code: 'invalid_credentials' });
  await dashboard.client().login('new@example.com');
  await dashboard.client().signUp({ email: 'old@example.com' });
  const { data } = await operator.get<ListPage<AuditEntry>>('/operator/audit-log');
  t.match(
    data.find(({ action }) => action === 'user.email_changed'),
    { target: id, detail: { from: 'old@example.com', to: 'new@example.com' } },
  );
});

t.test('with mail, an address change takes effect when the link is opened', async (t) => {
  const mails: { to: string; text: string }[] = [];
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
            to: session.envelope.rcptTo[0]?.address ?? '',
            text: text.replaceAll('=\r\n', '').replaceAll('=3D', '='),
          });
          done();
        });
    },
  });
  await new Promise<void>((resolve) => smtp.listen(0, '127.0.0.1', resolve));
  t.teardown(() => new Promise<void>((resolve) => smtp.close(resolve)));
  const dashboard = await startDashboard({
    mail: { smtp_url: `smtp://127.0.0.1:${(smtp.server.address() as AddressInfo).port}` },
    dashboard: { url: 'http://localhost:9999' },
  });
  t.teardown(() => dashboard.close());
  const letter = async (to: string, pattern: RegExp): Promise<string> => {
    const find = (): string | undefined => mails.find((mail) => mail.to === to && pattern.test(mail.text))?.text;
    if (!(await eventually(() => find() !== undefined))) throw new Error(`no mail ${pattern.source} to ${to}`);
    return find() as string;
  };
  const user = dashboard.client();
  await user.signUp({ email: 'old@example.com' });
  t.same(await user.post('/email/change', { email: 'new@example.com', password: PASSWORD }), {
    email: 'new@example.com',
    confirmation_sent: true,
  });
  const text = await letter('new@example.com', /new email address/);
  t.match(text, 'http://localhost:9999/dashboard/verify?new=1&token=');
  t.match(
    await user.get<Me>('/me'),
    { user: { email: 'old@example.com' } },
    'the old address stays until the link is opened',
  );
  const token = /token=([\w-]+)/.exec(text)?.[1] ?? '';
  t.match(
    await refusal(dashboard.client().post('/email/verify', { token })),
    { code: 'invalid_token' },
    'an address-change link does not work for verification',
  );
  // Another user has taken the address in the meantime.
  const other = dashboard.client();
  await other.signUp({ email: 'new@example.com' });
  t.match(await refusal(dashboard.client().post('/email/change/confirm', { token })), {
    status: 422,
    code: 'email_taken',
  });
  await other.post('/email/change', { email: 'third@example.com', password: PASSWORD });
  await dashboard.client().post('/email/change/confirm', {
    token: /token=([\w-]+)/.exec(await letter('third@example.com', /new email address/))?.[1],
  });
  await dashboard.client().post('/email/change/confirm', { token });
  t.match(await user.get<Me>('/me'), { user: { email: 'new@example.com', email_verified: true } });
  t.match(
    await refusal(dashboard.client().post('/email/change/confirm', { token })),
    { code: 'invalid_token' },
    'the link works once',
  );
  t.match(
    await letter('old@example.com', /was changed/),
    'new@example.com',
    'the old address is notified of the change',
  );
});

t.test('deleting an account removes everything that belongs to the user', async (t) => {
  const dashboard = await startDashboard();
  t.teardown(() => dashboard.close());
  const operator = dashboard.client();
  await operator.signUp({ email: 'operator@example.com', organization_name: 'Home' });
  const user = dashboard.client();
  const {
    user: { id },
    organization,
  } = await user.signUp({ email: 'user@example.com', organization_name: 'Tea & Co' });
  const { id: second } = await user.post<{ id: string }>('/organizations', { name: 'Second' });
  const key = await user.post<{ id: string; secret: string }>(`/organizations/${organization.id}/api-keys`, {
    name: 'stays',
  });
  const remove = (more: object = {}): Promise<unknown> => user.post('/account/delete', { password: PASSWORD, ...more });

  t.match(await refusal(remove({ password: 'wrong' })), { status: 422, param: 'password' });
  t.match(await refusal(remove()), {
    status: 422,
    code: 'last_owner',
    param: 'organizations',
    message: /"Tea & Co", "Second"/,
  });
  t.match(await user.get('/me'), { user: { id } }, 'nothing was deleted');
  await user.delete(`/organizations/${second}`);
  const { url } = await user.post<InviteObject>(`/organizations/${organization.id}/invites`, {
    email: 'operator@example.com',
    role: 'owner',
  });
  await operator.post(`/invites/${new URL(url ?? '').searchParams.get('token') ?? ''}/accept`);

  const { secret } = await user.post<SecondFactorProposal>('/second-factor/begin', { password: PASSWORD });
  const { recovery_codes: codes } = await user.post<RecoveryCodes>('/second-factor/enable', { code: codeOf(secret) });
  t.match(await refusal(remove()), { status: 400, code: 'missing_required_parameter', param: 'code' });
  await remove({ code: codes[0] });

  t.equal(user.cookie, null);
  t.match(await refusal(dashboard.client().login('user@example.com')), { code: 'invalid_credentials' });
  t.equal(
    (await fetch(`${dashboard.url}/v1/models`, { headers: { authorization: `Bearer ${key.secret}` } })).status,
    200,
    'the keys belong to the organization and stay valid',
  );
  t.same(
    (await operator.get<{ data: { user_id: string }[] }>(`/organizations/${organization.id}/members`)).data.filter(
      (one) => one.user_id === id,
    ),
    [],
  );
  const left = await dashboard.inside(async (store) =>
    (
      ['users', 'users-by-email', 'sessions', 'tokens', 'second-factors', 'memberships', 'members-by-user'] as const
    ).filter((name) => JSON.stringify([...store.table(name).range()]).includes(id)),
  );
  t.same(left, [], 'these tables contain no rows of the user');
  const entry = (entries: ListPage<AuditEntry>, action: string): unknown =>
    entries.data.find((one) => one.action === action);
  t.match(entry(await operator.get('/operator/audit-log'), 'user.deleted'), {
    target: id,
    actor: { email: 'user@example.com' },
  });
  t.match(entry(await operator.get(`/organizations/${organization.id}/audit-log`), 'member.left'), {
    target: id,
    detail: { role: 'owner' },
  });
  await dashboard.client().signUp({ email: 'user@example.com' });
  t.pass('the address can sign up again');

  const heir = dashboard.client();
  const {
    user: { id: heirId },
  } = await heir.signUp({ email: 'heir@example.com' });
  for (const { id: home } of (await operator.get<Me>('/me')).organizations)
    await operator.delete(`/organizations/${home}`);
  t.match(
    await refusal(operator.post('/account/delete', { password: PASSWORD })),
    { status: 422, param: 'operator' },
    "an operator's account cannot be deleted",
  );
  await operator.patch(`/operator/users/${heirId}`, { operator: true });
  await operator.post('/account/delete', { password: PASSWORD });
  t.match(await heir.get('/status'), { first_user: false });
});
