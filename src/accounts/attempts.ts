// How often something was done that strangers may do, or that leaves something behind for good: sign-ins by address
// and by e-mail, codes of second factors, returns from a provider, wrong operator tokens, sign-ups, forgotten passwords; organizations, invitations and names of a user.
// A port, see docs/internals/storage.md: each method is one unit of work, and what it counts all threads and processes count
// together. Nothing need be durable: what is lost are attempts.

import { createHash } from 'node:crypto';
import { isIPv6 } from 'node:net';
import { apiError } from '../shared/errors.js';

export const ATTEMPTS_MS = 15 * 60_000;
/** Within ATTEMPTS_MS from the first one. */
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

/** `until`: milliseconds, when all of it is forgotten. */
export interface Counted {
  readonly count: number;
  readonly until: number;
}

export interface Attempts {
  /**
   * Counts one attempt of each of `whose` before its outcome is known, so that many at once are no more than many
   * in a row. Rejects with ApiError 429, with none counted, if one of them has had its share.
   */
  count(kind: AttemptKind, whose: readonly string[]): Promise<void>;
  /** What has been counted so far, of the last moments perhaps not all. */
  counted(kind: AttemptKind, whose: string): Promise<Counted>;
}

/** A row that ends later than the rule allows was written while the clock was ahead: it ends in its time from now. */
export const capped = (row: Counted, now: number): Counted =>
  isTooLong(row, now) ? { count: row.count, until: now + ATTEMPTS_MS } : row;
export const isTooLong = ({ until }: Counted, now: number): boolean => until > now + ATTEMPTS_MS;

/** What is stored of whose attempts they are. Hashed: what people type may be long, and is nobody's business. */
export const hashOfWhose = (whose: string): string => createHash('sha256').update(whose).digest('base64url');

/** `wait` in milliseconds. */
export function tooMany(wait: number): Error {
  const minutes = Math.ceil(wait / 60_000);
  return apiError(
    'too_many_attempts',
    `Too many attempts. Try again in ${minutes} minute${minutes === 1 ? '' : 's'}.`,
    null,
    { retryAfterMs: wait },
  );
}

/** Whom an address stands for: of IPv6 the /64, which is what one subscriber has. */
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
  // IPv4 as a socket of both kinds names it: each address is somebody else.
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
