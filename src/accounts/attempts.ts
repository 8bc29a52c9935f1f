// How often something was done that strangers may do, or that leaves something behind for good: sign-ins by address
// and by e-mail, wrong operator tokens, sign-ups, forgotten passwords; organizations, invitations and names of a user. Counted in the table `attempts`, so that all threads count together; rows go when their time is over.

import { isIPv6 } from 'node:net';
import { createHash } from 'node:crypto';
import { apiError } from '../errors.js';
import type { Key, Store, Table } from '../storage/store.js';
import { walk } from '../storage/walk.js';

export const ATTEMPTS_MS = 15 * 60_000;
/** Within ATTEMPTS_MS from the first one. */
export const MAX_ATTEMPTS = { login: 10, operator: 10, password: 10, signup: 30, forgot: 10, mail: 3, organization: 50, invite: 100, name: 20 } as const;
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
    const keys = whose.map((one) => keyOf(kind, one));
    const over = (rows: readonly Row[], now: number): number => Math.max(0, ...rows.filter(({ count }) => count >= MAX_ATTEMPTS[kind]).map(({ until }) => until - now));
    const current = (now: number): Row[] => keys.map((key) => this.current(key, now));
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

  /** What has been counted so far, of the last moments perhaps not all. */
  counted(kind: AttemptKind, whose: string): Readonly<Row> {
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

  private current(key: Key, now: number): Row {
    const row = this.rows.get(key);
    return row === undefined || row.until <= now ? { count: 0, until: now + ATTEMPTS_MS } : row;
  }
}

/** `wait` in milliseconds. */
export function tooMany(wait: number): Error {
  const minutes = Math.ceil(wait / 60_000);
  return apiError('too_many_attempts', `Too many attempts. Try again in ${minutes} minute${minutes === 1 ? '' : 's'}.`, null, { retryAfterMs: wait });
}

/** Whom an address stands for: of IPv6 the /64, which is what one subscriber has. */
export function addressGroup(address: string): string {
  if (!isIPv6(address)) return address;
  const dotted = /^::ffff:(\d+\.\d+\.\d+\.\d+)$/i.exec(address)?.[1];
  if (dotted !== undefined) return dotted;
  const [head = '', tail] = address.split('::');
  const left = head === '' ? [] : head.split(':');
  const right = tail === undefined || tail === '' ? [] : tail.split(':');
  const groups = (tail === undefined ? left : [...left, ...Array<string>(Math.max(0, 8 - left.length - right.length)).fill('0'), ...right])
    .map((group) => Number.parseInt(group, 16));
  // IPv4 as a socket of both kinds names it: each address is somebody else.
  if (groups.slice(0, 5).every((group) => group === 0) && groups[5] === 0xffff) return groups.slice(6).flatMap((group) => [group >> 8, group & 255]).join('.');
  return `${groups.slice(0, 4).map((group) => group.toString(16)).join(':')}::/64`;
}

// Hashed: what people type may be long, and is nobody's business.
const keyOf = (kind: AttemptKind, whose: string): Key => [kind, createHash('sha256').update(whose).digest('base64url')];
