// Records all writes and syncs in one run of fault-saver.ts (test/native/faults/storage_faults.cc, FAULT_HOW record),
// and rebuilds the file as it would be after the process or the machine failed at any of these points.
import { spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { packageRoot } from '../../src/engine/load-addon.js';
import { databasePath } from '../../src/storage/lmdb/lmdb-store.js';
import { randomFrom } from '../support/random.js';
import { MADE } from './fault-saver.js';
import { look } from './faults.js';

const HEAD = 16;
const SECTOR = 4_096;
const DID = ['', 'wrote', 'wrote durably', 'synced', 'cut', 'said'] as const;

type Entry =
  | { did: 'wrote' | 'wrote durably'; at: number; bytes: Buffer }
  | { did: 'synced'; begun: number } // all writes before entry `begun` are on disk
  | { did: 'cut'; length: number }
  | { did: 'said'; text: string };

export interface Left {
  file: Buffer;
  text: string;
}

export class Recorded {
  /**
   * The position before each call, and the end. At a position, all output printed after the previous call has arrived.
   */
  readonly calls: readonly number[];

  private constructor(private readonly entries: readonly Entry[]) {
    this.calls = [...entries.flatMap(({ did }, at) => (did === 'said' ? [] : [at])), entries.length];
  }

  /** `restarted`: the machine lost power, so LMDB treats the next start as a new boot. */
  static make(restarted: boolean): Recorded {
    const folder = mkdtempSync(join(tmpdir(), 'monolith-recorded-'));
    try {
      const trace = join(folder, 'trace');
      const { status, stderr } = spawnSync(process.execPath, [join(import.meta.dirname, 'fault-saver.js'), folder], {
        encoding: 'utf8',
        env: {
          ...process.env,
          LD_PRELOAD: join(packageRoot, 'build', 'Release', 'libstorage_faults.so'),
          FAULT_FILE: '/data.mdb',
          FAULT_HOW: 'record',
          FAULT_SEEN: trace,
          FAULT_BOOT: restarted ? 'another' : '',
        },
      });
      if (status !== 0) throw new Error(`the recorded process ended with ${status}: ${stderr.slice(0, 500)}`);
      const recorded = new Recorded(read(readFileSync(trace)));
      if (!recorded.#upTo(recorded.entries.length).file.equals(readFileSync(databasePath(folder))))
        throw new Error('the recording does not contain every write');
      return recorded;
    } finally {
      rmSync(folder, { recursive: true, force: true });
    }
  }

  /** Returns the state if the process ended at this position. */
  killed(position: number): Left {
    return this.#upTo(position);
  }

  /** Returns the state if the process ended in the middle of the next call. */
  torn(position: number): Left {
    const next = this.entries[position];
    return this.#upTo(
      position,
      next?.did === 'wrote' || next?.did === 'wrote durably'
        ? { ...next, bytes: next.bytes.subarray(0, next.bytes.length >> 1) }
        : null,
    );
  }

  /**
   * Returns a state after a power loss: any sector written since the last sync may be missing, because a disk writes
   * sectors in any order.
   */
  powerless(position: number, seed: number): Left {
    const random = randomFrom(seed * 1_000_003 + position);
    let durable = 0;
    for (const entry of this.entries.slice(0, position))
      if (entry.did === 'synced') durable = Math.max(durable, entry.begun);
    return this.#upTo(position, null, (at) => at < durable || random.below(2) === 0);
  }

  #upTo(position: number, more: Entry | null = null, isKept: (entry: number) => boolean = () => true): Left {
    const written = [...this.entries.slice(0, position), ...(more === null ? [] : [more])];
    const ends = written.map((entry) =>
      'bytes' in entry ? entry.at + entry.bytes.length : entry.did === 'cut' ? entry.length : 0,
    );
    const file = Buffer.alloc(Math.max(0, ...ends));
    let length = 0;
    let text = '';
    for (const [at, entry] of written.entries()) {
      if (entry.did === 'said') text += entry.text;
      if (entry.did === 'cut') length = entry.length;
      if (!('bytes' in entry)) continue;
      length = Math.max(length, entry.at + entry.bytes.length);
      for (let from = 0; from < entry.bytes.length; from += SECTOR) {
        if (entry.did === 'wrote durably' || isKept(at))
          entry.bytes.copy(file, entry.at + from, from, Math.min(entry.bytes.length, from + SECTOR));
      }
    }
    return { file: file.subarray(0, length), text };
  }
}

function read(trace: Buffer): Entry[] {
  const entries: Entry[] = [];
  for (let at = 0; at < trace.length; ) {
    const where = Number(trace.readBigUInt64LE(at));
    const bytes = trace.subarray(at + HEAD, at + HEAD + trace.readUInt32LE(at + 8));
    const did = DID[trace.readUInt32LE(at + 12)];
    if (did === 'wrote' || did === 'wrote durably') entries.push({ did, at: where, bytes });
    else if (did === 'synced') entries.push({ did, begun: where });
    else if (did === 'cut') entries.push({ did, length: where });
    else if (did === 'said') entries.push({ did, text: bytes.toString('utf8') });
    else throw new Error('the recording is damaged');
    at += HEAD + bytes.length;
  }
  return entries;
}

/** Reopens the database and returns the problems found. */
export async function wrongAfter({ file, text }: Left): Promise<string[]> {
  const folder = mkdtempSync(join(tmpdir(), 'monolith-left-'));
  try {
    // Until the database is complete, the file has a temporary name next to the final one.
    const path = text.startsWith(`${MADE}\n`)
      ? databasePath(folder)
      : join(dirname(databasePath(folder)), 'new-killed', 'data.mdb');
    mkdirSync(dirname(path), { recursive: true });
    writeFileSync(path, file);
    return await look(folder, text);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}
