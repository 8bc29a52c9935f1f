// Tests stored API keys: rotation, changes, limits, lists, the identity that a key authenticates as, and databases
// written by earlier releases.

import { createHash } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import t from 'tap';
import type { Test } from 'tap';
import { Accounts } from '../../src/accounts/accounts.js';
import { MAX_ACTIVE_KEYS } from '../../src/accounts/api-keys.js';
import type { Actor } from '../../src/accounts/audit.js';
import { AccountChanges } from '../../src/accounts/changes.js';
import { keyObject } from '../../src/accounts/keys.js';
import { MembershipTable } from '../../src/storage/lmdb/accounts/membership-table.js';
import { LmdbDirectory, openAccounts } from '../../src/storage/lmdb/accounts/directory.js';
import type { KeyRecord } from '../../src/accounts/keys.js';
import { openStore } from '../../src/storage/lmdb/lmdb-store.js';
import type { Store } from '../../src/storage/store.js';
import type { Role } from '../../src/shared/wire/organizations.js';

const ACTOR: Actor = { type: 'user', id: 'user_1', email: 'a@example.com', ip: '127.0.0.1' };

async function open(t: Test): Promise<{
  path: string;
  store: Store;
  accounts: Accounts;
  directory: LmdbDirectory;
  changes: AccountChanges;
  organizationId: string;
  put: (userId: string, role: Role) => Promise<unknown>;
}> {
  const path = mkdtempSync(join(tmpdir(), 'monolith-keys-'));
  const store = await openStore(path);
  const changes = new AccountChanges();
  const directory = new LmdbDirectory(store, changes);
  const accounts = new Accounts(directory, changes);
  t.teardown(async () => {
    await accounts.close();
    await store.close();
    rmSync(path, { recursive: true, force: true });
  });
  const organizationId = (await accounts.organizations.ensureFirst()).id;
  const put = (userId: string, role: Role): Promise<unknown> =>
    store.transaction(() => new MembershipTable(store).put(organizationId, userId, role));
  return { path, store, accounts, directory, changes, organizationId, put };
}

t.test('rotation keeps the old key valid for the overlap and gives the new key the same permissions', async (t) => {
  const {
    accounts,
    directory: { audit },
    organizationId,
    put,
  } = await open(t);
  const { keys } = accounts;
  const permissions = { models: ['tycho-1.0'], scopes: ['inference' as const], limits: { '*': { rpm: 3 } } };
  await put('user_1', 'developer');
  await put('user_2', 'admin');
  const first = await keys.create(organizationId, { name: 'ci', ...permissions, createdBy: 'user_1' }, ACTOR);
  const second = await keys.rotate(organizationId, first.key.id, 3600, ACTOR, 'user_2');
  if (second === null) throw new Error('not rotated');
  t.match(second.key, {
    ...permissions,
    name: 'ci',
    rotatedFrom: first.key.id,
    createdBy: 'user_2',
    revokedAt: null,
    lastUsedAt: null,
  });
  t.not(second.secret, first.secret);
  t.match(await accounts.authenticate(first.secret), { keyId: first.key.id });
  t.match(await accounts.authenticate(second.secret), {
    keyId: second.key.id,
    keyLimits: { '*': { rpm: 3 } },
    models: ['tycho-1.0'],
  });
  const old = await keys.get(organizationId, first.key.id);
  const left = Date.parse(old?.revokedAt ?? '') - Date.now();
  t.ok(left > 3590_000 && left <= 3600_000, 'the old key has one hour left');
  t.match(keyObject(old as never, new Date()), { status: 'active' });

  const third = await keys.rotate(organizationId, second.key.id, 0, ACTOR, null);
  await t.rejects(async () => accounts.authenticate(second.secret), { code: 'api_key_revoked' });
  t.ok(await accounts.authenticate(third?.secret as string));
  await keys.revoke(organizationId, first.key.id, ACTOR);
  await t.rejects(
    async () => accounts.authenticate(first.secret),
    { code: 'api_key_revoked' },
    'a key in its overlap can be revoked immediately',
  );
  await t.rejects(keys.rotate(organizationId, first.key.id, 0, ACTOR, null), { status: 422, code: 'invalid_value' });
  t.equal(await keys.rotate(organizationId, 'key_unknown', 0, ACTOR, null), null);
  t.equal(
    await keys.rotate('org_other', third?.key.id as string, 0, ACTOR, null),
    null,
    'another organization has no such key',
  );
  t.same((await audit.list(organizationId, 10, null)).data.map(({ action }) => action).sort(), [
    'api_key.created',
    'api_key.revoked',
    'api_key.rotated',
    'api_key.rotated',
  ]);
});

t.test('a second rotation never extends the overlap', async (t) => {
  const { accounts, organizationId, put } = await open(t);
  const { keys } = accounts;
  await put('user_1', 'developer');
  const { key } = await keys.create(organizationId, { name: 'ci', createdBy: 'user_1' }, ACTOR);
  const end = async (): Promise<number> => Date.parse((await keys.get(organizationId, key.id))?.revokedAt ?? '');
  await keys.rotate(organizationId, key.id, 600, ACTOR, 'user_1');
  const first = await end();
  await keys.rotate(organizationId, key.id, 86_400, ACTOR, 'user_1');
  t.equal(await end(), first);
  const last = await keys.rotate(organizationId, key.id, 60, ACTOR, null);
  t.ok((await end()) < first, 'a second rotation may shorten the overlap');
  t.equal(last?.key.createdBy, 'user_1', 'a key rotated without a user keeps its creator');
});

t.test('a change of a key applies immediately, and its expiry is a date', async (t) => {
  const { accounts, organizationId } = await open(t);
  const { keys } = accounts;
  const { key, secret } = await keys.create(organizationId, { name: 'a' }, ACTOR);
  t.match(await accounts.authenticate(secret), { models: ['*'], keyLimits: null });
  await keys.change(
    organizationId,
    key.id,
    { models: ['hal-1.0'], limits: { 'hal-1.0': { tpm: 5 } }, name: 'b' },
    ACTOR,
  );
  t.match(await accounts.authenticate(secret), { models: ['hal-1.0'], keyLimits: { 'hal-1.0': { tpm: 5 } } });
  await keys.change(organizationId, key.id, { limits: null, expiresAt: new Date(Date.now() - 1) }, ACTOR);
  await t.rejects(async () => accounts.authenticate(secret), { code: 'api_key_expired' });
  await keys.change(organizationId, key.id, { expiresAt: null }, ACTOR);
  t.match(await accounts.authenticate(secret), { keyLimits: null });
  t.match(await keys.get(organizationId, key.id), { name: 'b', expiresAt: null });
  await keys.revoke(organizationId, key.id, null);
  await t.rejects(keys.change(organizationId, key.id, { name: 'c' }, ACTOR), { status: 422, code: 'invalid_value' });
});

t.test(
  "a key's identity includes the operator's limits; a suspended organization gets 403 and a deleted one 401",
  async (t) => {
    const { accounts, changes, directory, organizationId, store } = await open(t);
    const { secret } = await accounts.createKey({ name: 'a' });
    t.match(await accounts.authenticate(secret), { limits: {}, monthlyTokenCap: null });
    const heard: (string | null)[] = [];
    accounts.onChanged((id) => heard.push(id));
    await accounts.organizations.change(organizationId, { limits: { '*': { rpm: 7 } }, monthlyTokenCap: 1000 }, ACTOR);
    t.same(heard, [organizationId]);
    t.match(await accounts.authenticate(secret), { limits: { '*': { rpm: 7 } }, monthlyTokenCap: 1000 });
    await accounts.organizations.change(organizationId, { monthlyTokenCap: null }, ACTOR);
    t.match(await accounts.authenticate(secret), { limits: { '*': { rpm: 7 } }, monthlyTokenCap: null });
    await accounts.organizations.change(organizationId, { status: 'suspended' }, ACTOR);
    await t.rejects(async () => accounts.authenticate(secret), { status: 403, code: 'organization_suspended' });
    await accounts.organizations.change(organizationId, { status: 'active' }, ACTOR);
    t.ok(await accounts.authenticate(secret));
    await directory.apiKeys.revokeAll(organizationId);
    await t.rejects(async () => accounts.authenticate(secret), { code: 'api_key_revoked' });
    const other = await accounts.createKey({ name: 'b' });
    const table = store.table<object>('organizations');
    await table.put(organizationId, { ...table.get(organizationId), deletedAt: new Date().toISOString() });
    changes.notify(organizationId);
    await t.rejects(
      async () => accounts.authenticate(other.secret),
      { code: 'api_key_revoked' },
      'no key of a deleted organization works',
    );
    t.equal(await accounts.organizations.get(organizationId), null);
  },
);

t.test('the list contains only keys of one organization, newest first, in pages', async (t) => {
  const { accounts, organizationId } = await open(t);
  const made: string[] = [];
  for (let i = 0; i < 5; i++)
    made.unshift((await accounts.keys.create(organizationId, { name: `k${i}` }, null)).key.id);
  const seen: string[] = [];
  for (let after: string | null = null; ; ) {
    const page = await accounts.keys.page(organizationId, 2, after);
    seen.push(...(page?.data ?? []).map(({ id }) => id));
    if (page === null || page.next === null) break;
    after = page.next;
  }
  t.same([...seen].sort(), [...made].sort());
  t.equal(new Set(seen).size, 5);
  t.equal(await accounts.keys.page('org_other', 10, seen[0] as string), null);
  t.same(await accounts.keys.page('org_other', 10, null), { data: [], next: null });
  t.match(await accounts.organizations.overview(organizationId), { activeKeys: 5, members: 0 });
});

t.test('the number of active keys and the memory for unknown keys are limited', async (t) => {
  const { accounts, organizationId } = await open(t);
  const { keys } = accounts;
  const expired = await keys.create(organizationId, { name: 'expired', expiresAt: new Date(Date.now() - 1) }, null);
  for (let i = 0; i < MAX_ACTIVE_KEYS; i += 100)
    await Promise.all(Array.from({ length: 100 }, () => keys.create(organizationId, { name: 'k' }, null)));
  await t.rejects(keys.create(organizationId, { name: 'one more' }, null), { status: 422, code: 'too_many_entries' });
  const first = (await keys.all()).find(({ expiresAt }) => expiresAt === null);
  await t.rejects(keys.rotate(organizationId, first?.id as string, 60, ACTOR, null), { code: 'too_many_entries' });
  await keys.revoke(organizationId, first?.id as string, null);
  t.ok(await keys.create(organizationId, { name: 'one more' }, null));
  await t.rejects(
    keys.change(organizationId, expired.key.id, { expiresAt: null }, ACTOR),
    { status: 422, code: 'too_many_entries' },
    'an expired key cannot be renewed beyond the limit',
  );
  t.match(await keys.change(organizationId, expired.key.id, { name: 'renamed' }, ACTOR), { name: 'renamed' });
  await keys.revoke(
    organizationId,
    (await keys.all()).find(({ revokedAt, expiresAt }) => revokedAt === null && expiresAt === null)!.id,
    null,
  );
  t.match(
    await keys.change(organizationId, expired.key.id, { expiresAt: null }, ACTOR),
    { expiresAt: null },
    'an expired key can be renewed after another key is revoked',
  );

  const remembered = accounts as unknown as { cache: Map<string, unknown>; lastUsed: Map<string, unknown> };
  for (let i = 0; i < 20_000; i++) await tryKey(`sk-aaaaaaaa-${i}`);
  t.equal(remembered.cache.size, 0);
  await t.rejects(async () => accounts.authenticate('x'.repeat(1_000_000)), { code: 'invalid_api_key' });

  async function tryKey(key: string): Promise<void> {
    try {
      await accounts.authenticate(key);
      t.fail('a generated key is valid');
    } catch {
      // this must be refused
    }
  }
});

t.test('in an earlier database, plain hashes become keyed hashes and the keys keep working', async (t) => {
  const path = mkdtempSync(join(tmpdir(), 'monolith-keys-'));
  t.teardown(() => rmSync(path, { recursive: true, force: true }));
  const secret = 'sk-abcdefgh-0123456789012345678901234567890123456789';
  const hash = createHash('sha256').update(secret).digest();
  const before = await openStore(path);
  await before
    .table('organizations')
    .put('org_1', { id: 'org_1', tenant: 1, name: 'Default', status: 'active', createdAt: '2026-01-01T00:00:00.000Z' });
  await before.table('keys').put('key_1', {
    id: 'key_1',
    organizationId: 'org_1',
    createdBy: null,
    name: 'old',
    publicId: 'abcdefgh',
    last4: '6789',
    hash: new Uint8Array(hash),
    models: ['*'],
    scopes: ['inference'],
    expiresAt: null,
    lastUsedAt: null,
    createdAt: '2026-01-02T00:00:00.000Z',
    revokedAt: null,
    rotatedFrom: null,
  });
  await before.table('keys-by-hash').put(hash.toString('hex'), 'key_1');
  await before.table('responses').put('resp_1', { organizationId: 'org_1', createdAt: 5, dead: false });
  await before.table('responses').put('resp_2', { organizationId: 'org_1', createdAt: 6, dead: true });
  await before.table('meta').put('schema', 4);
  await before.close();

  const store = await openStore(path);
  const accounts = openAccounts(store);
  t.match(await accounts.authenticate(secret), { keyId: 'key_1', keyLimits: null });
  t.equal(store.table('keys-by-hash').get(hash.toString('hex')), undefined, 'the plain hash is removed');
  t.not(
    Buffer.from(store.table<{ hash: Uint8Array }>('keys').get('key_1')?.hash ?? []).toString('hex'),
    hash.toString('hex'),
  );
  t.match(await accounts.keys.page('org_1', 10, null), { data: [{ id: 'key_1' }], next: null });
  t.same([...store.table('responses-by-organization').keys()], [['org_1', 5, 'resp_1']]);
  await accounts.close();
  await store.close();
});

t.test('in an earlier database, revoked keys get the revoked flag and an overlap keeps its end', async (t) => {
  const path = mkdtempSync(join(tmpdir(), 'monolith-keys-'));
  t.teardown(() => rmSync(path, { recursive: true, force: true }));
  const before = await openStore(path);
  const accounts = openAccounts(before);
  const { id: organizationId } = await accounts.organizations.ensureFirst();
  const rows = before.table<KeyRecord>('keys');
  const ends = [new Date(Date.now() - 60_000).toISOString(), new Date(Date.now() + 600_000).toISOString(), null];
  const made = await Promise.all(ends.map(() => accounts.createKey({ name: 'k' })));
  for (const [at, revokedAt] of ends.entries()) await rows.put(made[at]!.key.id, { ...made[at]!.key, revokedAt });
  await before.table('meta').put('schema', 7);
  await accounts.close();
  await before.close();

  const store = await openStore(path);
  const after = openAccounts(store);
  t.same(
    made.map(({ key }) => store.table<KeyRecord>('keys').get(key.id)?.revoked === true),
    [true, false, false],
  );
  t.equal((await after.keys.page(organizationId, 10, null))?.data.length, 3);
  await t.rejects(async () => after.authenticate(made[0]!.secret), { code: 'api_key_revoked' });
  for (const { secret } of made.slice(1)) t.ok(await after.authenticate(secret));
  await after.close();
  await store.close();
});
