// An authenticator app: generates codes from the secret shown on the page.

import { setTimeout as sleep } from 'node:timers/promises';
import { STEP_MS, codeAt, stepAt } from '../../src/accounts/totp.js';

export function codeOf(secret: string, stepsAhead = 0): string {
  const bits = [...secret.replace(/\s/g, '')]
    .map((letter) => 'ABCDEFGHIJKLMNOPQRSTUVWXYZ234567'.indexOf(letter).toString(2).padStart(5, '0'))
    .join('');
  const bytes = Buffer.from((bits.match(/.{8}/g) ?? []).map((byte) => Number.parseInt(byte, 2)));
  return codeAt(bytes, stepAt(Date.now()) + stepsAhead);
}

/**
 * Waits until the current code stays valid for at least this long, so that "the previous code" refers to the same time
 * step for the test and the server.
 */
export async function roomInStep(milliseconds = 10_000): Promise<void> {
  const left = STEP_MS - (Date.now() % STEP_MS);
  if (left < milliseconds) await sleep(left);
}
