// Tests files and uploads in a real PostgreSQL database.
import t from 'tap';
import { openPool } from '../../src/storage/postgres/database.js';
import { PostgresFileContents } from '../../src/storage/postgres/files/contents.js';
import { PostgresFileStore } from '../../src/storage/postgres/files/file-store.js';
import { PostgresUploadStore } from '../../src/storage/postgres/files/upload-store.js';
import { migrate } from '../../src/storage/postgres/migrations.js';
import { leaveOutIf } from '../support/needed-programs.js';
import { startPostgres, withoutPostgres } from '../support/postgres.js';
import { fileStoreTests, LIMITS } from './file-store.js';
import { START } from './records.js';

t.setTimeout(300_000); // the machine may be busy

leaveOutIf(t, withoutPostgres);
const postgres = await startPostgres();
t.teardown(() => postgres.close());
const settings = { url: await postgres.create(), connections: 6, timeout_ms: 60_000 };
await migrate(settings);
const database = openPool(settings);
t.teardown(() => database.close());
const clock = { now: START };
const contents = new PostgresFileContents(database, LIMITS, () => clock.now);
const files = new PostgresFileStore(contents);

fileStoreTests({
  files,
  uploads: new PostgresUploadStore(contents, files),
  clock,
  rows: async () => {
    const tables = ['file_contents', 'file_rows', 'files', 'file_holds', 'uploads', 'upload_parts'];
    const counts = tables.map((table) => `(SELECT count(*) FROM ${table})`).join(' + ');
    const [row] = await database.query<{ n: number }>(
      `SELECT ${counts} + (SELECT count(*) FROM file_sizes WHERE bytes <> 0) AS n`,
    );
    return row?.n ?? 0;
  },
});
