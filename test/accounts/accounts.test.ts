import { mkdtempSync, readFileSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import t from 'tap';
import type { Test } from 'tap';
import type { Accounts } from '../../src/accounts/accounts.js';
import { openAccounts } from '../../src/storage/lmdb/accounts/directory.js';
import { keyObject } from '../../src/accounts/keys.js';
import { permit } from '../../src/shared/permissions.js';
import { openStore } from '../../src/storage/lmdb/lmdb-store.js';
import { eventually } from '../e2e/monolith.js';

function folder(t: Test): string {
  const path = mkdtempSync(join(tmpdir(), 'monolith-accounts-'));
  t.teardown(() => rmSync(path, { recursive: true, force: true }));
  return path;
}

async function open(path: string): Promise<{ accounts: Accounts; close(): Promise<void> }> {
  const store = await openStore(path);
  const accounts = openAccounts(store);
  return {
    accounts,
    close: async () => {
      await accounts.close();
      await store.close();
    },
  };
}

t.test('the first start creates a key, prints it once and stores only its hash', async (t) => {
  const path = folder(t);
  const first = await open(path);
  const { created, organization } = await first.accounts.bootstrap(null);
  t.match(created, /^sk-[0-9A-Za-z]{48}$/);
  t.match(organization.id, /^org_[0-9A-Za-z]{24}$/);
  await first.close();

  const second = await open(path);
  t.equal((await second.accounts.bootstrap(null)).created, null);
  const identity = await second.accounts.authenticate(created as string);
  t.match(identity, { organizationId: organization.id, organizationNumber: 1, models: ['*'] });
  const [key] = await second.accounts.keys.all();
  t.match(keyObject(key as never, new Date()), {
    id: /^key_/,
    prefix: created?.slice(0, 11),
    last4: created?.slice(-4),
    status: 'active',
    revoked_at: null,
  });
  await second.close();
  for (const file of readdirSync(join(path, 'db'))) {
    t.notOk(
      readFileSync(join(path, 'db', file)).includes((created as string).slice(12)),
      `${file} does not contain the secret`,
    );
  }
});

t.test('a configured key is accepted, even after the setting changes, and no other key is created', async (t) => {
  const path = folder(t);
  for (const chosen of ['my-own-key-1', 'my-own-key-2', 'my-own-key-2']) {
    const { accounts, close } = await open(path);
    t.equal((await accounts.bootstrap(chosen)).created, null);
    t.ok(await accounts.authenticate(chosen));
    await close();
  }
  const { accounts, close } = await open(path);
  t.equal((await accounts.keys.all()).length, 2);
  await t.rejects(async () => accounts.authenticate('my-own-key-'), { code: 'invalid_api_key' });
  await close();
});

t.test('a server sees changes by another process within 5 s', async (t) => {
  const path = folder(t);
  const server = await open(path);
  const { created } = await server.accounts.bootstrap(null);
  await server.accounts.authenticate(created as string);

  // Opens a second environment on the same directory, as `monolith keys` does.
  const { execFileSync } = await import('node:child_process');
  const script = (call: string): string => `
    import { openStore } from ${JSON.stringify(new URL('../../src/storage/lmdb/lmdb-store.js', import.meta.url).href)};
    import { openAccounts } from ${JSON.stringify(new URL('../../src/storage/lmdb/accounts/directory.js', import.meta.url).href)};
    const store = await openStore(${JSON.stringify(path)});
    const accounts = openAccounts(store);
    ${call}
    await accounts.close(); await store.close();`;
  const run = (call: string): string =>
    execFileSync(process.execPath, ['--input-type=module', '-e', script(call)], { encoding: 'utf8' }).trim();

  const made = run('process.stdout.write((await accounts.createKey({ name: "other" })).secret);');
  // Committed data becomes visible in the next event-loop turn.
  t.ok(
    await eventually(async () => {
      try {
        return (await server.accounts.authenticate(made)).keyId !== '';
      } catch {
        return false;
      }
    }),
    'a new key works',
  );
  run(`await accounts.revokeKey((await accounts.findKeys(${JSON.stringify(made.slice(0, 11))}))[0].id);`);
  const refusal = async (): Promise<unknown> => {
    try {
      await server.accounts.authenticate(made);
      return null;
    } catch (error) {
      return (error as { code?: unknown }).code;
    }
  };
  t.ok(
    await eventually(async () => (await refusal()) === 'api_key_revoked'),
    'a revoked key stops working within about a second',
  );
  await server.close();
});

t.test('last-use times are written in batches and at shutdown', async (t) => {
  const path = folder(t);
  const first = await open(path);
  const { created } = await first.accounts.bootstrap(null);
  await first.accounts.authenticate(created as string);
  t.equal((await first.accounts.keys.all())[0]?.lastUsedAt, null);
  await first.close();
  const second = await open(path);
  t.match((await second.accounts.keys.all())[0]?.lastUsedAt, /^\d{4}-/);
  await second.close();
});

t.test('a key can be found by id, name, public id or last four characters, and revoked', async (t) => {
  const { accounts, close } = await open(folder(t));
  await accounts.bootstrap(null);
  const { key, secret } = await accounts.createKey({ name: 'a', models: ['tycho-1.0'], scopes: ['inference'] });
  const prefix = `sk-${key.publicId as string}`;
  const shown = [prefix, `${prefix}…${key.last4}`, `${prefix}-…${key.last4}`];
  for (const reference of [key.id, key.publicId as string, ...shown, secret, key.last4, 'a'])
    t.match(await accounts.findKeys(reference), [{ id: key.id }], reference);
  t.same(await accounts.findKeys('nothing'), []);
  const identity = await accounts.authenticate(secret);
  t.doesNotThrow(() => permit(identity, 'inference', 'tycho-1.0'));
  t.throws(() => permit(identity, 'inference', 'hal-1.0'), { status: 403, code: 'model_not_allowed', param: 'model' });
  t.throws(() => permit(identity, 'tokens.count', 'tycho-1.0'), { status: 403, code: 'endpoint_not_allowed' });
  await accounts.revokeKey(key.id);
  const at = (await accounts.keys.all()).find((one) => one.id === key.id)?.revokedAt;
  await accounts.revokeKey(key.id);
  t.equal(
    (await accounts.keys.all()).find((one) => one.id === key.id)?.revokedAt,
    at,
    'revoking a key again changes nothing',
  );
  await close();
});
