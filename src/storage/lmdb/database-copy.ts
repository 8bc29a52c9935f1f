// Backup, check and restore of the database. Backups can be taken while a server is writing, and are checked before
// they get their final name. LMDB itself reads files only in a child process, because it maps them into memory and a
// corrupt file would crash the process.

import { spawn } from 'node:child_process';
import { chmodSync, copyFileSync, existsSync, linkSync, mkdirSync, renameSync, rmSync, statSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { lockDataDir, lockPath } from '../data-dir-lock.js';
import { checkHead, checkMeta, DamagedFile } from './database-file.js';
import type { Figures } from './database-file.js';
import { databasePath, existingDatabase, SCHEMA_VERSION } from './lmdb-store.js';
import { StorageError } from '../store.js';
import { syncPath } from '../sync-path.js';
import { makeFolder } from '../../shared/make-folder.js';

/**
 * Statistics of an intact file. `schema`: schema version of its tables; null if this program did not write the
 * file.
 */
export interface Checked extends Figures {
  schema: number | null;
}

const WORK = fileURLToPath(new URL('./database-work.js', import.meta.url));

/**
 * Reads every page and every value. `path`: a file, a data directory, or the directory that contains the file. Throws a
 * StorageError that describes the damage.
 */
export async function checkDatabase(path: string, signal?: AbortSignal): Promise<Checked & { path: string }> {
  const file = fileAt(path);
  const running = file === databasePath(dirname(dirname(file))) && isServed(dirname(dirname(file)));
  return { path: file, ...(await check(file, running, signal)) };
}

/**
 * Writes a consistent copy of everything committed when it starts to `destination`: a new file or, if it is a directory
 * or ends with a slash, a file in it that is named after the current time. A missing directory is created. On failure,
 * no file is left there.
 */
export async function backUp(
  dataDir: string,
  destination: string,
  signal?: AbortSignal,
): Promise<Checked & { path: string }> {
  const from = existingDatabase(dataDir);
  refuseDamaged(from, isServed(dataDir));
  const target = newFileAt(destination);
  const beside = `${target}.${process.pid}.partial`;
  try {
    mkdirSync(beside, { mode: 0o700 });
    await inProcess(from, ['backup', dirname(from), beside], signal);
    const copy = join(beside, 'data.mdb');
    const checked = await check(copy, false, signal);
    putInPlace(copy, target);
    return { path: target, ...checked };
  } catch (error) {
    throw error instanceof StorageError
      ? error
      : new StorageError(`Cannot write ${target}: ${(error as Error).message}`, error);
  } finally {
    rmSync(beside, { recursive: true, force: true });
  }
}

/**
 * Replaces the data directory's database with a backup. Returns the folder in which the previous database is kept; null
 * if there was none.
 */
export async function restore(
  dataDir: string,
  source: string,
  signal?: AbortSignal,
): Promise<{ kept: string | null; checked: Checked }> {
  const from = fileAt(source);
  const lock = lockDataDir(dataDir);
  const beside = join(dataDir, `db-restored-${process.pid}`);
  try {
    const to = databasePath(dataDir);
    if (existsSync(to) && statSync(to).ino === statSync(from).ino && statSync(to).dev === statSync(from).dev)
      throw new StorageError(`${from} is the database itself, not a backup of it.`);
    refuseDamaged(from, false);
    mkdirSync(beside, { mode: 0o700 });
    const copy = join(beside, 'data.mdb');
    copyFileSync(from, copy);
    const checked = await check(copy, false, signal);
    if (checked.schema === null)
      throw new StorageError(`${from} is an LMDB database that was not written by Monolith.`);
    if (checked.schema > SCHEMA_VERSION)
      throw new StorageError(
        `${from} has schema version ${checked.schema}; this release requires ${SCHEMA_VERSION}. Use the release that wrote it.`,
      );
    makeFolder(dirname(to), 0o700);
    const kept = existsSync(to) ? keep(to, dataDir) : null;
    // This file's reader table and last transaction number belong to the previous database.
    rmSync(join(dirname(to), 'lock.mdb'), { force: true });
    putInPlace(copy, to);
    return { kept, checked };
  } catch (error) {
    throw error instanceof StorageError
      ? error
      : new StorageError(`Cannot replace the database in ${dataDir}: ${(error as Error).message}`, error);
  } finally {
    rmSync(beside, { recursive: true, force: true });
    lock.release();
  }
}

/** Creates a second link to the file, so that a database exists at all times. */
function keep(file: string, dataDir: string): string {
  const folder = join(dataDir, `db-before-${new Date().toISOString().replace(/[-:]|\.\d+/g, '')}`);
  mkdirSync(folder, { mode: 0o700 });
  try {
    linkSync(file, join(folder, 'data.mdb'));
  } catch {
    copyFileSync(file, join(folder, 'data.mdb')); // the file system does not support hard links
  }
  syncPath(folder);
  return folder;
}

/** Syncs the file to disk, moves it to its final name, and restricts access to the owner. */
function putInPlace(file: string, target: string): void {
  chmodSync(file, 0o600);
  syncPath(file);
  renameSync(file, target);
  syncPath(dirname(target));
}

/** Returns the path of the backup file, in an existing directory. Throws StorageError. */
function newFileAt(destination: string): string {
  const path = resolve(destination);
  const isFolder = destination.endsWith('/') || statSync(path, { throwIfNoEntry: false })?.isDirectory() === true;
  try {
    makeFolder(isFolder ? path : dirname(path), 0o700);
  } catch (error) {
    throw new StorageError(`Cannot create the backup directory: ${(error as Error).message}.`, error);
  }
  if (!isFolder) {
    if (existsSync(path)) throw new StorageError(`${path} already exists. Choose a new file name.`);
    return path;
  }
  const name = join(path, `monolith-${new Date().toISOString().replace(/[-:]|\.\d+/g, '')}`);
  let file = `${name}.mdb`;
  for (let copy = 2; existsSync(file); copy++) file = `${name}-${copy}.mdb`; // several within a second
  return file;
}

function fileAt(path: string): string {
  const absolute = resolve(path);
  const found = [join(absolute, 'db', 'data.mdb'), join(absolute, 'data.mdb'), absolute].find(isFile);
  if (found === undefined) throw new StorageError(`No database found at ${absolute}.`);
  return found;
}

function isFile(path: string): boolean {
  try {
    return statSync(path).isFile();
  } catch {
    return false;
  }
}

function isServed(dataDir: string): boolean {
  if (!isFile(lockPath(dataDir))) return false;
  try {
    lockDataDir(dataDir).release();
    return false;
  } catch {
    return true;
  }
}

/**
 * `running`: a server has mapped the file and writes to it. In that case, the child process checks the pages, within a
 * read transaction.
 */
function refuseDamaged(file: string, running: boolean): void {
  try {
    (running ? checkMeta : checkHead)(file);
  } catch (error) {
    throw damaged(file, error);
  }
}

const damaged = (file: string, error: unknown): StorageError =>
  new StorageError(
    `${file} ${error instanceof DamagedFile ? error.message : `cannot be read: ${(error as Error).message}`}.`,
    error,
  );

async function check(file: string, running: boolean, signal?: AbortSignal): Promise<Checked> {
  refuseDamaged(file, running);
  return (await inProcess(file, ['check', file, running ? 'served' : 'alone'], signal)) as Checked;
}

/** Returns the result printed by database-work.ts. */
async function inProcess(file: string, words: readonly string[], signal: AbortSignal | undefined): Promise<unknown> {
  const child = spawn(process.execPath, [WORK, ...words], {
    stdio: ['ignore', 'pipe', 'pipe'],
    ...(signal === undefined ? {} : { signal }),
  });
  let answer = '';
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    answer += text;
  });
  child.stderr.resume();
  const { code, ended } = await new Promise<{ code: number | null; ended: NodeJS.Signals | null }>((done, failed) => {
    child.once('error', failed);
    child.once('close', (exit, by) => done({ code: exit, ended: by }));
  });
  if (ended !== null) {
    const isDamage = ended === 'SIGSEGV' || ended === 'SIGBUS' || ended === 'SIGABRT';
    throw new StorageError(
      `${file} ${isDamage ? 'is damaged: LMDB' : 'could not be read completely: the process'}, reading it, was ended by ${ended}.`,
    );
  }
  const { problem, ...result } = (
    answer === '' ? { problem: `cannot be read: the reading process exited with ${code}` } : JSON.parse(answer)
  ) as { problem?: string };
  if (problem !== undefined) throw new StorageError(`${file} ${problem}.`);
  return result;
}
