// Tests the account tables: limits, cleanup, and durability after the process has been killed.
import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import t from 'tap';
import { addressGroup, ATTEMPTS_MS, MAX_ATTEMPTS } from '../../src/accounts/attempts.js';
import { LmdbAuditLog } from '../../src/storage/lmdb/accounts/audit-log.js';
import type { Invite } from '../../src/accounts/invites.js';
import { InviteTable } from '../../src/storage/lmdb/accounts/invite-table.js';
import { OrganizationTable } from '../../src/storage/lmdb/accounts/organization-table.js';
import { TokenTable } from '../../src/storage/lmdb/accounts/token-table.js';
import { UserTable } from '../../src/storage/lmdb/accounts/user-table.js';
import { LmdbAttempts } from '../../src/storage/lmdb/accounts/attempts.js';
import {
  checkBelonging,
  checkMembers,
  hasRole,
  MAX_MEMBERS,
  MAX_ORGANIZATIONS_OF_USER,
} from '../../src/accounts/members.js';
import { normalEmail } from '../../src/accounts/users.js';
import { endsWithParent, main } from '../e2e/monolith.js';
import { embeddedModel } from '../e2e/monolith.js';
import { dashboardClient } from '../support/dashboard-client.js';
import { ownStore } from '../support/own-store.js';

t.setTimeout(300_000); // the machine may be busy

const store = await ownStore(t, 'directory');
let now = Date.parse('2026-01-01T00:00:00Z');
const clock = (): number => now;
const rows = (table: Parameters<typeof store.table>[0]): number => [...store.table(table).keys()].length;

t.test('the members of an organization and the organizations of a user are limited', (t) => {
  for (const [check, most] of [
    [checkMembers, MAX_MEMBERS],
    [checkBelonging, MAX_ORGANIZATIONS_OF_USER],
  ] as const) {
    check(most - 1);
    t.throws(() => check(most), { code: 'too_many_entries' });
  }
  t.end();
});

t.test('attempts are limited per address and per email address', async (t) => {
  const attempts = new LmdbAttempts(store, clock);
  const tries = await Promise.allSettled(
    Array.from({ length: 15 }, () => attempts.count('login', ['address a', 'email e'])),
  );
  t.equal(tries.filter(({ status }) => status === 'fulfilled').length, MAX_ATTEMPTS.login);
  t.match(tries.at(-1), { reason: { code: 'too_many_attempts', retryAfterMs: ATTEMPTS_MS } });
  await t.rejects(attempts.count('login', ['address a', 'email other']), { code: 'too_many_attempts' });
  await attempts.count('login', ['address b', 'email other']);
  await store.transaction(() => attempts.resetAttempts('login', 'address a'));
  await attempts.count('login', ['address a', 'email other']);
  await t.rejects(attempts.count('login', ['address a']), { code: 'too_many_attempts' });
  await attempts.count('signup', ['address a']);
  now += ATTEMPTS_MS;
  await attempts.count('login', ['address a', 'email e']);
  await attempts.sweep();
  t.equal(rows('attempts'), 2, 'expired rows are removed');
});

t.test('addressGroup() keeps an IPv4 address and groups IPv6 addresses by their /64 prefix', async (t) => {
  t.equal(addressGroup('192.0.2.7'), '192.0.2.7');
  t.equal(addressGroup('::ffff:192.0.2.7'), '192.0.2.7');
  t.equal(
    addressGroup('0000:0000:0000:0000:0000:ffff:c000:0207'),
    '192.0.2.7',
    'an IPv4-mapped address, in the form that a dual-stack socket reports',
  );
  t.equal(addressGroup('::ffff:c000:207'), '192.0.2.7');
  t.equal(addressGroup('2001:db8:0:1:aaaa:bbbb:cccc:dddd'), '2001:db8:0:1::/64');
  t.equal(addressGroup('2001:db8::1'), '2001:db8:0:0::/64');
  t.equal(addressGroup('::1'), '0:0:0:0::/64');
  t.equal(addressGroup('2001:0db8::ffff'), addressGroup('2001:db8::1'));
  t.equal(addressGroup('anything else'), 'anything else');
  t.equal(normalEmail(' ADA@Example.com '), 'ada@example.com');
});

t.test('checking for the first user leaks no database reader', async (t) => {
  const users = new UserTable(store);
  await store.transaction(() =>
    users.create({ email: 'reader@example.com', name: 'R', passwordHash: '', operator: false }),
  );
  for (let i = 0; i < 140; i++) {
    // The loop has more iterations than the database has reader slots. Each write makes the next check open a new
    // reader.
    t.notOk(users.none);
    await store.transaction(() => users.change(users.withEmail('reader@example.com')?.id ?? '', { name: `R${i}` }));
    await new Promise((done) => setTimeout(done, 1));
  }
});

t.test('the audit log is limited in age and in entries per organization', async (t) => {
  const audit = new LmdbAuditLog(store, clock);
  const actor = { type: 'user', id: 'user_a', email: 'a@example.com', ip: null } as const;
  await store.transaction(() => {
    void audit.note('org_old', actor, 'too old', null);
    void audit.note(null, actor, 'too old', null);
  });
  now += 2 * 366 * 24 * 3_600_000;
  await store.transaction(() => {
    for (let i = 0; i < 10_005; i++) void audit.note('org_many', actor, `entry ${i}`, null);
    void audit.note('org_few', actor, 'stays', 'target', { a: 1 });
  });
  await audit.sweep();
  t.equal(rows('audit'), 10_001);
  t.same(await audit.list('org_old', 10, null), { data: [], next: null });
  t.match(await audit.list('org_few', 10, null), {
    data: [{ action: 'stays', target: 'target', detail: { a: 1 }, actor: { type: 'user', id: 'user_a' } }],
    next: null,
  });
});

t.test('expired tokens and invitations are removed', async (t) => {
  const tokens = new TokenTable(store, clock);
  const invites = new InviteTable(store, clock);
  const [one, two] = await store.transaction(
    () => [tokens.create('user_a', 'password', true), tokens.create('user_a', 'email', true)] as const,
  );
  t.match(tokens.find(one, 'password'), { userId: 'user_a' });
  t.throws(() => tokens.find(one, 'email'), { code: 'invalid_token' });
  const invite = await store.transaction(() => invites.create('org_a', 'a@example.com', 'viewer', 'user_a'));
  const token = invites.shown(invite!).token!;
  const kept = store.table<Partial<Invite>>('invites');
  const { createdBy, ...earlier } = kept.get(['org_a', invite!.id])!;
  t.equal(createdBy, 'user_a');
  await kept.put(['org_a', invite!.id], earlier);
  t.equal(invites.ofToken(token).createdBy, null, 'rows written by earlier releases have no creator');
  t.equal(invites.ofToken(token).id, invite!.id);
  now += 3_600_000;
  t.throws(() => tokens.find(two, 'email'), { code: 'invalid_token' });
  await tokens.sweep();
  t.equal(rows('tokens'), 0);
  now += 7 * 24 * 3_600_000;
  t.throws(() => invites.ofToken(token), { code: 'invalid_token' });
  await invites.sweep();
  t.equal(rows('invites'), 2, 'expired invitations are kept for a while');
  now += 31 * 24 * 3_600_000;
  await invites.sweep();
  t.equal(rows('invites'), 0);
});

t.test('organization numbers are never reused', async (t) => {
  const organizations = new OrganizationTable(store);
  const made = await Promise.all(
    Array.from({ length: 5 }, (_, i) => store.transaction(() => organizations.create(`o${i}`))),
  );
  t.equal(new Set(made.map(({ tenant }) => tenant)).size, 5);
  await store.transaction(() => organizations.markDeleted(made[4]!.id));
  await store.table('organizations').remove(made[4]!.id);
  t.equal((await store.transaction(() => organizations.create('next'))).tenant, 6);
  t.ok(hasRole('owner', 'viewer'));
  t.notOk(hasRole('viewer', 'developer'));
});

t.test('acknowledged changes survive kill -9', async (t) => {
  const data = mkdtempSync(join(tmpdir(), 'monolith-killed-'));
  t.teardown(() => rmSync(data, { recursive: true, force: true }));
  const start = async (): Promise<{ url: string; kill(): Promise<void> }> => {
    const child = spawn(
      process.execPath,
      [
        ...endsWithParent,
        main,
        'serve',
        '--log',
        'json',
        '--port',
        '0',
        '--data-dir',
        data,
        '--model',
        `hal-1.0=${embeddedModel}`,
      ],
      { stdio: ['pipe', 'pipe', 'ignore'] },
    );
    let text = '';
    for await (const piece of child.stdout.setEncoding('utf8')) if ((text += String(piece)).includes('\n')) break;
    const { url } = JSON.parse(text) as { url: string };
    return {
      url,
      kill: () =>
        new Promise((resolve) => {
          child.once('exit', () => resolve());
          child.kill('SIGKILL');
        }),
    };
  };
  const before = await start();
  const client = dashboardClient(before.url);
  const { user, organization } = await client.signUp({ email: 'a@example.com' });
  const { id } = await client.post<{ id: string }>(`/organizations/${organization.id}/invites`, {
    email: 'b@example.com',
    role: 'viewer',
  });
  await before.kill();
  const after = await start();
  t.teardown(() => after.kill());
  const again = dashboardClient(after.url);
  again.cookie = client.cookie;
  t.match(await again.get('/me'), {
    user: { id: user.id, operator: true },
    organizations: [{ id: organization.id, role: 'owner' }],
  });
  t.match(await again.get(`/organizations/${organization.id}/invites`), { data: [{ id, state: 'pending' }] });
  t.match(await again.get(`/organizations/${organization.id}/audit-log`), {
    data: [{ action: 'invite.created', target: id }],
  });
});
