// What is remembered of keys, in front of a store that takes its time: the real one, with a gate before it.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import t from 'tap';
import { LmdbDirectory } from '../../src/accounts/lmdb-directory.js';
import { Accounts } from '../../src/accounts/accounts.js';
import { AccountChanges } from '../../src/accounts/changes.js';
import { KeyCache } from '../../src/accounts/key-cache.js';
import type { KeyStore } from '../../src/accounts/key-store.js';
import { openStore } from '../../src/storage/lmdb-store.js';

t.test('known keys at once, unknown ones when they are found, and nothing from before a change', async (t) => {
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
  const slow: KeyStore = {
    async find(digest) {
      looked++;
      const found = await tables.find(digest);
      await gate;
      return found;
    },
    noteLastUsed: (times) => tables.noteLastUsed(times),
  };
  let now = Date.now();
  const cache = new KeyCache(slow, () => now);

  t.match(await cache.authenticate(secret), { keyId: key.id });
  const known = cache.authenticate(secret);
  t.notOk(known instanceof Promise, 'a known key costs no promise');
  t.equal(looked, 1);
  now += 1_001;
  t.ok(cache.authenticate(secret) instanceof Promise, 'after a second it is looked up again');
  now -= 5_000;
  t.ok(cache.authenticate(secret) instanceof Promise, 'also if the clock was turned back');
  now += 5_000;

  cache.forget();
  let open: () => void = () => undefined;
  gate = new Promise((resolve) => { open = resolve; });
  const begun = cache.authenticate(secret);
  await accounts.revokeKey(key.id);
  cache.forget();
  open();
  t.match(await begun, { keyId: key.id }, 'it was found before the change');
  await t.rejects(async () => cache.authenticate(secret), { code: 'api_key_revoked' }, 'and is not remembered after it');

  const other = await accounts.createKey({ name: 'b' });
  await cache.authenticate(other.secret);
  await cache.flushLastUsed();
  t.match((await accounts.keys.get(other.key.organizationId, other.key.id))?.lastUsedAt, /^\d{4}-/);
});
