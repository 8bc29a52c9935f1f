// Imports a data directory into PostgreSQL. An interrupted import resumes, the contents agree by counts and hashes,
// keys and passwords still work, and the directory is unchanged.
import { spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { once } from 'node:events';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import t from 'tap';
import { AccountChanges } from '../../src/accounts/changes.js';
import type { Directory } from '../../src/accounts/directory.js';
import type { Invite } from '../../src/accounts/invites.js';
import { keyDigest } from '../../src/accounts/keys.js';
import { LmdbDirectory } from '../../src/storage/lmdb/accounts/directory.js';
import { PostgresDirectory } from '../../src/storage/postgres/accounts/directory.js';
import { LmdbRequestLog } from '../../src/storage/lmdb/usage/request-log.js';
import { PostgresRequestLog } from '../../src/storage/postgres/usage/request-log.js';
import { databasePath, openStore } from '../../src/storage/lmdb/lmdb-store.js';
import { configWith } from '../../src/config/load.js';
import { openPool } from '../../src/storage/postgres/database.js';
import { migrate } from '../../src/storage/postgres/migrations.js';
import { LmdbUsageStore } from '../../src/storage/lmdb/usage/usage-store.js';
import { PostgresUsageStore } from '../../src/storage/postgres/usage/usage-store.js';
import type { UsageStore } from '../../src/usage/usage-store.js';
import { eventually, main } from '../e2e/monolith.js';
import { commandHost } from '../support/command-host.js';
import { entry } from '../requests/request-log.js';
import { postgresFor } from '../support/databases.js';
import { leaveOutIf } from '../support/needed-programs.js';
import { withoutPostgres } from '../support/postgres.js';
import { finished, NOW, query } from '../usage/usage-store.js';

t.setTimeout(300_000); // the machine may be busy

leaveOutIf(t, withoutPostgres);
const postgres = await postgresFor(t);
const folder = mkdtempSync(join(tmpdir(), 'monolith-import-test-'));
t.teardown(() => rmSync(folder, { recursive: true, force: true }));
const CLIENT = { ip: '192.0.2.1', userAgent: 'a test' };
const signUp = ({ signUps }: Directory, name: string, invite: string | null = null) =>
  signUps.signUp(
    { open: true, local: true },
    { email: `${name}@example.com`, name, organizationName: null, invite, code: null },
    `hash of ${name}`,
    CLIENT,
  );

const store = await openStore(folder);
const source = new LmdbDirectory(store);
const owner = await signUp(source, 'owner');
const actor = { type: 'user', id: owner.user.id, email: owner.user.email, ip: null } as const;
const invite = await source.invites.create(owner.organization.id, 'guest@example.com', 'admin', owner.user.id, actor);
const open = await source.invites.create(owner.organization.id, 'later@example.com', 'viewer', owner.user.id, actor);
const guest = await signUp(source, 'guest', invite.token);
const robot = await source.serviceAccounts.create(
  owner.organization.id,
  { name: 'build', role: 'developer' },
  owner.user.id,
  actor,
);
const robotKey = await source.apiKeys.create(
  owner.organization.id,
  { name: 'robot', serviceAccount: { id: robot.id, by: owner.user.id } },
  actor,
);
await source.serviceAccounts.change(owner.organization.id, robot.id, { disabled: true }, owner.user.id, actor);
await source.organizations.change(owner.organization.id, { dashboardAddresses: ['203.0.113.0/24'] }, null);
await store.transaction(() => {
  // The row as an earlier release stored it.
  const table = store.table<Partial<Invite>>('invites');
  const { createdBy: _, ...earlier } = table.get([owner.organization.id, invite.id])!;
  void table.put([owner.organization.id, invite.id], earlier);
});
const gone = await signUp(source, 'gone');
await source.organizations.delete(gone.organization.id, actor);
await source.organizations.change(
  owner.organization.id,
  { limits: { '*': { rpm: 7 } }, monthlyTokenCap: 1_000, keepsText: true },
  actor,
);
const { key, secret } = await source.apiKeys.create(
  owner.organization.id,
  { name: 'k', limits: { 'hal-1.0': { tpm: 9 } } },
  actor,
);
await source.secondFactors.propose(guest.user.id, 'sealed');
await source.secondFactors.enable(
  guest.user,
  { sealed: 'sealed', step: 5, recovery: ['a', 'b"c'] },
  'sess_none',
  actor,
);
await source.identities.link(guest.user, { issuer: 'https://issuer.example', subject: 'me' }, actor);
const usage = new LmdbUsageStore(store);
for (let batch = 0; batch < 12; batch++)
  await usage.record(
    Array.from({ length: 300 }, (_, at) => ({
      usage: finished({ requestId: `req_${batch}_${at}`, keyId: `key_${at % 9}` }),
      at: NOW,
    })),
  );
await new LmdbRequestLog(store).add(
  Array.from({ length: 700 }, (_, at) =>
    entry(
      at,
      at % 3 === 0 ? { text: { prompt: [{ role: 'user', text: `nul \0 ${at}` }], answer: [], cut: false } } : {},
    ),
  ),
);
await source.close();
await store.close();
const digest = (): string =>
  createHash('sha256')
    .update(readFileSync(databasePath(folder)))
    .digest('hex');
const before = digest();
const url = await postgres.create();
const words = (to: string): string[] => ['state', 'import', '--from', folder, '--database', to];
const own = { HOME: join(folder, 'home'), MONOLITH_DATA_DIR: join(folder, 'home') };
const monolith = commandHost(t, own);

t.test('an interrupted import resumes and ends with the same contents as the folder', async (t) => {
  const cut = spawn(process.execPath, [main, ...words(url)], {
    stdio: 'ignore',
    env: { ...process.env, ...own },
  });
  const rows = async (): Promise<number> =>
    (
      await postgres
        .ask<{ rows: string }>(url, 'SELECT coalesce(sum(rows), 0) AS rows FROM imports')
        .catch(() => [{ rows: '0' }])
    )[0]?.rows as unknown as number;
  await eventually(async () => Number(await rows()) > 20 || cut.exitCode !== null);
  cut.kill('SIGKILL');
  if (cut.exitCode === null && cut.signalCode === null) await once(cut, 'exit');
  const again = await monolith(words(url));
  t.equal(again.status, 0, again.err);
  t.match(again.out, /usage-rows +3600 +[0-9a-f]{16}[\s\S]*requests +700 [\s\S]*Imported and verified all data/);
  t.equal(digest(), before, 'the folder is unchanged');
  t.equal((await monolith(words(url))).status, 0, 'importing again changes nothing');

  const database = openPool({ url, connections: 4, timeout_ms: 10_000 });
  t.teardown(() => database.close());
  const directory = new PostgresDirectory(database, new AccountChanges());
  t.match(await directory.keyStore.find(keyDigest(secret)), {
    keyId: key.id,
    identity: {
      organizationId: owner.organization.id,
      limits: { '*': { rpm: 7 } },
      keyLimits: { 'hal-1.0': { tpm: 9 } },
      monthlyTokenCap: 1_000,
      keepsText: true,
    },
  });
  t.match(await directory.serviceAccounts.list(owner.organization.id), [
    { id: robot.id, name: 'build', role: 'developer', disabled: true, createdBy: owner.user.id, activeKeys: 1 },
  ]);
  t.match(await directory.keyStore.find(keyDigest(robotKey.secret)), { disabled: true });
  t.match(await directory.organizations.get(owner.organization.id), {
    settings: { dashboardAddresses: ['203.0.113.0/24'] },
  });
  t.match(await directory.signIns.find(owner.cookie), {
    user: { email: 'owner@example.com', passwordHash: 'hash of owner', operator: true },
  });
  t.match(await directory.members.page(owner.organization.id, 10, null), {
    data: [
      { email: 'owner@example.com', role: 'owner' },
      { email: 'guest@example.com', role: 'admin' },
    ],
  });
  t.match(await directory.invites.ofLink(open.token ?? ''), { invite: { id: open.id, createdBy: owner.user.id } });
  t.equal(
    (await directory.invites.page(owner.organization.id, 10, null))?.data.find(({ id }) => id === invite.id)?.createdBy,
    null,
    'an invitation from an earlier release has no creator',
  );
  t.match(await directory.secondFactors.get(guest.user.id), { sealed: 'sealed', lastStep: 5, recovery: ['a', 'b"c'] });
  t.match(await directory.identities.userOf({ issuer: 'https://issuer.example', subject: 'me' }), {
    id: guest.user.id,
  });
  t.ok(
    (await signUp(directory, 'new')).organization.tenant > gone.organization.tenant,
    'tenant numbers are not reused',
  );
  t.equal(
    (await directory.audit.list(owner.organization.id, 1, null)).data[0]?.action,
    'api_key.created',
    'entries are listed newest first',
  );
  const sums = async (of: UsageStore): Promise<unknown> => [
    await of.rows(query({ groupBy: ['api_key'] }), 100, null),
    await of.monthTokens(['org_a'], '2026-11'),
    await of.latencies(query()),
  ];
  const kept = await openStore(folder);
  t.teardown(() => kept.close());
  t.same(await sums(new PostgresUsageStore(database)), await sums(new LmdbUsageStore(kept)));
  const log = new PostgresRequestLog(database);
  t.same(await log.size(), await new LmdbRequestLog(kept).size());
  const [youngest] = (await log.list({ organizationId: 'org_a', keyId: null, model: null, outcome: null }, 1, null))
    .rows;
  t.match(await log.text('org_a', youngest?.id ?? ''), { prompt: [{ text: 'nul \0 699' }] });
});

t.test('reports tables that differ, and refuses a database that already has accounts', async (t) => {
  await postgres.ask(url, 'UPDATE usage_hours SET requests = requests + 1');
  const differs = await monolith(words(url));
  t.not(differs.status, 0);
  t.match(differs.err, /differs/);
  const own = await postgres.create();
  t.match(await monolith(['keys', 'list', '--database', own]), { status: 1, err: /has no Monolith tables/ });
  t.same(await postgres.ask(own, "SELECT to_regclass('monolith_versions') AS found"), [{ found: null }]);
  await migrate({ ...configWith().database, url: own, connections: 1 });
  t.equal((await monolith(['keys', 'create', '--database', own])).status, 0);
  const refused = await monolith(words(own));
  t.match(refused.err, /already contains accounts/);
  t.not(refused.status, 0);
});
