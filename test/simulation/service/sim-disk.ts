// The simulated disk, and a store on it for each simulated thread. A write waits for the disk, is committed together
// with the thread's other pending writes, and is acknowledged later. Writes can fail in the ways described in
// src/storage/lmdb/writes.ts: either they are rolled back because the disk is full, or the whole store fails. When a
// thread ends, its pending writes are lost and its committed writes remain. The tables are LMDB's own or those in
// memory-tables.ts.
import { mkdtempSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import type { Draws } from '../../../src/shared/random.js';
import { openStore } from '../../../src/storage/lmdb/lmdb-store.js';
import { refusedWrite, StorageError, UndoneWrite } from '../../../src/storage/store.js';
import type { Key, KeyRange, OpenedStore, Table, TableName } from '../../../src/storage/store.js';
import type { Backing } from './memory-tables.js';
import type { Owner, SimTime } from './sim-time.js';

/** Opens LMDB in a temporary directory. */
export async function openLmdb(time: SimTime, folder: string): Promise<Backing> {
  const path = mkdtempSync(join(folder, 'monolith-simulation-'));
  const store = await time.really(() => openStore(path));
  return {
    table: (name) => store.table(name),
    commit: async (works) => {
      const done = await time.really(() =>
        Promise.all(
          works.map((work) =>
            store.transaction(work).then(
              (result: unknown) => ({ result, error: null as unknown }),
              (error: unknown) => ({ result: null as unknown, error }),
            ),
          ),
        ),
      );
      store.refresh();
      return done;
    },
    close: async () => {
      await time.really(() => store.close());
      rmSync(path, { recursive: true, force: true });
    },
  };
}

export class SimDisk {
  /** Time in microseconds until which writes fail. `fullShare`: the fraction of writes that fail during that time. */
  fullUntil = 0;
  fullShare = 1;
  /** Maximum duration of a commit in microseconds. */
  slowUs = 3_000;
  /** If set, the next commit makes its thread's store fail. */
  breaksNext = false;
  /** Time of the last failed write in microseconds. */
  failedAt = -Infinity;

  /** `losesWrites`: the fraction of writes acknowledged without being done, a fault for the simulation to find. */
  constructor(
    readonly backing: Backing,
    readonly time: SimTime,
    readonly draws: Draws,
    readonly losesWrites: number,
  ) {}

  get isFull(): boolean {
    return this.time.now < this.fullUntil && this.draws.unit() < this.fullShare;
  }

  delay(): number {
    return 50 + this.draws.below(this.slowUs);
  }
}

interface Write {
  readonly work: () => unknown;
  resolve(result: unknown): void;
  reject(error: unknown): void;
}

export class SimStore implements OpenedStore {
  failure: StorageError | null = null;
  inTransaction = false;
  #waiting: Write[] = [];
  #unacknowledged = new Set<Write>();
  #armed = false;
  readonly #listeners: ((why: StorageError) => void)[] = [];

  constructor(
    private readonly disk: SimDisk,
    private readonly owner: Owner,
  ) {}

  table<V>(name: TableName): Table<V> {
    return new SimTable<V>(this, this.disk.backing.table<V>(name));
  }

  transaction<T>(work: () => T): Promise<T> {
    if (this.failure !== null) return Promise.reject(refusedWrite(this.failure));
    return new Promise<T>((resolve, reject) => {
      this.#waiting.push({ work, resolve: resolve as (result: unknown) => void, reject });
      this.#arm();
    });
  }

  refresh(): void {}

  onFailure(listener: (why: StorageError) => void): void {
    if (this.failure === null) this.#listeners.push(listener);
    else listener(this.failure);
  }

  onUndone(): void {}

  fail(why: StorageError): void {
    if (this.failure !== null) return;
    this.failure = why;
    for (const { reject } of [...this.#waiting, ...this.#unacknowledged]) reject(refusedWrite(why));
    this.#waiting = [];
    this.#unacknowledged.clear();
    for (const listener of this.#listeners) listener(why);
  }

  async close(): Promise<void> {}

  #arm(): void {
    if (this.#armed) return;
    this.#armed = true;
    const { time } = this.disk;
    time.at(time.now + this.disk.delay(), this.owner, () => this.#commit());
  }

  async #commit(): Promise<void> {
    this.#armed = false;
    const { disk } = this,
      { time } = disk;
    const batch = this.#waiting;
    this.#waiting = [];
    if (batch.length === 0) return;
    if (disk.breaksNext && disk.draws.below(2) === 0) return this.#broken(batch);
    if (disk.isFull) {
      disk.failedAt = time.now;
      for (const { reject } of batch)
        reject(refusedWrite(new UndoneWrite('Writing the database failed: No space left on device')));
      return;
    }
    const isLost = disk.losesWrites > 0 && disk.draws.unit() < disk.losesWrites;
    const done = isLost
      ? batch.map(() => ({ result: undefined as unknown, error: null as unknown }))
      : await disk.backing.commit(
          batch.map(({ work }) => () => {
            this.inTransaction = true;
            try {
              return work();
            } finally {
              this.inTransaction = false;
            }
          }),
        );
    if (disk.breaksNext) return this.#broken(batch);
    for (const write of batch) this.#unacknowledged.add(write);
    time.at(time.now + disk.delay(), this.owner, () => {
      for (const [index, write] of batch.entries()) {
        if (!this.#unacknowledged.delete(write)) continue;
        const { result, error } = done[index] as { result: unknown; error: unknown };
        if (error === null) write.resolve(result);
        else write.reject(error);
      }
    });
  }

  #broken(batch: readonly Write[]): void {
    this.disk.breaksNext = false;
    this.disk.failedAt = this.disk.time.now;
    for (const write of batch) this.#unacknowledged.add(write);
    this.fail(new StorageError('The database accepts no more writes until the server is restarted: a sync failed'));
  }
}

const WRITTEN = Promise.resolve();

class SimTable<V> implements Table<V> {
  constructor(
    private readonly store: SimStore,
    private readonly kept: Table<V>,
  ) {}

  get(key: Key): V | undefined {
    return this.kept.get(key);
  }
  range(options?: KeyRange): Iterable<{ key: Key; value: V }> {
    return this.kept.range(options);
  }
  keys(options?: KeyRange): Iterable<Key> {
    return this.kept.keys(options);
  }
  put(key: Key, value: V): Promise<void> {
    return this.#write(() => {
      void this.kept.put(key, value);
    });
  }
  remove(key: Key): Promise<void> {
    return this.#write(() => {
      void this.kept.remove(key);
    });
  }

  insert(key: Key, value: V): Promise<boolean> {
    return this.store.transaction(() => {
      if (this.kept.get(key) !== undefined) return false;
      void this.kept.put(key, value);
      return true;
    });
  }

  #write(write: () => void): Promise<void> {
    if (!this.store.inTransaction) return this.store.transaction(write);
    write();
    return WRITTEN;
  }
}
