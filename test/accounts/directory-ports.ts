// Tests that every implementation of Directory must pass. They use only the directory's ports, including the ports'
// transactions.
import t, { type Test } from 'tap';
import { MAX_ATTEMPTS } from '../../src/accounts/attempts.js';
import type { Actor } from '../../src/accounts/audit.js';
import type { Directory } from '../../src/accounts/directory.js';
import { KeyCache } from '../../src/accounts/key-cache.js';
import { keyDigest, keyStatus } from '../../src/accounts/keys.js';
import { MAX_SERVICE_ACCOUNTS } from '../../src/accounts/service-accounts.js';
import type { SignedUp } from '../../src/accounts/sign-ups.js';
import type { User } from '../../src/accounts/users.js';

const CLIENT = { ip: '192.0.2.1', userAgent: 'a test' };
const OPERATOR: Actor = { type: 'operator_api', id: null, email: null, ip: null };
const OPEN = { open: true, local: true };
const actorOf = ({ id, email }: User): Actor => ({ type: 'user', id, email, ip: CLIENT.ip });

function signUp(
  { signUps }: Directory,
  name: string,
  more: { invite?: string; policy?: typeof OPEN; code?: string } = {},
): Promise<SignedUp> {
  return signUps.signUp(
    more.policy ?? OPEN,
    {
      email: `${name}@example.com`,
      name,
      organizationName: null,
      invite: more.invite ?? null,
      code: more.code ?? null,
    },
    `hash of ${name}`,
    CLIENT,
  );
}

/** Returns the actions in the audit log, oldest first. */
async function actions({ audit }: Directory, organizationId: string | null): Promise<string[]> {
  return (await audit.list(organizationId, 100, null)).data.map(({ action }) => action).sort();
}

/** `open` returns a new, empty directory that is removed when the test ends. */
export function directoryTests(open: (t: Test) => Promise<Directory>): void {
  t.test(
    'SignUps: one of several concurrent sign-ups becomes the first user, and an address can be used only once',
    async (t) => {
      const directory = await open(t);
      const { signUps, signIns } = directory;
      t.equal(await signUps.awaitsFirst(), true);
      const [code, again] = await Promise.all([signUps.firstCode(), signUps.firstCode()]);
      t.equal(code, again, 'all callers get the same setup code');
      const remote = { open: false, local: false };
      await t.rejects(signUp(directory, 'a', { policy: remote, code: 'wrong' }), { code: 'signup_closed' });
      await signUps.check(remote, { email: 'a@example.com', name: 'a', organizationName: null, invite: null, code });
      const made = await Promise.all(['a', 'b', 'c'].map((name) => signUp(directory, name)));
      t.equal(made.filter(({ user }) => user.operator).length, 1);
      t.equal(new Set(made.map(({ organization }) => organization.tenant)).size, 3);
      const same = await Promise.allSettled([signUp(directory, 'd'), signUp(directory, 'd')]);
      t.same(same.map(({ status }) => status).sort(), ['fulfilled', 'rejected']);
      t.match(
        same.find(({ status }) => status === 'rejected'),
        { reason: { code: 'email_taken' } },
      );
      t.equal(await signUps.awaitsFirst(), false);
      t.equal(await signUps.firstCode(), null);
      await t.rejects(signUp(directory, 'e', { policy: remote }), { code: 'signup_closed' });
      const first = made.find(({ user }) => user.operator)!;
      t.match(await signIns.find(first.cookie), { user: { id: first.user.id }, session: { userId: first.user.id } });
      t.same(await actions(directory, first.organization.id), ['member.joined', 'organization.created']);
      t.same(await actions(directory, null), ['operator.first_user'], 'refused sign-ups are not logged');
    },
  );

  t.test('SignUps: resources created before the first sign-up belong to the first user', async (t) => {
    const directory = await open(t);
    const { id } = await directory.organizations.ensureFirst();
    const first = await signUp(directory, 'a');
    t.match(first, { organization: { id, name: 'Default' }, role: 'owner', user: { operator: true } });
    t.not((await signUp(directory, 'b')).organization.id, id);
    t.same(await actions(directory, id), ['member.joined']);
  });

  t.test('SignIns: sessions start, end on logout, and end when the password changes', async (t) => {
    const directory = await open(t);
    const { signIns, attempts } = directory;
    const { user, cookie } = await signUp(directory, 'a');
    const counted = { address: 'address 192.0.2.1', email: 'email a@example.com' };
    for (let i = 0; i < MAX_ATTEMPTS.login; i++) await attempts.count('login', [counted.email]);
    t.equal(await signIns.begin({ ...user, passwordHash: 'another' }, null, CLIENT, null, counted), 'changed');
    t.match(
      await attempts.counted('login', counted.email),
      { count: MAX_ATTEMPTS.login },
      'a failed sign-in does not reset the attempts',
    );
    const begun = await signIns.begin(user, null, CLIENT, cookie, counted);
    if (typeof begun === 'string') throw new Error(begun);
    t.equal(await signIns.find(cookie), null, 'the previous session has ended');
    t.match(await attempts.counted('login', counted.email), { count: 0 });
    const second = await signIns.begin(user, null, CLIENT, null, counted);
    if (typeof second === 'string') throw new Error(second);
    t.equal((await signIns.sessions(user.id)).length, 2);
    const kept = (await signIns.find(begun.cookie))!.session.id;
    t.equal(await signIns.changePassword({ ...user, passwordHash: 'stale' }, 'new', kept, actorOf(user)), false);
    t.equal(await signIns.changePassword(user, 'new', kept, actorOf(user)), true);
    t.same(
      (await signIns.sessions(user.id)).map(({ id }) => id),
      [kept],
    );
    t.equal(await signIns.end('user_other', kept, actorOf(user)), false, "another user's session is unknown");
    const token = await signIns.mailedToken(user.id, 'password');
    await signIns.resetPassword(token, user.id, 'newest', CLIENT.ip);
    await t.rejects(signIns.resetPassword(token, user.id, 'again', CLIENT.ip), { code: 'invalid_token' });
    t.equal(await signIns.find(begun.cookie), null);
    t.match(await signIns.withEmail('a@example.com'), { passwordHash: 'newest', emailVerified: true });
    t.same(await actions(directory, null), ['operator.first_user', 'user.password_changed', 'user.password_reset']);
    const { user: other } = await signUp(directory, 'b');
    await signIns.resetPassword((await signIns.handedToken(other.id, OPERATOR))!, other.id, 'given', CLIENT.ip);
    t.match(
      await signIns.withEmail('b@example.com'),
      { passwordHash: 'given', emailVerified: false },
      'a link that was not sent by mail does not verify the address',
    );
  });

  t.test('Members.assign: sets roles without a caller, and keeps the last owner', async (t) => {
    const directory = await open(t);
    const { members, organizations } = directory;
    const { user: owner, organization } = await signUp(directory, 'owner');
    const { user: guest } = await signUp(directory, 'guest');
    const PROVIDER: Actor = { type: 'identity_provider', id: null, email: null, ip: CLIENT.ip };
    const assign = (user: User, role: 'owner' | 'viewer', org = organization.id): Promise<string> =>
      members.assign(org, user.id, role, PROVIDER);
    t.equal(await assign(owner, 'viewer'), 'last_owner');
    t.match(await members.of(organization.id, owner.id), { role: 'owner' });
    t.equal(await assign(guest, 'owner'), 'assigned');
    t.equal(await assign(guest, 'owner'), 'assigned', 'the same role again changes nothing');
    t.equal(await assign(owner, 'viewer'), 'assigned');
    t.match(await members.of(organization.id, owner.id), { role: 'viewer' });
    t.equal(await assign(guest, 'viewer'), 'last_owner');
    await t.rejects(assign(guest, 'viewer', 'org_unknown'), { code: 'resource_not_found' });
    await t.rejects(assign({ ...guest, id: 'user_unknown' }, 'viewer'), { code: 'not_signed_in' });
    const { id: other } = await organizations.create('Other', guest, 9, actorOf(guest));
    await organizations.change(other, { status: 'suspended' }, null);
    await t.rejects(assign(owner, 'viewer', other), { code: 'organization_suspended' });
    t.same(await actions(directory, organization.id), [
      'member.joined',
      'member.joined',
      'member.last_owner_kept',
      'member.last_owner_kept',
      'member.role_changed',
      'organization.created',
    ]);
    const joined = await directory.signUps.signUp(
      OPEN,
      {
        email: 'new@example.com',
        name: 'new',
        organizationName: null,
        invite: null,
        code: null,
        joins: { organizationId: organization.id, role: 'viewer', actor: PROVIDER },
      },
      '',
      CLIENT,
    );
    t.match(joined, { organization: { id: organization.id }, role: 'viewer' });
    t.equal((await members.organizationsOf(joined.user.id)).length, 1, 'no organization is created');
  });

  t.test('ServiceAccounts: disabled keys are refused, and names and counts are bounded', async (t) => {
    const directory = await open(t);
    const { serviceAccounts, apiKeys, keyStore } = directory;
    const {
      user,
      organization: { id: org },
    } = await signUp(directory, 'owner');
    const { user: other } = await signUp(directory, 'other');
    const actor = actorOf(user);
    const make = (name: string, by = user.id): Promise<{ id: string }> =>
      serviceAccounts.create(org, { name, role: 'developer' }, by, actor);
    await t.rejects(make('a', other.id), { code: 'role_not_allowed' }, "another organization's owner");
    const { id } = await make('a');
    await t.rejects(make('a'), { code: 'invalid_value', param: 'name' });
    const { id: second } = await make('b');
    await t.rejects(serviceAccounts.change(org, second, { name: 'a' }, user.id, actor), {
      code: 'invalid_value',
    });
    await t.rejects(serviceAccounts.change('org_other', id, { name: 'c' }, user.id, actor), {
      code: 'role_not_allowed',
    });
    t.match(await serviceAccounts.change(org, second, {}, user.id, actor), { name: 'b' });
    t.equal(await serviceAccounts.get(org, 'x'.repeat(3_000)), null);

    const serviceAccount = { id, by: user.id };
    const { key, secret } = await apiKeys.create(org, { name: 'k', serviceAccount }, actor);
    const standing = async (): Promise<unknown> => (await keyStore.standing(org, [key.id])).keys.get(key.id);
    t.match(await keyStore.find(keyDigest(secret)), { disabled: false });
    await serviceAccounts.change(org, id, { disabled: true }, user.id, actor);
    t.match(await keyStore.find(keyDigest(secret)), { disabled: true, revoked: false });
    t.match(await standing(), { disabled: true }, 'its running requests end');
    await serviceAccounts.change(org, id, { disabled: false }, user.id, actor);
    t.match(await standing(), { disabled: false });
    t.match(
      (await serviceAccounts.list(org)).map(({ name, activeKeys }) => [name, activeKeys]),
      [
        ['a', 1],
        ['b', 0],
      ],
    );
    await t.rejects(serviceAccounts.delete(org, id, other.id, actor), { code: 'role_not_allowed' });
    t.equal(await serviceAccounts.delete(org, id, user.id, actor), 1);
    t.match(await standing(), { revoked: true });
    t.match(await apiKeys.get(org, key.id), { createdBy: id, revoked: true }, 'the revoked key stays in the list');
    for (let n = 1; n < MAX_SERVICE_ACCOUNTS; n++) await make(`n${n}`);
    await t.rejects(make('more'), { code: 'too_many_entries' });
  });

  t.test("Members and Invites: each call checks the caller's current role, and the last owner stays", async (t) => {
    const directory = await open(t);
    const { members, invites, signIns } = directory;
    const {
      user: owner,
      organization: { id: org },
    } = await signUp(directory, 'owner');
    const other = await signUp(directory, 'other');
    const invite = await invites.create(org, 'guest@example.com', 'admin', owner.id, actorOf(owner));
    t.match(invite, { state: 'pending', token: /./ });
    t.match(await invites.ofLink(invite.token!), { invite: { id: invite.id }, organization: { id: org } });
    await t.rejects(
      invites.accept(invite.token!, other.user, actorOf(other.user)),
      { code: 'invalid_value', param: 'invite' },
      'an invitation is valid for only one address',
    );
    const closed = { open: false, local: true };
    const joined = await Promise.allSettled(
      [1, 2].map(() => signUp(directory, 'guest', { invite: invite.token!, policy: closed })),
    );
    t.same(
      joined.map(({ status }) => status).sort(),
      ['fulfilled', 'rejected'],
      'an invitation can be accepted only once',
    );
    const guest = (await signIns.withEmail('guest@example.com'))!;
    t.match(await members.of(org, guest.id), {
      role: 'admin',
      organization: { id: org, settings: { monthlyTokenCap: null } },
    });
    t.equal(await members.of(other.organization.id, guest.id), null);
    t.equal(await members.of('org_'.repeat(200), guest.id), null);
    await t.rejects(invites.create(org, 'x@example.com', 'owner', guest.id, actorOf(guest)), {
      code: 'role_not_allowed',
    });
    await t.rejects(invites.create(org, 'guest@example.com', 'viewer', owner.id, actorOf(owner)), {
      code: 'invalid_value',
      param: 'email',
    });
    await t.rejects(members.changeRole(org, guest.id, 'owner', guest.id, actorOf(guest)), { code: 'role_not_allowed' });
    await t.rejects(members.changeRole(org, owner.id, 'viewer', owner.id, actorOf(owner)), {
      code: 'invalid_value',
      param: 'role',
    });
    await t.rejects(members.remove(org, owner.id, owner.id, actorOf(owner)), { code: 'invalid_value', param: 'user' });
    await t.rejects(members.remove(org, 'user_none', owner.id, actorOf(owner)), { code: 'resource_not_found' });
    await members.changeRole(org, guest.id, 'owner', owner.id, actorOf(owner));
    const both = await Promise.allSettled([
      members.remove(org, owner.id, owner.id, actorOf(owner)),
      members.remove(org, guest.id, guest.id, actorOf(guest)),
    ]);
    t.same(
      both.map(({ status }) => status).sort(),
      ['fulfilled', 'rejected'],
      'if two owners leave concurrently, one of them stays',
    );
    t.equal((await members.page(org, 10, null))?.data.length, 1);
    t.equal(await members.page(org, 10, 'user_none'), null);
    t.same(await actions(directory, org), [
      'invite.created',
      'member.joined',
      'member.joined',
      'member.left',
      'member.role_changed',
      'organization.created',
    ]);
  });

  t.test(
    'Invites: revoked, replaced and used invitations are invalid, as are those of suspended or deleted organizations',
    async (t) => {
      const directory = await open(t);
      const { members, invites, organizations, signIns } = directory;
      const {
        user: owner,
        organization: { id: org },
      } = await signUp(directory, 'owner');
      const guest = await signUp(directory, 'guest');
      const invite = (role: 'viewer' | 'admin' = 'viewer') =>
        invites.create(org, 'guest@example.com', role, owner.id, actorOf(owner));
      const accept = (token: string | null) => invites.accept(token!, guest.user, actorOf(guest.user));
      const first = await invite();
      const second = await invite('admin');
      t.same(
        (await invites.page(org, 10, null))?.data.map(({ state }) => state).sort(),
        ['pending', 'revoked'],
        'only the latest invitation of an address is valid',
      );
      t.equal(await invites.page(org, 10, 'inv_none'), null);
      for (const token of [
        first.token!,
        second.token!.replace(/.$/, '!'),
        `${'a'.repeat(24)}.${'a'.repeat(43)}`,
        'nonsense',
      ])
        await t.rejects(invites.ofLink(token), { code: 'invalid_token' });
      await t.rejects(invites.revoke(org, 'inv_none', owner.id, actorOf(owner)), { code: 'resource_not_found' });
      for (let n = 0; n < 2; n++) await invites.revoke(org, second.id, owner.id, actorOf(owner));
      await t.rejects(accept(second.token), { code: 'invalid_token' });
      const third = await invite();
      await organizations.change(org, { status: 'suspended' }, null);
      await t.rejects(accept(third.token), { code: 'organization_suspended' });
      await t.rejects(
        organizations
          .create('more', owner, 5, actorOf(owner))
          .then(() => organizations.create('more', { ...owner, operator: false }, 5, actorOf(owner))),
        { code: 'organization_suspended' },
        'a second organization can be created only by an operator',
      );
      const stranger = await invites.create(org, 'new@example.com', 'viewer', owner.id, actorOf(owner));
      await t.rejects(signUp(directory, 'new', { invite: stranger.token! }), { code: 'organization_suspended' });
      t.equal(await signIns.withEmail('new@example.com'), null);
      await organizations.change(org, { status: 'active' }, null);
      t.match(await accept(third.token), { id: org });
      await t.rejects(accept(third.token), { code: 'invalid_token' });
      await t.rejects(invite(), { code: 'invalid_value', param: 'email' });
      await t.rejects(
        members.remove(org, owner.id, guest.user.id, actorOf(guest.user)),
        { code: 'role_not_allowed' },
        'a viewer cannot remove members',
      );
      t.match(await members.changeRole(org, guest.user.id, 'viewer', owner.id, actorOf(owner)), {
        role: 'viewer',
        email: 'guest@example.com',
      });
      await members.remove(org, guest.user.id, owner.id, actorOf(owner));
      t.equal(await signIns.find(guest.cookie), null, 'the sessions of a removed member end');
      t.same(
        await actions(directory, org),
        [
          ...Array<string>(4).fill('invite.created'),
          'invite.revoked',
          'member.joined',
          'member.joined',
          'member.removed',
          'organization.created',
        ],
        'actions without effect are not logged',
      );
      await organizations.change(org, { keepsText: true }, OPERATOR);
      await organizations.change(org, { keepsText: true }, OPERATOR);
      await organizations.change(org, { keepsText: false, status: 'suspended' }, OPERATOR);
      t.match(await organizations.overview(org), { status: 'suspended', settings: { keepsText: false } });
      t.equal(await organizations.overview('org_none'), null);
      t.same(
        (await actions(directory, org)).filter((action) => /^organization\.(?!created)/.test(action)),
        ['organization.request_text_kept', 'organization.request_text_not_kept', 'organization.suspended'],
      );
    },
  );

  t.test(
    'Invites: a user who loses the right to invite loses all pending invitations in the same transaction',
    async (t) => {
      const directory = await open(t);
      const { members, invites, ownAccount, audit } = directory;
      const owner = await signUp(directory, 'owner');
      const {
        organization: { id: org },
      } = owner;
      const make = (by: User, email: string, role: 'viewer' | 'admin' | 'owner') =>
        invites.create(org, `${email}@example.com`, role, by.id, actorOf(by));
      const join = async (name: string, role: 'admin' | 'owner'): Promise<User> =>
        (await signUp(directory, name, { invite: (await make(owner.user, name, role)).token! })).user;
      const states = async (): Promise<Record<string, string>> =>
        Object.fromEntries(
          (await invites.page(org, 100, null))!.data
            .filter(({ state }) => state !== 'accepted')
            .map(({ email, state }) => [email.split('@')[0], state]),
        );
      await make(owner.user, 'stays', 'admin');
      const names = ['removed', 'left', 'demoted', 'gone', 'former'] as const;
      const [removed, left, demoted, gone, former] = (await Promise.all(
        names.map((name) => join(name, name === 'former' ? 'owner' : 'admin')),
      )) as [User, User, User, User, User];
      const second = await make(removed, 'of-removed', 'admin');
      t.equal(second.createdBy, removed.id);
      for (const [by, name] of [
        [left, 'left'],
        [demoted, 'demoted'],
        [gone, 'gone'],
      ] as const)
        await make(by, `of-${name}`, 'viewer');
      await make(former, 'owner-of-former', 'owner');
      await make(former, 'of-former', 'admin');
      await signUp(directory, 'came', { invite: (await make(removed, 'came', 'viewer')).token! });
      const elsewhere = await signUp(directory, 'elsewhere');
      const there = await invites.create(
        elsewhere.organization.id,
        removed.email,
        'admin',
        elsewhere.user.id,
        actorOf(elsewhere.user),
      );
      await invites.accept(there.token!, removed, actorOf(removed));
      const other = await invites.create(
        elsewhere.organization.id,
        'third@example.com',
        'viewer',
        removed.id,
        actorOf(removed),
      );

      await members.remove(org, removed.id, owner.user.id, actorOf(owner.user));
      t.match(
        (await audit.list(org, 100, null)).data.filter(({ action }) => action === 'invite.revoked'),
        [{ target: second.id, actor: { id: owner.user.id }, detail: { email: 'of-removed@example.com' } }],
      );
      await t.rejects(signUp(directory, 'of-removed', { invite: second.token! }), { code: 'invalid_token' });
      await members.remove(org, left.id, left.id, actorOf(left));
      await members.changeRole(org, demoted.id, 'developer', owner.user.id, actorOf(owner.user));
      await ownAccount.delete(gone, actorOf(gone));
      await members.changeRole(org, former.id, 'admin', owner.user.id, actorOf(owner.user));
      t.same(await states(), {
        stays: 'pending',
        'of-removed': 'revoked',
        'of-left': 'revoked',
        'of-demoted': 'revoked',
        'of-gone': 'revoked',
        'owner-of-former': 'revoked',
        'of-former': 'pending',
      });
      t.equal(
        (await actions(directory, org)).filter((action) => action === 'invite.revoked').length,
        5,
        'used invitations are not logged as revoked',
      );
      t.match(
        await invites.ofLink(other.token!),
        { invite: { id: other.id, createdBy: removed.id } },
        'invitations to other organizations stay',
      );
      for (const by of [removed, demoted])
        await t.rejects(
          make(by, 'late', 'viewer'),
          { code: 'role_not_allowed' },
          'a request in progress cannot create an invitation either',
        );
      for (const by of [removed, demoted])
        await t.rejects(members.changeRole(org, former.id, 'viewer', by.id, actorOf(by)), { code: 'role_not_allowed' });
    },
  );

  t.test('Organizations: a new one has defaults, and deletion removes all its data', async (t) => {
    const directory = await open(t);
    const { organizations, members, invites, apiKeys, keyStore } = directory;
    const { user, organization } = await signUp(directory, 'a');
    const next = await signUp(directory, 'b');
    const { id } = organization;
    await t.rejects(organizations.create('more', next.user, 1, actorOf(next.user)), { code: 'too_many_entries' });
    t.match(await organizations.create('more', next.user, 2, actorOf(next.user)), { name: 'more' });
    const { secret } = await apiKeys.create(id, { name: 'k' }, null);
    await organizations.change(id, { limits: { '*': { rpm: 7 } } }, OPERATOR);
    t.match(await organizations.change(id, { monthlyTokenCap: 5 }, OPERATOR), {
      members: 1,
      activeKeys: 1,
      settings: { limits: { '*': { rpm: 7 } }, monthlyTokenCap: 5 },
    });
    t.match(await members.organizationsOf(user.id), [
      { role: 'owner', organization: { id, settings: { monthlyTokenCap: 5 } } },
    ]);
    t.match(await keyStore.find(keyDigest(secret)), {
      identity: { organizationId: id, monthlyTokenCap: 5, limits: { '*': { rpm: 7 } } },
    });
    t.match(await organizations.rename(id, 'named', actorOf(user)), {
      name: 'named',
      settings: { monthlyTokenCap: 5 },
    });
    t.equal(await organizations.change('org_none', { status: 'suspended' }, OPERATOR), null);
    const { token } = await invites.create(id, 'guest@example.com', 'viewer', user.id, actorOf(user));
    const pages = await organizations.page(2, null);
    t.equal([...pages.data, ...(await organizations.page(2, pages.next)).data].length, 3);

    await organizations.delete(id, actorOf(user));
    t.same(
      [await organizations.get(id), await members.of(id, user.id), await organizations.rename(id, 'x', actorOf(user))],
      [null, null, null],
    );
    await t.rejects(invites.ofLink(token!), { code: 'invalid_token' });
    t.same(await invites.page(id, 10, null), { data: [], next: null });
    t.match(await keyStore.find(keyDigest(secret)), { revoked: true });
    t.notOk((await organizations.all()).some((one) => one.id === id));
    t.match(await organizations.resumeDeletions(), [{ id }]);
    await organizations.markErased(id);
    t.same(await organizations.resumeDeletions(), []);
    await organizations.eraseKeys(Date.now() - 60_000);
    t.ok(await keyStore.find(keyDigest(secret)), 'the keys are not erased before the retention period ends');
    await organizations.eraseKeys(Date.now() + 60_000);
    t.equal(await keyStore.find(keyDigest(secret)), undefined);
    const again = await signUp(directory, 'c');
    t.ok(again.organization.tenant > 3, "the deleted organization's number is not reused");
  });

  t.test(
    "ApiKeys: creation and rotation check the user's current role, not the role at the start of the request",
    async (t) => {
      const directory = await open(t);
      const { apiKeys, members, invites } = directory;
      const {
        user: owner,
        organization: { id: org },
      } = await signUp(directory, 'owner');
      const { user } = await signUp(directory, 'maker', {
        invite: (await invites.create(org, 'maker@example.com', 'admin', owner.id, actorOf(owner))).token!,
      });
      const make = (by: User) => apiKeys.create(org, { name: 'k', createdBy: by.id }, actorOf(by));
      const rotate = (id: string) => apiKeys.rotate(org, id, 0, actorOf(user), user.id);
      const refused = { code: 'role_not_allowed' };
      const theirs = (await make(owner)).key,
        rotated = (await rotate(theirs.id))!.key;
      t.equal(rotated.createdBy, user.id);
      const another = (await make(owner)).key;
      await members.changeRole(org, user.id, 'developer', owner.id, actorOf(owner));
      const own = (await make(user)).key;
      await t.rejects(rotate(another.id), refused, 'a developer may rotate only their own keys');
      const next = (await rotate(own.id))!.key;
      await members.changeRole(org, user.id, 'viewer', owner.id, actorOf(owner));
      for (const late of [() => make(user), () => rotate(next.id)]) await t.rejects(late(), refused);
      await members.remove(org, user.id, owner.id, actorOf(owner));
      for (const late of [() => make(user), () => rotate(next.id)]) await t.rejects(late(), refused);
      t.equal(keyStatus((await apiKeys.get(org, next.id))!, new Date()), 'active');
      t.equal((await apiKeys.page(org, 10, null))?.data.length, 5, 'refused requests create nothing');
      t.ok(await apiKeys.rotate(org, next.id, 0, OPERATOR, null), 'on the command line, no role is needed');
    },
  );

  t.test('a revoked key is refused even by a process with a slow clock, and an overlap ends on time', async (t) => {
    const { apiKeys, keyStore, organizations, now } = await open(t);
    const { id } = await organizations.ensureFirst();
    const behind = (ms: number): KeyCache => new KeyCache(keyStore, { now: () => now() - ms });
    const revoked = await apiKeys.create(id, { name: 'a' }, null);
    await apiKeys.revoke(id, revoked.key.id, null);
    const turned = await apiKeys.create(id, { name: 'b' }, null);
    await apiKeys.rotate(id, turned.key.id, 0, OPERATOR, null);
    for (const { secret } of [revoked, turned])
      await t.rejects(async () => behind(86_400_000).authenticate(secret), { code: 'api_key_revoked' });
    const overlapping = await apiKeys.create(id, { name: 'c' }, null);
    await apiKeys.rotate(id, overlapping.key.id, 600, OPERATOR, null);
    t.match(await behind(0).authenticate(overlapping.secret), { keyId: overlapping.key.id });
    await t.rejects(async () => behind(-600_001).authenticate(overlapping.secret), { code: 'api_key_revoked' });
    await apiKeys.revoke(id, overlapping.key.id, null);
    await t.rejects(
      async () => behind(86_400_000).authenticate(overlapping.secret),
      { code: 'api_key_revoked' },
      'a key revoked during its overlap is refused too',
    );
    const row = (await apiKeys.get(id, overlapping.key.id))!;
    t.ok(Date.parse(row.revokedAt!) <= now(), 'the key is shown as revoked immediately');
    await apiKeys.revoke(id, overlapping.key.id, null);
    t.same(await apiKeys.get(id, overlapping.key.id), row, 'revoking the key again changes nothing');
    t.equal((await organizations.overviews(10, null)).data[0]?.activeKeys, 2, 'only the two rotated keys are active');
  });

  t.test('ApiKeys and KeyStore: a key is found in its current state and only in its organization', async (t) => {
    const { apiKeys, keyStore, organizations } = await open(t);
    const [one, two] = [(await organizations.ensureFirst()).id, 'org_other'];
    t.equal((await organizations.ensureFirst()).id, one);
    t.equal(await keyStore.find(keyDigest('sk-nobody')), undefined);
    const firsts = await Promise.all([1, 2].map(() => apiKeys.first(one, { name: 'a' })));
    t.equal(
      firsts.filter((made) => made !== null).length,
      1,
      'if two calls run concurrently, only one creates the first key',
    );
    const { key, secret } = firsts.find((made) => made !== null)!;
    t.equal(await apiKeys.get(two, key.id), null);
    t.equal(await apiKeys.revoke(two, key.id, null), null);
    t.match(await keyStore.find(keyDigest(secret)), {
      keyId: key.id,
      suspended: false,
      expiresAt: Infinity,
      revoked: false,
      overlapEndsAt: Infinity,
    });
    await keyStore.noteLastUsed([[key.id, 5_000]]);
    await keyStore.noteLastUsed([
      [key.id, 4_000],
      ['key_none', 1],
    ]);
    t.equal(
      (await apiKeys.get(one, key.id))?.lastUsedAt,
      new Date(5_000).toISOString(),
      'the later last-use time is kept',
    );
    const rotated = await apiKeys.rotate(one, key.id, 0, OPERATOR, null);
    t.equal(
      keyStatus((await apiKeys.get(one, key.id))!, new Date(0)),
      'revoked',
      'without an overlap, the key ends immediately, whatever the clock says',
    );
    t.match(await keyStore.find(keyDigest(rotated!.secret)), { keyId: rotated!.key.id });
    await t.rejects(apiKeys.change(one, key.id, { name: 'b' }, OPERATOR), { code: 'invalid_value' });
    await Promise.all([1, 2].map(() => apiKeys.accept(one, 'chosen', 'a key of my own')));
    t.match(await keyStore.find(keyDigest('a key of my own')), { revoked: false });
    t.equal(
      (await apiKeys.all()).filter(({ name }) => name === 'chosen').length,
      1,
      'if two calls run concurrently, only one creates the key',
    );
    await organizations.change(one, { status: 'suspended' }, null);
    t.match(await keyStore.find(keyDigest(rotated!.secret)), { suspended: true });
    const restricted = await apiKeys.create(one, { name: 'restricted', allowedAddresses: ['10.0.0.0/8'] }, null);
    const successor = await apiKeys.rotate(one, restricted.key.id, 60, OPERATOR, null);
    for (const made of [restricted, successor!]) {
      t.same((await apiKeys.get(one, made.key.id))?.allowedAddresses, ['10.0.0.0/8']);
      const { addresses } = (await keyStore.find(keyDigest(made.secret)))!;
      t.same([addresses?.allows('10.1.2.3'), addresses?.allows('11.1.2.3')], [true, false]);
    }
    await apiKeys.change(one, successor!.key.id, { name: 'renamed' }, OPERATOR);
    t.same((await apiKeys.get(one, successor!.key.id))?.allowedAddresses, ['10.0.0.0/8']);
    await apiKeys.change(one, successor!.key.id, { allowedAddresses: [] }, OPERATOR);
    t.equal((await keyStore.find(keyDigest(successor!.secret)))?.addresses, null, 'an empty list allows all addresses');
    const first = (await apiKeys.page(one, 2, null))!;
    t.equal(first.data.length, 2);
    t.ok((await apiKeys.page(one, 10, first.next))!.data.length >= 1);
    t.equal(await apiKeys.page(two, 10, key.id), null);
  });

  t.test('calls for unknown or ended objects change nothing and say so', async (t) => {
    const directory = await open(t);
    const { apiKeys, users, signIns, secondFactors, ownAccount, organizations } = directory;
    const {
      user,
      organization: { id: org },
    } = await signUp(directory, 'a');
    const b = await signUp(directory, 'b');
    const rights = (id: string, { locked, operator }: { locked?: boolean; operator?: boolean }) =>
      users.change(id, { locked, operator }, null, OPERATOR);
    t.same(
      [
        await apiKeys.change(org, 'key_none', { name: 'b' }, OPERATOR),
        await apiKeys.rotate(org, 'key_none', 0, OPERATOR, null),
        await apiKeys.revoke(org, 'key_none', OPERATOR),
      ],
      [null, null, null],
    );
    const { key } = await apiKeys.create(org, { name: 'k' }, OPERATOR);
    t.match(await apiKeys.change(org, key.id, { name: 'renamed' }, OPERATOR), { name: 'renamed' });
    const revoked = await apiKeys.revoke(org, key.id, OPERATOR);
    t.same(await apiKeys.revoke(org, key.id, OPERATOR), revoked);
    t.equal(await apiKeys.first(org, { name: 'again' }), null, 'a first key is not created again');
    t.match(await rights(user.id, {}), { user: { id: user.id, operator: true } });
    await rights(b.user.id, { operator: true });
    await rights(b.user.id, { operator: false });
    await rights(b.user.id, { locked: true });
    t.equal(await signIns.begin(b.user, null, CLIENT, null, null), 'locked');
    await rights(b.user.id, { locked: false });
    const begun = await signIns.begin(b.user, 'rehashed', CLIENT, null, null);
    t.match(begun, { user: { passwordHash: 'rehashed' } });
    const [session] = await signIns.sessions(b.user.id);
    t.same(
      [
        await signIns.end(b.user.id, session!.id, actorOf(b.user)),
        await signIns.end(b.user.id, session!.id, actorOf(b.user)),
      ],
      [true, false],
    );
    t.equal(await signIns.find('no cookie'), null);
    t.equal(await signIns.handedToken('user_none', OPERATOR), null);
    await t.rejects(
      signIns.resetPassword(await signIns.mailedToken(user.id, 'password'), 'user_none', 'x', CLIENT.ip),
      { code: 'invalid_token', message: 'This account no longer exists.' },
    );
    await t.rejects(ownAccount.emailToken(user, 'b@example.com', actorOf(user)), { code: 'email_taken' });
    t.same(
      [
        await secondFactors.get(user.id),
        await secondFactors.replaceRecovery(user, ['r'], actorOf(user)),
        await secondFactors.reset('user_none', OPERATOR),
      ],
      [null, false, false],
    );
    await secondFactors.propose(b.user.id, 'sealed');
    await secondFactors.enable(b.user, { sealed: 'sealed', step: 1, recovery: [] }, '', actorOf(b.user));
    await secondFactors.reseal(() => null);
    t.match(await secondFactors.get(b.user.id), { sealed: 'sealed' });
    await signIns.begin({ ...b.user, passwordHash: 'rehashed' }, null, CLIENT, null, null);
    t.equal(await secondFactors.reset(b.user.id, OPERATOR), true);
    t.same(await signIns.sessions(b.user.id), []);
    t.same(
      (await actions(directory, null)).filter((action) => /^(session|user)/.test(action)),
      [
        'session.revoked',
        'user.locked',
        'user.operator_granted',
        'user.operator_withdrawn',
        'user.second_factor_enabled',
        'user.second_factor_reset',
        'user.unlocked',
      ],
    );
    t.same(
      (await actions(directory, org)).filter((action) => action.startsWith('api_key')),
      ['api_key.changed', 'api_key.created', 'api_key.revoked'],
    );
    const long = 'x'.repeat(1_000);
    t.same(
      [
        await users.get(long),
        await apiKeys.get(org, long),
        await signIns.withEmail(long),
        await organizations.get(long),
        await signIns.handedToken(long, OPERATOR),
        await secondFactors.reset(long, OPERATOR),
      ],
      [null, null, null, null, null, false],
    );
    // A user from an identity provider joins another organization, and then leaves that organization.
    const { token } = await directory.invites.create(org, 'c@example.com', 'viewer', user.id, actorOf(user));
    const identity = { issuer: 'https://id.example.com', subject: 'c' };
    const wish = { email: 'c@example.com', name: 'c', organizationName: null, invite: token, code: null, identity };
    const c = await directory.signUps.signUp(OPEN, wish, '', CLIENT);
    t.match(await directory.identities.userOf(identity), { id: c.user.id, emailVerified: true });
    await t.rejects(directory.signUps.signUp(OPEN, { ...wish, email: 'd@example.com', invite: null }, '', CLIENT), {
      code: 'email_taken',
      message: /this person/,
    });
    await ownAccount.delete(c.user, actorOf(c.user));
    t.equal(await directory.identities.userOf(identity), null);
    t.match(await organizations.overview(org), { members: 1 });
  });

  t.test('Users: the last operator who can sign in stays', async (t) => {
    const directory = await open(t);
    const { users, signIns } = directory;
    const first = await signUp(directory, 'a');
    const second = await signUp(directory, 'b');
    const change = (id: string, rights: { locked?: boolean; operator?: boolean }, by: string | null = null) =>
      users.change(id, { locked: rights.locked, operator: rights.operator }, by, OPERATOR);
    await t.rejects(change(first.user.id, { operator: false }), { code: 'invalid_value', param: 'operator' });
    t.match(await change(second.user.id, { operator: true }), {
      user: { operator: true },
      organizations: [{ id: second.organization.id, role: 'owner' }],
    });
    await t.rejects(change(first.user.id, { locked: true }, first.user.id), { code: 'invalid_value', param: 'locked' });
    const both = await Promise.allSettled([
      change(first.user.id, { locked: true }),
      change(second.user.id, { locked: true }),
    ]);
    t.same(
      both.map(({ status }) => status).sort(),
      ['fulfilled', 'rejected'],
      'if two removals run concurrently, only one succeeds',
    );
    const locked = (await users.get(first.user.id))!.locked ? first : second;
    t.equal(await signIns.find(locked.cookie), null);
    await change(locked.user.id, { locked: false });
    t.equal(await signIns.find(locked.cookie), null, 'unlocking a user does not restore the session');
    await t.rejects(change('user_none', { locked: true }), { code: 'resource_not_found' });
    const page = await users.page(1, null);
    t.same(
      [...page.data, ...(await users.page(1, page.next)).data].map(({ user }) => user.id).sort(),
      [first.user.id, second.user.id].sort(),
    );
    t.same(await actions(directory, null), [
      'operator.first_user',
      'user.locked',
      'user.operator_granted',
      'user.unlocked',
    ]);
  });

  t.test('SecondFactors: only confirmed secrets count, and each step and recovery code works once', async (t) => {
    const directory = await open(t);
    const { secondFactors, signIns, users } = directory;
    const { user, cookie } = await signUp(directory, 'a');
    const kept = (await signIns.find(cookie))!.session.id;
    await signIns.begin(user, null, CLIENT, null, null);
    const proved = { sealed: 'second', step: 10, recovery: ['r1', 'r2'] };
    t.equal(
      await secondFactors.enable(user, proved, kept, actorOf(user)),
      false,
      'enabling fails without a proposed secret',
    );
    await secondFactors.propose(user.id, 'first');
    await secondFactors.propose(user.id, 'second');
    t.equal(
      await secondFactors.enable(user, { ...proved, sealed: 'first' }, kept, actorOf(user)),
      false,
      'only the latest proposed secret can be confirmed',
    );
    const both = await Promise.all([
      secondFactors.enable(user, proved, kept, actorOf(user)),
      secondFactors.enable(user, proved, kept, actorOf(user)),
    ]);
    t.same(both.sort(), [false, true]);
    t.same(
      (await signIns.sessions(user.id)).map(({ id }) => id),
      [kept],
    );
    t.match(await users.get(user.id), { secondFactor: true });
    t.equal(
      await signIns.begin(user, null, CLIENT, null, null),
      'changed',
      'a sign-in fails if its password was checked before the second factor was enabled',
    );
    t.type(await signIns.begin({ ...user, secondFactor: true }, null, CLIENT, cookie, null), 'object');
    t.equal(await secondFactors.proposed(user.id), null);
    t.same(
      (await Promise.all([11, 11, 11].map((step) => secondFactors.useStep(user.id, step)))).sort(),
      [false, false, true],
      'if a code is used concurrently, only one use succeeds',
    );
    t.same(
      [
        await secondFactors.useStep(user.id, 10),
        await secondFactors.useStep(user.id, 11),
        await secondFactors.useStep(user.id, 12),
      ],
      [false, false, true],
    );
    t.ok(await secondFactors.useStep(user.id, 2_900), 'a code is accepted while the clock is a day ahead');
    t.same(
      [
        await secondFactors.useStep(user.id, 2_898),
        await secondFactors.useStep(user.id, 13),
        await secondFactors.useStep(user.id, 13),
      ],
      [false, true, false],
      'after the clock is corrected, the account is not locked and a code still works once',
    );
    t.same(
      (await Promise.all(['r1', 'r1', 'r3'].map((hash) => secondFactors.useRecovery(user, hash, CLIENT.ip)))).filter(
        (left) => left !== null,
      ),
      [1],
    );
    await secondFactors.reseal((id, sealed) => `${id} ${sealed}`);
    t.match(await secondFactors.get(user.id), { sealed: `${user.id} second`, lastStep: 13, recovery: ['r2'] });
    t.equal(await secondFactors.replaceRecovery(user, ['r4'], actorOf(user)), true);
    t.equal(await secondFactors.disable(user, actorOf(user)), true);
    t.equal(await secondFactors.disable(user, actorOf(user)), false);
    t.equal(await secondFactors.reset(user.id, OPERATOR), false);
    t.match(await users.get(user.id), { secondFactor: false });
    t.same(await actions(directory, null), [
      'operator.first_user',
      'user.recovery_code_used',
      'user.recovery_codes_replaced',
      'user.second_factor_disabled',
      'user.second_factor_enabled',
    ]);
  });

  t.test('OwnAccount: a deleted account cannot create anything, even in a request already in progress', async (t) => {
    const directory = await open(t);
    const { ownAccount, organizations, invites, members } = directory;
    const a = await signUp(directory, 'a'),
      b = await signUp(directory, 'b');
    const { token } = await invites.create(a.organization.id, b.user.email, 'owner', a.user.id, actorOf(a.user));
    await organizations.delete(b.organization.id, actorOf(b.user));
    await ownAccount.delete(b.user, actorOf(b.user));
    await t.rejects(organizations.create('of nobody', b.user, 5, actorOf(b.user)), { code: 'not_signed_in' });
    await t.rejects(invites.accept(token!, b.user, actorOf(b.user)), { code: 'not_signed_in' });
    t.same(await members.organizationsOf(b.user.id), []);
    t.equal((await organizations.page(10, null)).data.filter(({ name }) => name === 'of nobody').length, 0);
    t.match(
      await invites.ofLink(token!),
      { invite: { email: b.user.email } },
      'the invitation is still valid for the next user with this address',
    );
  });

  t.test('OwnAccount: an address change requested with a password that has since changed is refused', async (t) => {
    const directory = await open(t);
    const { ownAccount, signIns } = directory;
    const { user, cookie } = await signUp(directory, 'a');
    const ask = (): Promise<string> => ownAccount.emailToken(user, 'thief@example.com', actorOf(user));
    const first = await ask();
    const kept = (await signIns.find(cookie))!.session.id;
    t.equal(await signIns.changePassword(user, 'new', kept, actorOf(user)), true);
    await t.rejects(ownAccount.confirmEmail(first, CLIENT.ip), { code: 'invalid_token' });
    const second = await ask();
    await signIns.resetPassword(await signIns.mailedToken(user.id, 'password'), user.id, 'newest', CLIENT.ip);
    await t.rejects(ownAccount.confirmEmail(second, CLIENT.ip), { code: 'invalid_token' });
    t.match(await signIns.withEmail('a@example.com'), { id: user.id });
  });

  t.test('OwnAccount: an address can be used only once, and an account is deleted completely', async (t) => {
    const directory = await open(t);
    const { ownAccount, signIns, members, users } = directory;
    const a = await signUp(directory, 'a'),
      b = await signUp(directory, 'b');
    const tokens = [
      await ownAccount.emailToken(a.user, 'new@example.com', actorOf(a.user)),
      await ownAccount.emailToken(b.user, 'new@example.com', actorOf(b.user)),
    ];
    const both = await Promise.allSettled(tokens.map((token) => ownAccount.confirmEmail(token, CLIENT.ip)));
    t.same(both.map(({ status }) => status).sort(), ['fulfilled', 'rejected']);
    t.match(
      both.find(({ status }) => status === 'rejected'),
      { reason: { code: 'email_taken' } },
    );
    await t.rejects(ownAccount.changeEmail(a.user, 'b@example.com', actorOf(a.user)), { code: 'email_taken' });
    t.equal(await signIns.withEmail('a@example.com'), null);
    await t.rejects(ownAccount.delete(b.user, actorOf(b.user)), {
      code: 'last_owner',
      message: new RegExp(`"${b.organization.name}"`),
    });
    await directory.organizations.delete(b.organization.id, actorOf(b.user));
    await ownAccount.delete(b.user, actorOf(b.user));
    t.same(
      [
        await users.get(b.user.id),
        await signIns.find(b.cookie),
        await signIns.withEmail('b@example.com'),
        await members.organizationsOf(b.user.id),
      ],
      [null, null, null, []],
    );
    await directory.organizations.delete(a.organization.id, actorOf(a.user));
    await t.rejects(ownAccount.delete(a.user, actorOf(a.user)), { code: 'invalid_value', param: 'operator' });
  });

  t.test(
    'Attempts: concurrent attempts are limited like sequential ones, and count() takes all its limits or none',
    async (t) => {
      const { attempts } = await open(t);
      const tries = await Promise.allSettled(
        Array.from({ length: MAX_ATTEMPTS.login + 5 }, () => attempts.count('login', ['address a', 'email e'])),
      );
      t.equal(tries.filter(({ status }) => status === 'fulfilled').length, MAX_ATTEMPTS.login);
      await t.rejects(attempts.count('login', ['address a', 'email other']), { code: 'too_many_attempts' });
      t.match(await attempts.counted('login', 'email other'), { count: 0 });
      t.match(await attempts.counted('login', 'address a'), { count: MAX_ATTEMPTS.login });
      t.match(
        await attempts.counted('operator', 'address a'),
        { count: 0 },
        'attempts of another kind are counted separately',
      );
    },
  );
}
