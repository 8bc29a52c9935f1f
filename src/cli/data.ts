// monolith data: verifies the database, backs it up while a server is running, restores a backup, and confirms that a
// clock that jumped ahead is correct.

import { commandConfig } from './command-config.js';
import { showBytes } from '../config/kinds.js';
import { backUp, checkDatabase, restore } from '../storage/lmdb/database-copy.js';
import type { Checked } from '../storage/lmdb/database-copy.js';
import { confirmClock, heldSince } from '../server/clock-confirmation.js';
import type { Config } from '../config/settings.js';
import { noWords, UsageError } from '../config/arguments.js';
import type { OwnFlags } from '../config/arguments.js';
import { askedForHelp } from './output.js';

const HELP = `
Usage: monolith data check [PATH]       verify every page and value of the database, or of a backup
       monolith data backup DEST        copy the database, even while a server runs, to a new file or, if DEST is a
                                        directory or ends with a slash, to a new file in it
       monolith data restore FROM       replace the database with a backup; the old database is kept next to it
       monolith data sweep [--confirm]  show whether deletion is paused because the clock jumped ahead;
                                        --confirm: the clock is correct, resume deletion

--data-dir sets the data directory. A backup contains everything that was committed before it started, including
secrets: protect it like the data directory. See docs/guides/production.md.

Examples:
  monolith data check
  monolith data backup /backups/
  monolith data restore /backups/monolith-20261130T120000Z.mdb
`;

export const FLAGS: OwnFlags = { '--confirm': 'switch' };

export async function data(argv: string[]): Promise<number> {
  if (askedForHelp(argv, HELP)) return 0;
  const { config, values, words } = commandConfig(argv, FLAGS);
  const [action, path, ...others] = words;
  if (values.has('--confirm') && action !== 'sweep') throw new UsageError('data: --confirm is only valid with sweep');
  noWords(others);
  const stop = new AbortController();
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => stop.abort());
  switch (action) {
    case 'check': {
      const checked = await checkDatabase(path ?? config.data_dir, stop.signal);
      process.stdout.write(`${checked.path} is intact: ${summarize(checked)}\n`);
      return 0;
    }
    case 'backup': {
      const checked = await backUp(config.data_dir, needed(action, path, 'a destination file'), stop.signal);
      process.stdout.write(`${checked.path}: ${summarize(checked)}\n`);
      return 0;
    }
    case 'restore': {
      const { kept, checked } = await restore(config.data_dir, needed(action, path, 'a backup file'), stop.signal);
      process.stdout.write(
        `Restored to ${config.data_dir}: ${summarize(checked)}\n${kept === null ? '' : `The previous database is in ${kept}\n`}`,
      );
      return 0;
    }
    case 'sweep': {
      noWords(words.slice(1));
      process.stdout.write(`${await sweepState(config, values.has('--confirm'))}\n`);
      return 0;
    }
    default:
      throw new UsageError(
        `data: expected check, backup, restore or sweep${action === undefined ? '' : `, not "${action}"`}`,
      );
  }
}

/** `confirm`: whether to record that the clock is correct now. */
async function sweepState(config: Pick<Config, 'data_dir' | 'database'>, confirm: boolean): Promise<string> {
  if (confirm)
    return `Confirmed: the time is ${(await confirmClock(config)).toISOString()}. A running server resumes deletion within a minute.`;
  const held = await heldSince(config);
  if (held === null) return 'Deletion is not suspended: expired data is deleted.';
  return `Deletion is suspended: the clock shows ${held.now.toISOString()}, more than a day after the last time stored by a server, ${held.trusted.toISOString()}. If the clock is correct, run: monolith data sweep --confirm`;
}

function needed(action: string, path: string | undefined, what: string): string {
  if (path === undefined) throw new UsageError(`data: ${action} needs ${what}`);
  return path;
}

function summarize({ bytes, tables, pages, usedPages }: Checked): string {
  const entries = tables.reduce((sum, one) => sum + one.entries, 0);
  return `${entries.toLocaleString('en-US')} entries in ${tables.length} tables, ${showBytes(bytes)}, ${Math.round((100 * usedPages) / pages)} % of it in use`;
}
