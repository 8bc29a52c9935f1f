// Runs fault-saver.ts with a fault injected at one of the process's writes or syncs
// (test/native/faults/storage_faults.cc) and checks the reopened database.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { packageRoot } from '../../src/engine/load-addon.js';
import { checkWhole } from '../../src/storage/lmdb/database-file.js';
import { databasePath, openStore } from '../../src/storage/lmdb/lmdb-store.js';
import { openResponseStore } from '../../src/storage/lmdb/responses/open-response-store.js';
import { isWhole } from './whole.js';

/** A run that takes longer is considered stuck. The limit allows for busy machines. */
const STUCK_MS = 300_000;

export const FAULTS = ['eio', 'enospc', 'full', 'sync', 'meta', 'kill', 'torn', 'power'] as const;
export type Fault = (typeof FAULTS)[number];

/** `met`: the fault occurred; false if there are fewer calls. `call`: the number of the failed call, or 0. */
export interface Found {
  met: boolean;
  call: number;
  acknowledged: number;
  refused: number;
  problems: string[];
}

export async function runWithFault(fault: Fault, at: number, seed = 1): Promise<Found> {
  const folder = mkdtempSync(join(tmpdir(), 'monolith-fault-'));
  const seen = join(folder, 'seen');
  try {
    const child = spawn(process.execPath, [join(import.meta.dirname, 'fault-saver.js'), folder], {
      stdio: ['ignore', 'pipe', 'pipe'],
      env: {
        ...process.env,
        LD_PRELOAD: join(packageRoot, 'build', 'Release', 'libstorage_faults.so'),
        FAULT_FILE: '/data.mdb',
        FAULT_AT: String(at),
        FAULT_HOW: fault,
        FAULT_SEEN: seen,
        FAULT_SEED: String(seed),
      },
    });
    let text = '';
    let errors = '';
    child.stdout.setEncoding('utf8').on('data', (part: string) => {
      text += part;
    });
    child.stderr.setEncoding('utf8').on('data', (part: string) => {
      errors += part;
    });
    const stuck = setTimeout(() => child.kill('SIGKILL'), STUCK_MS);
    const [code, signal] = (await once(child, 'close')) as [number | null, string | null];
    clearTimeout(stuck);
    const met = existsSync(seen);
    const call = met ? Number(readFileSync(seen, 'utf8')) : 0;
    const problems = await look(folder, text);
    const dies = fault === 'kill' || fault === 'torn' || fault === 'power';
    // Failing to create the database also counts as an orderly exit, because the first writes may fail. If the error
    // message for a failed page write is long, the LMDB library overwrites its own memory:
    // docs/internals/simulation.md.
    const byLibrary = (signal === 'SIGABRT' || signal === 'SIGSEGV') && /Write error:/.test(errors);
    if (
      (signal !== null && !byLibrary) ||
      (code !== null && code !== 0 && !(dies && code === 137 && met) && !/StorageError/.test(errors))
    ) {
      problems.push(`the process ended with ${signal ?? code}: ${errors.slice(0, 500)}`);
    }
    const count = (word: string): number => text.split('\n').filter((line) => line.startsWith(word)).length;
    return { met, call, acknowledged: count('saved') + count('deleted'), refused: count('refused'), problems };
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** Checks a data directory against `text`, the output of the process that used it. Returns the problems found. */
export async function look(folder: string, text: string): Promise<string[]> {
  const problems: string[] = [];
  const saved = new Map<string, string | null>();
  const deleting = new Set<string>();
  const deleted = new Set<string>();
  for (const line of text.split('\n')) {
    const [word = '', id = '', previous = ''] = line.split(' ');
    if (word === 'saved') saved.set(id, previous === '' ? null : previous);
    if (word === 'deleting') deleting.add(id);
    if (word === 'deleted') deleted.add(id);
  }
  try {
    const store = await openStore(folder);
    const responses = openResponseStore(store, { retention_days: 30 });
    try {
      await responses.sweep();
      for (const [id, previous] of saved) {
        if (!deleting.has(id) && !(await isWhole(responses, id, previous)))
          problems.push(`${id} was acknowledged but is missing`);
      }
      for (const id of deleted)
        if ((await responses.get('org_a', id)) !== null) problems.push(`${id} was deleted but is still there`);
      for (const id of store.table<{ dead: boolean }>('responses').keys()) {
        if ((await responses.get('org_a', id as string)) !== null && !(await isWhole(responses, id as string)))
          problems.push(`${String(id)} is only partly there`);
      }
    } finally {
      await responses.close();
      await store.close();
    }
    checkWhole(databasePath(folder));
  } catch (error) {
    problems.push(`the database cannot be reopened: ${(error as Error).message}`);
  }
  return problems;
}
