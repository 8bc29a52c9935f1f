// Takes scheduled backups of a real database.
import { existsSync, mkdtempSync, readdirSync, rmSync, statSync, utimesSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import t from 'tap';
import { ScheduledBackups } from '../../src/server/scheduled-backups.js';
import { checkDatabase } from '../../src/storage/lmdb/database-copy.js';
import { openStore } from '../../src/storage/lmdb/lmdb-store.js';
import { eventually } from '../e2e/monolith.js';

t.setTimeout(300_000); // the machine may be busy

const root = mkdtempSync(join(tmpdir(), 'monolith-backups-'));
t.teardown(() => rmSync(root, { recursive: true, force: true }));
const dataDir = join(root, 'data');
const opened = await openStore(dataDir);
t.teardown(() => opened.close());

const errors: object[] = [];
const times: number[] = [];
const quiet = (): void => undefined;
const telemetry = {
  log: { debug: quiet, info: quiet, warn: quiet, error: (fields: object) => void errors.push(fields) },
  backedUp: (at: number) => void times.push(at),
};
const HOUR_S = 3_600;

t.test('the first start takes a backup, and a restart within the interval takes none', async (t) => {
  const folder = join(root, 'first', 'backups');
  const schedule = { folder, hours: 1, keep: 2 };
  const first = new ScheduledBackups(dataDir, schedule, telemetry);
  t.ok(await eventually(() => times.length === 1));
  await first.close();
  const names = readdirSync(folder);
  t.match(names, [/^monolith-\d{8}T\d{6}Z\.mdb$/]);
  const file = join(folder, names[0]!);
  t.equal(statSync(file).mode & 0o777, 0o600);
  t.ok((await checkDatabase(file)).schema !== null, 'it is an intact database');

  const second = new ScheduledBackups(dataDir, schedule, telemetry);
  t.equal(times[1], statSync(file).mtimeMs / 1000, 'the age of the latest backup is known at once');
  await new Promise((done) => setTimeout(done, 2_000));
  t.equal(readdirSync(folder).length, 1, 'none is being written either');
  await second.close();
});

t.test('after the interval, a backup is taken and the oldest are deleted', async (t) => {
  const folder = t.testdir();
  const old = ['monolith-20260101T000000Z.mdb', 'monolith-20260102T000000Z.mdb', 'monolith-20260103T000000Z-2.mdb'];
  const others = ['monolith-notes.txt', 'my-monolith-20260101T000000Z.mdb', 'monolith-20260101T000000Z.mdb.1.partial'];
  const before = Date.now() / 1000 - 2 * HOUR_S;
  for (const name of [...old, ...others]) {
    writeFileSync(join(folder, name), '');
    utimesSync(join(folder, name), before, before);
  }
  const backups = new ScheduledBackups(dataDir, { folder, hours: 1, keep: 2 }, telemetry);
  t.ok(await eventually(() => !existsSync(join(folder, old[1]!))));
  await backups.close();
  const left = readdirSync(folder);
  t.match(left.filter((name) => !others.includes(name)).sort(), [old[2], /^monolith-/]);
  t.ok(
    others.every((name) => left.includes(name)),
    'other files stay',
  );
});

t.test('a failure is reported, and a directory that cannot be created is refused', async (t) => {
  const folder = t.testdir();
  const backups = new ScheduledBackups(join(root, 'missing'), { folder, hours: 1, keep: 2 }, telemetry);
  t.ok(await eventually(() => errors.length === 1));
  await backups.close();
  t.match(errors, [{ err: { message: /missing/ }, folder }]);
  t.same(readdirSync(folder), []);
  const file = join(t.testdir({ file: '' }), 'file');
  t.throws(() => new ScheduledBackups(dataDir, { folder: join(file, 'x'), hours: 1, keep: 2 }, telemetry));
});
