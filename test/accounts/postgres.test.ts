// Runs the Directory and AuditLog tests on a real PostgreSQL, with processes that share one database.
import t, { type Test } from 'tap';
import { PostgresAttempts } from '../../src/storage/postgres/accounts/attempts.js';
import { PostgresDirectory } from '../../src/storage/postgres/accounts/directory.js';
import { PostgresClockRecords } from '../../src/storage/postgres/clock-record.js';
import { clockGuardTests } from '../storage/clock-guard.js';
import { databaseFor, postgresFor } from '../support/databases.js';
import { leaveOutIf } from '../support/needed-programs.js';
import { withoutPostgres } from '../support/postgres.js';
import { attemptsClockTests } from './attempts.js';
import { auditLogTests } from './audit-log.js';
import { directoryTests } from './directory-ports.js';

t.setTimeout(300_000); // the machine may be busy

leaveOutIf(t, withoutPostgres);
const postgres = await postgresFor(t);
const open = async (t: Test): Promise<PostgresDirectory> =>
  new PostgresDirectory(await databaseFor(t, postgres), { notify: () => undefined });

directoryTests(open);
attemptsClockTests(async (t, now) => new PostgresAttempts(await databaseFor(t, postgres), now));
clockGuardTests(
  async (t, clock) => new PostgresClockRecords(await databaseFor(t, postgres), { now: () => clock.wall }),
);
auditLogTests(async (t) => (await open(t)).audit);

t.test('the first sign-up deletes its code', async (t) => {
  const database = await databaseFor(t, postgres);
  const { signUps } = new PostgresDirectory(database, { notify: () => undefined });
  const kept = () => database.query(`SELECT 1 FROM secrets WHERE name = 'setup-code'`);
  await signUps.firstCode();
  t.equal((await kept()).length, 1);
  await signUps.signUp(
    { open: true, local: true },
    { email: 'a@example.com', name: 'a', organizationName: null, invite: null, code: null },
    'hash',
    { ip: '192.0.2.1', userAgent: 'a test' },
  );
  t.same(await kept(), []);
});
