// Tests who may sign up, who becomes the operator, and what a sign-up creates.
import t from 'tap';
import type { ListPage } from '../../src/shared/wire/list.js';
import type { InviteObject, InvitePreview, MemberObject } from '../../src/shared/wire/organizations.js';
import type { DashboardStatus, Me } from '../../src/shared/wire/users.js';
import { PASSWORD, refusal } from '../support/dashboard-client.js';
import type { SignedUp } from '../support/dashboard-client.js';
import { startDashboard } from '../support/dashboard-server.js';

t.setTimeout(300_000); // password hashing is slow on a busy machine

t.test('sign-up is open while the server listens only on the loopback address', async (t) => {
  const dashboard = await startDashboard();
  t.teardown(() => dashboard.close());
  const first = dashboard.client();
  t.match(await first.get<DashboardStatus>('/status'), {
    first_user: true,
    signup: 'open',
    mail: false,
    signed_in: false,
  });

  t.test('one of several concurrent sign-ups becomes the first user', async (t) => {
    const answers = await Promise.allSettled(
      Array.from({ length: 4 }, (_, i) =>
        dashboard.client().signUp({ email: `race${i}@example.com`, organization_name: `Race ${i}` }),
      ),
    );
    const made = answers.flatMap((answer) => (answer.status === 'fulfilled' ? [answer.value] : []));
    t.equal(made.length, 4);
    t.equal(made.filter(({ user }) => user.operator).length, 1, 'exactly one user is an operator');
    t.equal(new Set(made.map(({ organization }) => organization.id)).size, 4, 'each user gets an organization');
    const operator = made.find(({ user }) => user.operator) as SignedUp;
    const adopted = (await dashboard.server.accounts.organizations.all())[0];
    t.equal(operator.organization.id, adopted?.id, 'the operator gets the organization of the first API key');
    t.equal(
      adopted?.name,
      `Race ${operator.user.email.slice(4, 5)}`,
      'the organization gets the name from the sign-up',
    );
  });

  t.test('an email address can sign up only once', async (t) => {
    const answers = await Promise.allSettled(
      Array.from({ length: 3 }, () => dashboard.client().signUp({ email: 'Same@Example.com' })),
    );
    t.equal(answers.filter(({ status }) => status === 'fulfilled').length, 1);
    t.match(await refusal(dashboard.client().signUp({ email: ' same@example.COM ' })), {
      status: 422,
      code: 'email_taken',
      param: 'email',
    });
  });

  t.test('a sign-up also signs the user in', async (t) => {
    const client = dashboard.client();
    const { user, organization } = await client.signUp({ name: 'Ada', email: 'ada@example.com' });
    const me = await client.get<Me>('/me');
    t.match(me, {
      user: { id: user.id, email: 'ada@example.com', name: 'Ada', operator: false, email_verified: false },
      organizations: [{ id: organization.id, name: "Ada's organization", role: 'owner' }],
    });
    t.equal(me.user.last_login_at, me.user.created_at, 'signing up counts as the first sign-in');
    t.notMatch(JSON.stringify(me), /scrypt/);
    t.match(await client.get('/status'), { first_user: false, signed_in: true });
    t.match(await client.patch<Me>('/me', { name: 'Ada L.' }), { user: { name: 'Ada L.' } });
  });

  t.test('an invalid sign-up names all invalid fields', async (t) => {
    t.match(await refusal(dashboard.client().signUp({ email: 'ana@', password: 'short' })), {
      status: 422,
      param: 'email',
      fields: [
        { param: 'email', message: 'email must be a valid email address.' },
        { param: 'password', message: 'password must be at least 10 characters long.' },
      ],
    });
    t.equal(
      (await refusal(dashboard.client().signUp({ email: 'ana@' }))).fields,
      null,
      'a single invalid field has no list',
    );
  });

  t.test('an invalid sign-up body is refused with an error that names the field', async (t) => {
    const fields = { email: 'x@example.com', password: PASSWORD, name: 'X' };
    for (const [change, status, code, param] of [
      [{ email: undefined }, 400, 'missing_required_parameter', 'email'],
      [{ email: 7 }, 400, 'invalid_type', 'email'],
      [{ email: 'nobody' }, 422, 'invalid_value', 'email'],
      [{ email: 'a@b\r\nBcc: c@d' }, 422, 'invalid_value', 'email'],
      [{ email: 'x@exam\u200bple.com' }, 422, 'invalid_value', 'email'],
      [{ email: 'a\0b@example.com' }, 422, 'invalid_value', 'email'],
      [{ password: 'too short' }, 422, 'invalid_value', 'password'],
      [{ password: 'x'.repeat(1_025) }, 422, 'string_too_long', 'password'],
      [{ name: '' }, 422, 'invalid_value', 'name'],
      [{ name: 'a\nb' }, 422, 'invalid_value', 'name'],
      [{ name: 'x'.repeat(101) }, 422, 'string_too_long', 'name'],
      [{ invite: 'nonsense' }, 400, 'invalid_token', 'invite'],
    ] as const) {
      t.match(
        await refusal(dashboard.client().post('/signup', { ...fields, ...change })),
        { status, code, param },
        JSON.stringify(change).slice(0, 60),
      );
    }
    t.match(await refusal(dashboard.client().post('/signup')), { status: 400, code: 'invalid_body' });
  });

  t.test('sign-ups from one client address are rate-limited', async (t) => {
    let refused = null;
    for (let i = 0; i < 30 && refused === null; i++) {
      const response = await dashboard.client().fetch('/signup', {
        method: 'POST',
        body: { email: 'q@example.com', password: PASSWORD, name: 'Q', invite: 'nonsense' },
      });
      if (response.status === 429) refused = response;
    }
    t.equal(refused?.status, 429);
    t.ok(Number(refused?.headers.get('retry-after')) > 0);
    t.match(await refused?.json(), { error: { code: 'too_many_attempts', type: 'rate_limit_error' } });
  });
});

t.test('sign-up needs the setup code when the server is reachable from other machines', async (t) => {
  const dashboard = await startDashboard({ host: '0.0.0.0' });
  t.teardown(() => dashboard.close());
  const setup = new URL(dashboard.server.setupUrl as string);
  t.equal(setup.pathname, '/dashboard/signup');
  const code = setup.searchParams.get('code') as string;
  const client = dashboard.client();
  t.match(await client.get('/status'), { first_user: true, signup: 'setup_code' });
  t.match(await refusal(client.signUp()), { status: 403, code: 'signup_closed' });
  t.match(await refusal(client.signUp({ code: 'x'.repeat(24) })), { status: 403, code: 'signup_closed' });

  await dashboard.restart();
  t.equal(
    new URL(dashboard.server.setupUrl as string).searchParams.get('code'),
    code,
    'the setup link stays valid across restarts',
  );
  const operator = dashboard.client();
  const { user, organization } = await operator.signUp({ code, email: 'first@example.com' });
  t.ok(user.operator);

  t.match(await operator.get('/status'), { first_user: false, signup: 'invited' });
  t.match(
    await refusal(dashboard.client().signUp({ code })),
    { status: 403, code: 'signup_closed' },
    'the setup code works only once',
  );

  await t.test('an invitation allows a sign-up and adds the user to the organization', async (t) => {
    const invite = await operator.post<InviteObject>(`/organizations/${organization.id}/invites`, {
      email: 'Second@Example.com',
      role: 'developer',
    });
    const link = new URL(invite.url as string);
    const token = link.searchParams.get('token') as string;
    const second = dashboard.client();
    t.match(await second.get<InvitePreview>(`/invites/${token}`), {
      organization: { id: organization.id },
      email: 'second@example.com',
      role: 'developer',
    });
    t.match(await refusal(second.signUp({ email: 'third@example.com', invite: token })), {
      status: 422,
      code: 'invalid_value',
      param: 'email',
    });
    const joined = await second.signUp({ email: 'second@example.com', invite: token, organization_name: 'Not made' });
    const members = await operator.get<ListPage<MemberObject>>(`/organizations/${organization.id}/members`);
    t.ok(
      members.data.every(({ last_login_at: at }) => at !== null),
      'members who joined by invitation have a last sign-in',
    );
    t.equal(joined.organization.id, organization.id);
    t.match((await second.get<Me>('/me')).organizations, [{ id: organization.id, role: 'developer' }]);
    t.equal((await second.get<Me>('/me')).organizations.length, 1);
    t.match(
      await refusal(dashboard.client().get(`/invites/${token}`)),
      { status: 400, code: 'invalid_token' },
      'the invitation works once',
    );
  });

  await dashboard.restart();
  t.equal(dashboard.server.setupUrl, null);
});

t.test('with trust_proxy or allowed_hosts set, the first user needs the setup code', async (t) => {
  for (const http of [{ trust_proxy: true }, { allowed_hosts: ['models.example.com'] }]) {
    const dashboard = await startDashboard({ http });
    t.teardown(() => dashboard.close());
    t.match(await dashboard.client().get('/status'), { signup: 'setup_code' });
    t.match(await refusal(dashboard.client().signUp()), { code: 'signup_closed' });
  }
});
