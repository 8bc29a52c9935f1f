// monolith state: imports the content of one server's data directory into the database that several servers share.

import { commandConfig } from './command-config.js';
import { importFolder } from '../server/lmdb-import.js';
import { noWords, UsageError } from '../config/arguments.js';
import type { OwnFlags } from '../config/arguments.js';
import { askedForHelp, table } from './output.js';

const HELP = `
Usage: monolith state import --from FOLDER --database postgres://USER:PASSWORD@HOST/NAME

Copies users, organizations, keys, sessions, settings, the audit log, usage, the request log, saved presets,
conversations, stored chat completions, files, batches and webhooks from a data directory into an empty database, then
reads everything back and compares it. Run the command again to continue an interrupted import. The data directory is
not modified.

Stop the server that uses the data directory first: changes that it makes after the start of the import are not copied.
Stored responses are not copied. See docs/guides/scaling.md.

Example:
  monolith state import --from /var/lib/monolith --database postgres://monolith:secret@db.example.com/monolith
`;

export const FLAGS: OwnFlags = { '--from': 'value' };

export async function state(argv: string[]): Promise<number> {
  if (askedForHelp(argv, HELP)) return 0;
  const {
    config,
    values,
    words: [action, ...others],
  } = commandConfig(argv, FLAGS);
  noWords(others);
  if (action !== 'import')
    throw new UsageError(`state: expected import${action === undefined ? '' : `, not "${action}"`}`);
  const from = values.get('--from');
  const { url } = config.database;
  if (from === undefined) throw new UsageError('state: import needs --from FOLDER, a data directory');
  if (url === null) throw new UsageError('state: import needs --database postgres://…, the target database');
  const stop = new AbortController();
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => stop.abort());
  const { parts, responses } = await importFolder({
    from,
    database: { ...config.database, url },
    signal: stop.signal,
    report: (part, rows) => {
      if (process.stderr.isTTY) process.stderr.write(`\r${part}: ${rows}\u001b[K`);
    },
  });
  if (process.stderr.isTTY) process.stderr.write('\r\u001b[K');
  process.stdout.write(
    table([
      ['PART', 'ROWS', 'SHA-256'],
      ...parts.map(({ part, rows, hash }) => [part, String(rows), hash.slice(0, 16)]),
    ]),
  );
  process.stdout.write(
    `Imported and verified all data of ${from}.${responses === 0 ? '' : ` Stored responses were not imported: ${responses} stay in the folder.`}\n`,
  );
  return 0;
}
