// Implements TuneRunStore on the `tune-runs` table, keyed [start in milliseconds, id]. The table has only a few rows.

import type { Key, Store, Table } from '../../store.js';
import type { TuneRun, TuneRunSummary } from '../../../shared/wire/tuning.js';
import { MAX_RUNS } from '../../../dashboard/admin/tune-runs.js';
import type { TuneRunStore } from '../../../dashboard/admin/tune-runs.js';

interface Row {
  readonly run: TuneRun;
  readonly keyId: string | null;
}

export class LmdbTuneRuns implements TuneRunStore {
  readonly #rows: Table<Row>;

  constructor(private readonly store: Store) {
    this.#rows = store.table('tune-runs');
  }

  put(run: TuneRun, keyId: string | null): Promise<void> {
    return this.store.transaction(() => {
      const key = keyOf(run);
      void this.#rows.put(key, { run, keyId: keyId ?? this.#rows.get(key)?.keyId ?? null });
      const ended = [...this.#rows.range()].filter(({ value }) => value.run.state !== 'running');
      const many = [...this.#rows.keys()].length - MAX_RUNS;
      for (const { key: old } of ended.slice(0, Math.max(0, many))) void this.#rows.remove(old);
    });
  }

  async get(id: string): Promise<TuneRun | null> {
    return [...this.#rows.range()].find(({ value }) => value.run.id === id)?.value.run ?? null;
  }

  async list(): Promise<TuneRunSummary[]> {
    return [...this.#rows.range()]
      .map(
        ({
          value: {
            run: { trials, ...run },
          },
        }) => ({ ...run, trials_done: trials.length }),
      )
      .reverse();
  }

  async keyIds(): Promise<ReadonlySet<string>> {
    return new Set([...this.#rows.range()].flatMap(({ value: { keyId } }) => (keyId === null ? [] : [keyId])));
  }

  endUnfinished(reason: string, at: Date): Promise<number> {
    return this.store.transaction(() => {
      const running = [...this.#rows.range()].filter(({ value }) => value.run.state === 'running');
      for (const {
        key,
        value: { run, keyId },
      } of running)
        void this.#rows.put(key, {
          run: { ...run, state: 'failed', error: reason, ended_at: at.toISOString() },
          keyId,
        });
      return running.length;
    });
  }
}

const keyOf = ({ started_at, id }: TuneRun): Key => [Date.parse(started_at), id];
