// Time-based one-time codes (RFC 6238 over RFC 4226): HMAC-SHA-1, six digits, a new one every 30 seconds, which is what
// every authenticator app can do. Pure.

import { createHmac, timingSafeEqual } from 'node:crypto';

export const STEP_MS = 30_000;
const DIGITS = 6;
/** Steps beside the present one that count: a clock may be that wrong, and people take their time. */
const SKEW = 1;
/** A step that is accepted now and one that was accepted before are at most this far apart. */
export const MOST_LATER = 2 * SKEW;

export const SECRET_BYTES = 20;

/** The number of 30 seconds since 1970. */
export const stepAt = (milliseconds: number): number => Math.floor(milliseconds / STEP_MS);

/** The code of a step. */
export function codeAt(secret: Uint8Array, step: number): string {
  const counter = Buffer.alloc(8);
  counter.writeBigUInt64BE(BigInt(step));
  const mac = createHmac('sha1', secret).update(counter).digest();
  const number = mac.readUInt32BE(mac.readUInt8(19) & 15) & 0x7fff_ffff; // RFC 4226, 5.3: four bytes from where the last one points
  return String(number % 10 ** DIGITS).padStart(DIGITS, '0');
}

/** The step that a code is of, around this moment; null if it is of none. */
export function stepOf(secret: Uint8Array, code: string, milliseconds: number): number | null {
  if (!/^\d{6}$/.test(code)) return null;
  const now = stepAt(milliseconds);
  let found: number | null = null;
  // All are compared, the youngest last: how long it takes tells nothing.
  for (let step = now - SKEW; step <= now + SKEW; step++)
    if (timingSafeEqual(Buffer.from(codeAt(secret, step)), Buffer.from(code))) found = step;
  return found;
}

/** Whether a step, found by stepOf(), must be refused because it or a later one was used last. A last step that no clock can have allowed by now was used while the clock was ahead: it does not lock the account. */
export const isUsedStep = (step: number, last: number): boolean => step <= last && last <= step + MOST_LATER;

const BASE32 = 'ABCDEFGHIJKLMNOPQRSTUVWXYZ234567';

/** RFC 4648, without padding. */
export function base32(bytes: Uint8Array): string {
  const bits = [...bytes].map((byte) => byte.toString(2).padStart(8, '0')).join('');
  return (bits.match(/.{1,5}/g) ?? []).map((five) => BASE32.charAt(Number.parseInt(five.padEnd(5, '0'), 2))).join('');
}

/** What an authenticator app reads from a QR code. `issuer` and `account` are what it shows. */
export function otpauthUri(secret: Uint8Array, issuer: string, account: string): string {
  const label = `${encodeURIComponent(issuer)}:${encodeURIComponent(account)}`;
  return `otpauth://totp/${label}?secret=${base32(secret)}&issuer=${encodeURIComponent(issuer)}&algorithm=SHA1&digits=${DIGITS}&period=${STEP_MS / 1000}`;
}
