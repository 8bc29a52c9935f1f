// Storage port for rate limits on sensitive actions (see docs/internals/storage.md): sign-ins by address and by email,
// two-factor codes, provider callbacks, wrong operator tokens, sign-ups and password resets; and, per user, creating
// organizations, sending invitations and renaming. Each method is one transaction, and counts are shared by all threads
// and processes. Counts need not be durable: if they are lost, some attempts are not counted.

import { createHash } from 'node:crypto';
import { isIPv6 } from 'node:net';
import { apiError } from '../shared/errors.js';

export const ATTEMPTS_MS = 15 * 60_000;
/** Maximum number of attempts within ATTEMPTS_MS of the first one. */
export const MAX_ATTEMPTS = {
  login: 10,
  operator: 10,
  password: 10,
  signup: 30,
  forgot: 10,
  code: 5,
  elsewhere: 30,
  mail: 3,
  organization: 50,
  invite: 100,
  name: 20,
} as const;
export type AttemptKind = keyof typeof MAX_ATTEMPTS;

/** `until`: the time, in milliseconds, at which the count is reset. */
export interface Counted {
  readonly count: number;
  readonly until: number;
}

export interface Attempts {
  /**
   * Counts one attempt for each element of `subject` before its outcome is known, so that concurrent attempts are
   * limited just like sequential ones. If one of the elements is at its limit, rejects with ApiError 429 and counts
   * nothing.
   */
  count(kind: AttemptKind, subject: readonly string[]): Promise<void>;
  /** Resolves to the number of attempts counted so far, which may not include the most recent ones. */
  counted(kind: AttemptKind, subject: string): Promise<Counted>;
}

/**
 * Caps a row's remaining time at the regular period: a later end time must have been written while the clock was ahead.
 */
export const capped = (row: Counted, now: number): Counted =>
  isTooLong(row, now) ? { count: row.count, until: now + ATTEMPTS_MS } : row;
export const isTooLong = ({ until }: Counted, now: number): boolean => until > now + ATTEMPTS_MS;

/** The hash that is stored in place of an IP or email address, because user input can be long and is private. */
export const subjectHash = (subject: string): string => createHash('sha256').update(subject).digest('base64url');

/** `wait` is in milliseconds. */
export function tooMany(wait: number): Error {
  const minutes = Math.ceil(wait / 60_000);
  return apiError(
    'too_many_attempts',
    `Too many attempts. Try again in ${minutes} minute${minutes === 1 ? '' : 's'}.`,
    null,
    { retryAfterMs: wait },
  );
}

/** The address group that shares a limit: for IPv6, the /64 prefix, because a subscriber usually has a whole /64. */
export function addressGroup(address: string): string {
  if (!isIPv6(address)) return address;
  const dotted = /^::ffff:(\d+\.\d+\.\d+\.\d+)$/i.exec(address)?.[1];
  if (dotted !== undefined) return dotted;
  const [head = '', tail] = address.split('::');
  const left = head === '' ? [] : head.split(':');
  const right = tail === undefined || tail === '' ? [] : tail.split(':');
  const groups = (
    tail === undefined
      ? left
      : [...left, ...Array<string>(Math.max(0, 8 - left.length - right.length)).fill('0'), ...right]
  ).map((group) => Number.parseInt(group, 16));
  // An IPv4 address as reported by a dual-stack socket. Each such address forms a separate group.
  if (groups.slice(0, 5).every((group) => group === 0) && groups[5] === 0xffff)
    return groups
      .slice(6)
      .flatMap((group) => [group >> 8, group & 255])
      .join('.');
  return `${groups
    .slice(0, 4)
    .map((group) => group.toString(16))
    .join(':')}::/64`;
}
