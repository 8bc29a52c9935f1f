// Codes of second factors: made, proved and looked at. What is kept of them is second-factors.ts's; here alone secrets are
// in the clear, for as long as a code is computed.

import { createHash, randomBytes } from 'node:crypto';
import { apiError } from '../shared/errors.js';
import type { SecretBox } from './sealing/secret-box.js';
import type { Attempts } from './attempts.js';
import type { Actor } from './audit.js';
import type { SecondFactors } from './second-factors.js';
import { base32, otpauthUri, SECRET_BYTES, stepOf } from './totp.js';
import type { User } from './users.js';

export const RECOVERY_CODES = 10;
/** 80 bits: nothing to guess, so what is kept of them is a plain SHA-256. */
const RECOVERY_BYTES = 10;

/** What is shown once, for an authenticator app. */
export interface Proposal {
  readonly secret: string;
  readonly uri: string;
}

export class SecondFactorCodes {
  constructor(
    private readonly factors: SecondFactors,
    private readonly attempts: Attempts,
    private readonly box: SecretBox,
    private readonly now: () => number = Date.now,
  ) {}

  /** `issuer`: what the app shows beside the e-mail address. */
  async propose(user: User, issuer: string): Promise<Proposal> {
    const secret = randomBytes(SECRET_BYTES);
    await this.factors.propose(user.id, this.box.seal('second factor', user.id, secret.toString('base64')));
    return { secret: base32(secret), uri: otpauthUri(secret, issuer, user.email) };
  }

  /** The recovery codes, this once. Rejects with ApiError 401 invalid_code, 422, 429. */
  async enable(user: User, code: string, sessionId: string, actor: Actor): Promise<string[]> {
    await this.attempts.count('code', [user.id]);
    const sealed = await this.factors.proposed(user.id);
    const secret = sealed === null ? null : this.#secret(user.id, sealed);
    if (sealed === null || secret === null)
      throw apiError(
        'invalid_value',
        'The secret was shown too long ago, or a newer one was shown since. Begin again.',
        'code',
      );
    const step = stepOf(secret, compact(code), this.now());
    if (step === null)
      throw wrongCode('The code is not of this secret and this moment. Check that the clock of the device is right.');
    const codes = recoveryCodes();
    if (!(await this.factors.enable(user, { sealed, step, recovery: codes.map(hashOf) }, sessionId, actor))) {
      throw apiError(
        'invalid_value',
        'A second factor was turned on, or begun with, elsewhere meanwhile. Load the page again.',
        'code',
      );
    }
    return codes;
  }

  /** Uses up a code of the app, or a recovery code. Resolves to how many of those are left. Rejects with ApiError 401 invalid_code, 422, 429. */
  async use(user: User, given: string, ip: string): Promise<number> {
    const code = compact(given);
    await this.attempts.count('code', [user.id]);
    const factor = await this.factors.get(user.id);
    if (factor === null)
      throw apiError('invalid_value', 'The second factor has been turned off meanwhile. Load the page again.', 'code');
    if (code.length > 6) {
      const left = await this.factors.useRecovery(user, hashOf(code), ip);
      if (left === null)
        throw wrongCode('This is no recovery code of this account, or it has been used: each works once.');
      return left;
    }
    const secret = this.#secret(user.id, factor.sealed);
    // Its key is not among secrets.signing_keys any more: nobody can compute the codes.
    if (secret === null)
      throw apiError(
        'invalid_value',
        "The codes of this account cannot be checked any more, because the server's keys were changed. Use a recovery code, or ask the operator to reset the second factor.",
        'code',
      );
    const step = stepOf(secret, code, this.now());
    if (step === null)
      throw wrongCode('The code is wrong. Codes change every 30 seconds; the clock of the device has to be right.');
    if (!(await this.factors.useStep(user.id, step)))
      throw wrongCode('This code has been used already. Wait for the next one.');
    return factor.recovery.length;
  }

  /** New recovery codes, shown this once; those before are void. */
  async replaceRecovery(user: User, actor: Actor): Promise<string[]> {
    const codes = recoveryCodes();
    if (!(await this.factors.replaceRecovery(user, codes.map(hashOf), actor)))
      throw apiError('invalid_value', 'The second factor is off.', 'code');
    return codes;
  }

  /** Seals with the current key what another sealed, as long as that is known. `lost`: is told of whom that cannot be done. */
  async reseal(lost: (userId: string) => void): Promise<void> {
    await this.factors.reseal((userId, sealed) => {
      const opened = this.box.open('second factor', userId, sealed);
      if (opened === null) lost(userId);
      return opened === null || opened.current ? null : this.box.seal('second factor', userId, opened.text);
    });
  }

  #secret(userId: string, sealed: string): Buffer | null {
    const opened = this.box.open('second factor', userId, sealed);
    return opened === null ? null : Buffer.from(opened.text, 'base64');
  }
}

const wrongCode = (message: string): Error => apiError('invalid_code', message, 'code');

/** As people type them: with spaces, dashes, small letters. */
const compact = (code: string): string => code.replace(/[\s-]/g, '').toUpperCase();

const hashOf = (compacted: string): string =>
  createHash('sha256').update(compacted.replace(/-/g, '')).digest('base64url');

/** XXXX-XXXX-XXXX-XXXX, each of base32. */
const recoveryCodes = (): string[] =>
  Array.from({ length: RECOVERY_CODES }, () => (base32(randomBytes(RECOVERY_BYTES)).match(/.{4}/g) ?? []).join('-'));
