// Accounts over a real PostgreSQL: what every Directory and AuditLog promises, by processes that share one database.
import t, { type Test } from 'tap';
import { PostgresDirectory } from '../../src/accounts/postgres/directory.js';
import { databaseFor, postgresFor } from '../support/databases.js';
import { leaveOutIf } from '../support/needed-programs.js';
import { withoutPostgres } from '../support/postgres.js';
import { auditLogTests } from './audit-log.js';
import { directoryTests } from './directory-ports.js';

t.setTimeout(300_000);     // for a busy machine

leaveOutIf(t, withoutPostgres);
const postgres = await postgresFor(t);
const open = async (t: Test): Promise<PostgresDirectory> => new PostgresDirectory(await databaseFor(t, postgres), { tell: () => undefined });

directoryTests(open);
auditLogTests(async (t) => (await open(t)).audit);
