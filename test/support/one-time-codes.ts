// An authenticator app: the codes of a secret as the page shows it.

import { setTimeout as sleep } from 'node:timers/promises';
import { STEP_MS, codeAt, stepAt } from '../../src/accounts/totp.js';

export function codeOf(secret: string, stepsAhead = 0): string {
  const bits = [...secret.replace(/\s/g, '')]
    .map((letter) => 'ABCDEFGHIJKLMNOPQRSTUVWXYZ234567'.indexOf(letter).toString(2).padStart(5, '0'))
    .join('');
  const bytes = Buffer.from((bits.match(/.{8}/g) ?? []).map((byte) => Number.parseInt(byte, 2)));
  return codeAt(bytes, stepAt(Date.now()) + stepsAhead);
}

/** Until the present code stays the present one for so long: what a test says of "the code before" is about the same step then. */
export async function roomInStep(milliseconds = 10_000): Promise<void> {
  const left = STEP_MS - (Date.now() % STEP_MS);
  if (left < milliseconds) await sleep(left);
}
