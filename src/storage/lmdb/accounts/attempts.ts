// Implements Attempts on the `attempts` table. Each row is erased when its period ends.

import type { Key, Store, Table } from '../../store.js';
import { walk } from '../../walk.js';
import { ATTEMPTS_MS, capped, subjectHash, isTooLong, MAX_ATTEMPTS, tooMany } from '../../../accounts/attempts.js';
import type { AttemptKind, Attempts, Counted } from '../../../accounts/attempts.js';

export class LmdbAttempts implements Attempts {
  private readonly rows: Table<Counted>;

  constructor(
    private readonly store: Store,
    private readonly now: () => number = Date.now,
  ) {
    this.rows = store.table('attempts');
  }

  async count(kind: AttemptKind, subject: readonly string[]): Promise<void> {
    const keys = subject.map((one) => keyOf(kind, one));
    const over = (rows: readonly Counted[], now: number): number =>
      Math.max(0, ...rows.filter(({ count }) => count >= MAX_ATTEMPTS[kind]).map(({ until }) => until - now));
    const current = (now: number): Counted[] => keys.map((key) => this.current(key, now));
    // Reads before writing, so that a client that keeps trying after being rejected costs almost nothing.
    const early = keys.some((key) => this.isTooLong(key)) ? 0 : over(current(this.now()), this.now());
    const wait =
      early > 0
        ? early
        : await this.store.transaction(() => {
            const now = this.now();
            const rows = current(now);
            const late = over(rows, now);
            if (late > 0)
              rows.forEach((row, at) => {
                if (this.isTooLong(keys[at] as Key)) void this.rows.put(keys[at] as Key, row);
              });
            else rows.forEach((row, at) => void this.rows.put(keys[at] as Key, { ...row, count: row.count + 1 }));
            return late;
          });
    if (wait > 0) throw tooMany(wait);
  }

  async counted(kind: AttemptKind, subject: string): Promise<Counted> {
    // Requests with the operator token read neither a session nor a key. For such requests, this makes other threads'
    // commits visible to this read and all later ones.
    this.store.refresh();
    const key = keyOf(kind, subject);
    if (this.isTooLong(key))
      await this.store.transaction(() => {
        if (this.isTooLong(key)) void this.rows.put(key, this.current(key, this.now()));
      });
    return this.current(key, this.now());
  }

  /** Must be called within a transaction. Cancels one counted attempt. */
  resetAttempts(kind: AttemptKind, subject: string): void {
    const key = keyOf(kind, subject);
    const row = this.current(key, this.now());
    if (row.count > 1) void this.rows.put(key, { ...row, count: row.count - 1 });
    else void this.rows.remove(key);
  }

  /** Must be called within a transaction. Resets the count. */
  clearAttempts(kind: AttemptKind, subject: string): void {
    void this.rows.remove(keyOf(kind, subject));
  }

  sweep(): Promise<void> {
    return walk(this.store, this.rows, {}, ({ until }, key) => {
      if (until <= this.now()) void this.rows.remove(key);
    });
  }

  private current(key: Key, now: number): Counted {
    const row = this.rows.get(key);
    return row === undefined || row.until <= now ? { count: 0, until: now + ATTEMPTS_MS } : capped(row, now);
  }

  private isTooLong(key: Key): boolean {
    const row = this.rows.get(key);
    return row !== undefined && isTooLong(row, this.now());
  }
}

const keyOf = (kind: AttemptKind, subject: string): Key => [kind, subjectHash(subject)];
