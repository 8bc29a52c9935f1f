// Time-based one-time passwords (RFC 6238, RFC 4226) with HMAC-SHA-1, six digits and 30-second steps, which every
// authenticator app supports. No side effects.

import { createHmac, timingSafeEqual } from 'node:crypto';

export const STEP_MS = 30_000;
const DIGITS = 6;
/**
 * Number of steps before and after the current one that are accepted, to allow for clock differences and slow typing.
 */
const SKEW = 1;
/** If clocks are right, the last used step is at most this many steps ahead of a step that is accepted now. */
export const MAX_LATER = 2 * SKEW;

export const SECRET_BYTES = 20;

/** Number of 30-second steps since the Unix epoch. */
export const stepAt = (milliseconds: number): number => Math.floor(milliseconds / STEP_MS);

/** Returns the code for a step. */
export function codeAt(secret: Uint8Array, step: number): string {
  const counter = Buffer.alloc(8);
  counter.writeBigUInt64BE(BigInt(step));
  const mac = createHmac('sha1', secret).update(counter).digest();
  // RFC 4226, 5.3: four bytes at the offset given by the last byte
  const number = mac.readUInt32BE(mac.readUInt8(19) & 15) & 0x7fff_ffff;
  return String(number % 10 ** DIGITS).padStart(DIGITS, '0');
}

/** Returns the step near the current time whose code is `code`, or null if there is none. */
export function stepOf(secret: Uint8Array, code: string, milliseconds: number): number | null {
  if (!/^\d{6}$/.test(code)) return null;
  const now = stepAt(milliseconds);
  let found: number | null = null;
  // Compares all steps, so that the time taken reveals nothing. If several steps match, the latest one is returned.
  for (let step = now - SKEW; step <= now + SKEW; step++)
    if (timingSafeEqual(Buffer.from(codeAt(secret, step)), Buffer.from(code))) found = step;
  return found;
}

/**
 * Whether a step found by stepOf() must be rejected because that step or a later one has been used. If `last` is too
 * far in the future, it was stored while the clock was ahead and is ignored, so that it does not lock the account.
 */
export const isUsedStep = (step: number, last: number): boolean => step <= last && last <= step + MAX_LATER;

const BASE32 = 'ABCDEFGHIJKLMNOPQRSTUVWXYZ234567';

/** RFC 4648, without padding. */
export function base32(bytes: Uint8Array): string {
  const bits = [...bytes].map((byte) => byte.toString(2).padStart(8, '0')).join('');
  return (bits.match(/.{1,5}/g) ?? []).map((five) => BASE32.charAt(Number.parseInt(five.padEnd(5, '0'), 2))).join('');
}

/** The URI in the setup QR code. The app shows `issuer` and `account`. */
export function otpauthUri(secret: Uint8Array, issuer: string, account: string): string {
  const label = `${encodeURIComponent(issuer)}:${encodeURIComponent(account)}`;
  return `otpauth://totp/${label}?secret=${base32(secret)}&issuer=${encodeURIComponent(issuer)}&algorithm=SHA1&digits=${DIGITS}&period=${STEP_MS / 1000}`;
}
