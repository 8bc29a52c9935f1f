// Tests the key cache in front of a slow store: the real store behind a delay that the test controls.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import t from 'tap';
import { LmdbDirectory } from '../../src/storage/lmdb/accounts/directory.js';
import { Accounts } from '../../src/accounts/accounts.js';
import { AccountChanges } from '../../src/accounts/changes.js';
import { KeyCache } from '../../src/accounts/key-cache.js';
import { keyDigest } from '../../src/accounts/keys.js';
import type { KeyStore } from '../../src/accounts/key-store.js';
import { openStore } from '../../src/storage/lmdb/lmdb-store.js';

type Looked = Pick<KeyStore, 'find' | 'noteLastUsed'>;

t.test(
  'a cached key is returned synchronously, others are looked up, and no outdated state is returned after a change',
  async (t) => {
    const path = mkdtempSync(join(tmpdir(), 'monolith-key-cache-'));
    const store = await openStore(path);
    const changes = new AccountChanges();
    const directory = new LmdbDirectory(store, changes);
    const accounts = new Accounts(directory, changes);
    t.teardown(async () => {
      await accounts.close();
      await store.close();
      rmSync(path, { recursive: true, force: true });
    });
    await accounts.organizations.ensureFirst();
    const { key, secret } = await accounts.createKey({ name: 'a' });
    const tables = directory.keyStore;
    let looked = 0;
    let gate: Promise<void> = Promise.resolve();
    const slow: Looked = {
      async find(digest) {
        looked++;
        const found = await tables.find(digest);
        await gate;
        return found;
      },
      noteLastUsed: (times) => tables.noteLastUsed(times),
    };
    let now = Date.now();
    const cache = new KeyCache(slow, { elapsed: () => now });

    t.match(await cache.authenticate(secret), { keyId: key.id });
    const known = cache.authenticate(secret);
    t.notOk(known instanceof Promise, 'a cached key is returned without a promise');
    t.equal(looked, 1);
    now += 1_001;
    t.ok(cache.authenticate(secret) instanceof Promise, 'a cached key is looked up again after a second');

    cache.forget();
    let open: () => void = () => undefined;
    gate = new Promise((resolve) => {
      open = resolve;
    });
    const begun = cache.authenticate(secret);
    await accounts.revokeKey(key.id);
    cache.forget();
    open();
    t.match(await begun, { keyId: key.id }, 'a lookup that started before the change succeeds');
    await t.rejects(
      async () => cache.authenticate(secret),
      { code: 'api_key_revoked' },
      'the result of that lookup is not cached after the change',
    );

    const other = await accounts.createKey({ name: 'b' });
    await cache.authenticate(other.secret);
    await cache.flushLastUsed();
    t.match((await accounts.keys.get(other.key.organizationId, other.key.id))?.lastUsedAt, /^\d{4}-/);
  },
);

t.test(
  'with change notifications, a key stays cached while they are reliable and while the store is unavailable',
  async (t) => {
    const path = mkdtempSync(join(tmpdir(), 'monolith-key-trust-'));
    const database = await openStore(path);
    const directory = new LmdbDirectory(database);
    t.teardown(async () => {
      await database.close();
      rmSync(path, { recursive: true, force: true });
    });
    const { id } = await directory.organizations.ensureFirst();
    const { key, secret } = await directory.apiKeys.create(id, { name: 'a' }, null);
    const { secret: unseen } = await directory.apiKeys.create(id, { name: 'b' }, null);
    const { secret: unheard } = await directory.apiKeys.create(id, { name: 'c' }, null);
    let now = Date.now();
    let gate: Promise<unknown> = Promise.resolve();
    const store: Looked = {
      find: async (digest) => {
        await gate;
        return directory.keyStore.find(digest);
      },
      noteLastUsed: (times) => directory.keyStore.noteLastUsed(times),
    };
    const trust = { confirmedAt: now - 60_000, away: false, gone: false, awayMs: 10_000 };
    const cache = new KeyCache(store, { elapsed: () => now, policy: trust });
    const isKnown = (): boolean => {
      try {
        const found = cache.authenticate(secret);
        if (!(found instanceof Promise)) return true;
        found.catch(() => undefined);
        return false;
      } catch {
        return false;
      }
    };
    t.match(await cache.authenticate(secret), { keyId: key.id });
    t.equal(cache.size, 2, 'the cache contains the key and its last use');
    now += 900;
    t.ok(isKnown(), 'a key is valid for 900 ms after it was read');
    now += 1;
    t.notOk(isKnown());
    trust.confirmedAt = now;
    await cache.authenticate(secret);
    trust.confirmedAt = now + 5_000;
    now += 5_900;
    t.ok(isKnown(), 'a key is valid for some time after the last complete notification');
    now += 1;
    t.notOk(isKnown());
    await cache.authenticate(secret);

    trust.confirmedAt = now;
    trust.away = true;
    now += 10_000;
    t.ok(isKnown(), 'a cached key stays valid while the notifications are unavailable');
    t.match(
      await cache.authenticate(unseen),
      { organizationId: id },
      'an uncached key is looked up while the notifications are unavailable',
    );
    trust.gone = true;
    await t.rejects(
      async () => cache.authenticate(unheard),
      { code: 'maintenance' },
      'an uncached key is refused while the store is unreachable',
    );
    now += 1;
    await t.rejects(async () => cache.authenticate(secret), { code: 'maintenance' });
    trust.away = trust.gone = false;
    trust.confirmedAt = now;
    now += 901;
    await cache.authenticate(secret);
    now += 901;
    const late = new AbortController();
    gate = sleep(60_000, undefined, { signal: late.signal }).catch(() => undefined);
    const began = performance.now();
    t.match(await cache.authenticate(secret), { keyId: key.id }, 'a cached key does not wait for a store that hangs');
    t.ok(performance.now() - began > 900);
    late.abort();
    cache.forget('org_other');
    t.equal(cache.size, 4);
    cache.forget(id);
    t.equal(cache.size, 2, 'only the last-use entries of the organization remain');
  },
);

t.test(
  'keys that are too long are not looked up, the cache is limited, and a key ends exactly at its expiry',
  async (t) => {
    const path = mkdtempSync(join(tmpdir(), 'monolith-key-bounds-'));
    const database = await openStore(path);
    const { apiKeys, keyStore, organizations } = new LmdbDirectory(database);
    t.teardown(async () => {
      await database.close();
      rmSync(path, { recursive: true, force: true });
    });
    const { id } = await organizations.ensureFirst();
    const { key, secret } = await apiKeys.create(id, { name: 'a', expiresAt: new Date('2100-01-01T00:00:00Z') }, null);
    let looked = 0;
    // The store returns the same key for every digest, because creating ten thousand keys would take too long.
    const store: Looked = {
      find: (_digest) => {
        looked++;
        return keyStore.find(keyDigest(secret));
      },
      noteLastUsed: (times) => keyStore.noteLastUsed(times),
    };
    let now = Date.now();
    let elapsed = 0;
    const cache = new KeyCache(store, { now: () => now, elapsed: () => elapsed });
    t.throws(() => cache.authenticate('x'.repeat(513)), { code: 'invalid_api_key' });
    t.equal(looked, 0);
    await cache.authenticate('x'.repeat(512));
    t.equal(looked, 1);
    for (let at = 0; at < 9_999; at++) await cache.authenticate(String(at));
    t.equal(cache.size, 10_001);
    await cache.authenticate('one more');
    t.equal(cache.size, 2, 'the whole cache is emptied at once');
    await cache.flushLastUsed();
    t.equal(cache.size, 1);

    now = Date.parse('2100-01-01T00:00:00.000Z') - 1;
    await cache.authenticate(secret);
    now += 1;
    t.throws(() => cache.authenticate(secret), { code: 'api_key_expired' });
    await cache.flushLastUsed();
    t.equal(
      (await apiKeys.get(id, key.id))?.lastUsedAt,
      '2099-12-31T23:59:59.999Z',
      'a refused request does not count as a use',
    );
    now = Date.now();
    elapsed += 2_000;
    await apiKeys.rotate(id, key.id, 3_600, { type: 'operator_api', id: null, email: null, ip: null }, null);
    now = Date.parse((await apiKeys.get(id, key.id))!.revokedAt!) - 1;
    await cache.authenticate(secret);
    now += 1;
    t.throws(() => cache.authenticate(secret), { code: 'api_key_revoked' });
    await organizations.change(id, { status: 'suspended' }, null);
    now -= 10_000;
    elapsed += 2_000;
    await t.rejects(async () => cache.authenticate(secret), { code: 'organization_suspended' });
  },
);
