// How often something was tried that strangers may try: sign-ins by address and by e-mail, sign-ups, forgotten
// passwords. Counted in the table `attempts`, so that all threads count together; rows go when their time is over.

import { isIPv6 } from 'node:net';
import { createHash } from 'node:crypto';
import { apiError } from '../errors.js';
import type { Key, Store, Table } from '../storage/store.js';
import { walk } from '../storage/walk.js';

export const ATTEMPTS_MS = 15 * 60_000;
/** Within ATTEMPTS_MS from the first one. */
export const MAX_ATTEMPTS = { login: 10, password: 10, signup: 30, forgot: 10, mail: 3 } as const;
export type AttemptKind = keyof typeof MAX_ATTEMPTS;

interface Row { count: number; until: number }

export class Attempts {
  private readonly rows: Table<Row>;

  constructor(private readonly store: Store, private readonly now: () => number = Date.now) {
    this.rows = store.table('attempts');
  }

  /**
   * Counts one attempt of each of `whose` before its outcome is known, so that many at once are no more than many
   * in a row. Throws ApiError 429, with none counted, if one of them has had its share.
   */
  async count(kind: AttemptKind, whose: readonly string[]): Promise<void> {
    const wait = await this.store.transaction(() => {
      const now = this.now();
      const rows = whose.map((one) => ({ key: keyOf(kind, one), row: this.current(keyOf(kind, one), now) }));
      const over = rows.filter(({ row }) => row.count >= MAX_ATTEMPTS[kind]);
      if (over.length > 0) return Math.max(...over.map(({ row }) => row.until)) - now;
      for (const { key, row } of rows) void this.rows.put(key, { ...row, count: row.count + 1 });
      return 0;
    });
    if (wait > 0) {
      const minutes = Math.ceil(wait / 60_000);
      throw apiError('too_many_attempts', `Too many attempts. Try again in ${minutes} minute${minutes === 1 ? '' : 's'}.`, null, { retryAfterMs: wait });
    }
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

  private current(key: Key, now: number): Row {
    const row = this.rows.get(key);
    return row === undefined || row.until <= now ? { count: 0, until: now + ATTEMPTS_MS } : row;
  }
}

/** Whom an address stands for: of IPv6 the /64, which is what one subscriber has. */
export function addressGroup(address: string): string {
  if (!isIPv6(address)) return address;
  const mapped = /^::ffff:(\d+\.\d+\.\d+\.\d+)$/i.exec(address)?.[1];
  if (mapped !== undefined) return mapped;
  const [head = '', tail] = address.split('::');
  const left = head === '' ? [] : head.split(':');
  const right = tail === undefined || tail === '' ? [] : tail.split(':');
  const groups = tail === undefined ? left : [...left, ...Array<string>(Math.max(0, 8 - left.length - right.length)).fill('0'), ...right];
  return `${groups.slice(0, 4).map((group) => Number.parseInt(group, 16).toString(16)).join(':')}::/64`;
}

// Hashed: what people type may be long, and is nobody's business.
const keyOf = (kind: AttemptKind, whose: string): Key => [kind, createHash('sha256').update(whose).digest('base64url')];
