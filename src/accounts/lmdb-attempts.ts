// Attempts in the table `attempts`: rows go when their time is over.

import type { Key, Store, Table } from '../storage/store.js';
import { walk } from '../storage/walk.js';
import { ATTEMPTS_MS, hashOfWhose, MAX_ATTEMPTS, tooMany } from './attempts.js';
import type { AttemptKind, Attempts, Counted } from './attempts.js';

export class LmdbAttempts implements Attempts {
  private readonly rows: Table<Counted>;

  constructor(private readonly store: Store, private readonly now: () => number = Date.now) {
    this.rows = store.table('attempts');
  }

  async count(kind: AttemptKind, whose: readonly string[]): Promise<void> {
    const keys = whose.map((one) => keyOf(kind, one));
    const over = (rows: readonly Counted[], now: number): number => Math.max(0, ...rows.filter(({ count }) => count >= MAX_ATTEMPTS[kind]).map(({ until }) => until - now));
    const current = (now: number): Counted[] => keys.map((key) => this.current(key, now));
    // First by reading alone: whoever goes on although refused must cost next to nothing.
    const early = over(current(this.now()), this.now());
    const wait = early > 0 ? early : await this.store.transaction(() => {
      const now = this.now();
      const rows = current(now);
      const late = over(rows, now);
      if (late === 0) rows.forEach((row, at) => void this.rows.put(keys[at] as Key, { ...row, count: row.count + 1 }));
      return late;
    });
    if (wait > 0) throw tooMany(wait);
  }

  async counted(kind: AttemptKind, whose: string): Promise<Counted> {
    this.store.refresh();   // operators with the token read no session and no key: what other threads have answered is there for all that follows
    return this.current(keyOf(kind, whose), this.now());
  }

  /** Within a transaction: an attempt that was counted was none. */
  forgive(kind: AttemptKind, whose: string): void {
    const key = keyOf(kind, whose);
    const row = this.current(key, this.now());
    if (row.count > 1) void this.rows.put(key, { ...row, count: row.count - 1 });
    else void this.rows.remove(key);
  }

  /** Within a transaction: as if nothing had been tried. */
  forget(kind: AttemptKind, whose: string): void {
    void this.rows.remove(keyOf(kind, whose));
  }

  sweep(): Promise<void> {
    return walk(this.store, this.rows, {}, ({ until }, key) => {
      if (until <= this.now()) void this.rows.remove(key);
    });
  }

  private current(key: Key, now: number): Counted {
    const row = this.rows.get(key);
    return row === undefined || row.until <= now ? { count: 0, until: now + ATTEMPTS_MS } : row;
  }
}

const keyOf = (kind: AttemptKind, whose: string): Key => [kind, hashOfWhose(whose)];
