// Child process of database-copy.ts that reads a possibly corrupt database through LMDB. Prints one JSON object, with a
// `problem` if there is one. Arguments: check FILE alone|served, or backup DIRECTORY-OF-THE-FILE DIRECTORY.

import { mkdtempSync, rmSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, dirname, join } from 'node:path';
import { open } from 'lmdb';
import type { RootDatabase } from 'lmdb';
import type { Checked } from './database-copy.js';
import { checkWhole, DamagedFile } from './database-file.js';
import type { Figures } from './database-file.js';
import { TABLES } from '../store.js';

const openReadOnly = (folder: string): RootDatabase =>
  open({ path: folder, readOnly: true, maxDbs: TABLES.length + 8, compression: false });

/** Runs within a read transaction, during which no page of the state that was newest at its start is reused. */
function figuresOf(root: RootDatabase, file: string): Figures {
  const transaction = root.useReadTransaction();
  try {
    root.get(''); // starts the read transaction
    return checkWhole(file);
  } finally {
    transaction.done();
  }
}

/**
 * In a file that is being written, damage counts only if it is found twice, so that a transient state does not stop a
 * server.
 */
function figuresOfServed(root: RootDatabase, file: string): Figures {
  try {
    return figuresOf(root, file);
  } catch (error) {
    if (!(error instanceof DamagedFile)) throw error;
    root.resetReadTxn();
    return figuresOf(root, file);
  }
}

function check(file: string, served: boolean): Checked {
  if (!served) checkWhole(file);
  // The file is placed in a separate directory, because LMDB creates its reader table next to the file and requires
  // this file name.
  const folder =
    basename(file) === 'data.mdb' && served ? dirname(file) : mkdtempSync(join(tmpdir(), 'monolith-check-'));
  try {
    if (folder !== dirname(file)) symlinkSync(file, join(folder, 'data.mdb'));
    const root = openReadOnly(folder);
    const figures = served ? figuresOfServed(root, file) : figuresOf(root, file);
    let schema: unknown;
    for (const { name } of figures.tables) {
      const table = root.openDB<unknown, string>({ name, encoding: 'msgpack' });
      let at = 'the first entry';
      try {
        for (const { key, value } of table.getRange()) {
          at = `the entry after ${JSON.stringify(key)}`;
          if (name === 'meta' && key === 'schema') schema = value;
        }
      } catch (error) {
        throw new DamagedFile(`is damaged: in table ${name}, ${at} cannot be read (${(error as Error).message})`);
      }
    }
    return { ...figures, schema: typeof schema === 'number' ? schema : null };
  } finally {
    if (folder !== dirname(file)) rmSync(folder, { recursive: true, force: true });
  }
}

async function work([what = '', from = '', to = '']: readonly string[]): Promise<object> {
  if (what === 'check') return check(from, to === 'served');
  await openReadOnly(from).backup(to, false);
  return {};
}

try {
  process.stdout.write(JSON.stringify(await work(process.argv.slice(2))));
} catch (error) {
  process.stdout.write(
    JSON.stringify({
      problem: error instanceof DamagedFile ? error.message : `cannot be read: ${(error as Error).message}`,
    }),
  );
  process.exitCode = 1;
}
