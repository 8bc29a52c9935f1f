// Creates and verifies two-factor codes. second-factors.ts stores the secrets. A secret is in plain text only here,
// while a code is being computed.

import { createHash, randomBytes } from 'node:crypto';
import { apiError } from '../shared/errors.js';
import type { SecretBox } from './sealing/secret-box.js';
import type { Attempts } from './attempts.js';
import type { Actor } from './audit.js';
import type { SecondFactors } from './second-factors.js';
import { base32, otpauthUri, SECRET_BYTES, stepOf } from './totp.js';
import type { User } from './users.js';

export const RECOVERY_CODES = 10;
/** Recovery codes have 80 random bits and cannot be guessed, so a plain SHA-256 is stored. */
const RECOVERY_BYTES = 10;

/** Shown once, to set up an authenticator app. */
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

  /** `issuer`: shown by the app next to the email address. */
  async propose(user: User, issuer: string): Promise<Proposal> {
    const secret = randomBytes(SECRET_BYTES);
    await this.factors.propose(user.id, this.box.seal('second factor', user.id, secret.toString('base64')));
    return { secret: base32(secret), uri: otpauthUri(secret, issuer, user.email) };
  }

  /**
   * Resolves to the recovery codes, which cannot be shown again. Rejects with ApiError 401 invalid_code, 422 or 429.
   */
  async enable(user: User, code: string, sessionId: string, actor: Actor): Promise<string[]> {
    await this.attempts.count('code', [user.id]);
    const sealed = await this.factors.proposed(user.id);
    const secret = sealed === null ? null : this.#secret(user.id, sealed);
    if (sealed === null || secret === null)
      throw apiError('invalid_value', 'The secret has expired, or a newer one was created. Start again.', 'code');
    const step = stepOf(secret, compact(code), this.now());
    if (step === null)
      throw wrongCode("Wrong code for this secret at this time. Check that the device's clock is correct.");
    const codes = recoveryCodes();
    if (!(await this.factors.enable(user, { sealed, step, recovery: codes.map(hashOf) }, sessionId, actor))) {
      throw apiError(
        'invalid_value',
        'Two-factor authentication was turned on or set up elsewhere in the meantime. Reload the page.',
        'code',
      );
    }
    return codes;
  }

  /**
   * Accepts an authenticator code or a recovery code, which cannot be used again. Resolves to the number of recovery
   * codes left. Rejects with ApiError 401 invalid_code, 422 or 429.
   */
  async use(user: User, given: string, ip: string): Promise<number> {
    const code = compact(given);
    await this.attempts.count('code', [user.id]);
    const factor = await this.factors.get(user.id);
    if (factor === null)
      throw apiError(
        'invalid_value',
        'Two-factor authentication was turned off in the meantime. Reload the page.',
        'code',
      );
    if (code.length > 6) {
      const left = await this.factors.useRecovery(user, hashOf(code), ip);
      if (left === null)
        throw wrongCode('This recovery code is wrong or has already been used. Each code works only once.');
      return left;
    }
    const secret = this.#secret(user.id, factor.sealed);
    // The key that encrypted the secret has been removed from secrets.signing_keys, so codes cannot be computed.
    if (secret === null)
      throw apiError(
        'invalid_value',
        "The codes of this account can no longer be checked because the server's keys were changed. Use a recovery code, or ask the operator to reset two-factor authentication.",
        'code',
      );
    const step = stepOf(secret, code, this.now());
    if (step === null)
      throw wrongCode("The code is wrong. Codes change every 30 seconds; check that the device's clock is correct.");
    if (!(await this.factors.useStep(user.id, step)))
      throw wrongCode('This code has already been used. Wait for the next one.');
    return factor.recovery.length;
  }

  /** Creates new recovery codes, which are shown only once. The previous ones become invalid. */
  async replaceRecovery(user: User, actor: Actor): Promise<string[]> {
    const codes = recoveryCodes();
    if (!(await this.factors.replaceRecovery(user, codes.map(hashOf), actor)))
      throw apiError('invalid_value', 'Two-factor authentication is off.', 'code');
    return codes;
  }

  /**
   * Re-encrypts secrets with the current key if they were encrypted with an older key that is still known. `lost` is
   * called with each user whose secret cannot be decrypted.
   */
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

/** Normalizes user input: removes spaces and dashes, converts to upper case. */
const compact = (code: string): string => code.replace(/[\s-]/g, '').toUpperCase();

const hashOf = (compacted: string): string =>
  createHash('sha256').update(compacted.replace(/-/g, '')).digest('base64url');

/** XXXX-XXXX-XXXX-XXXX in base32. */
const recoveryCodes = (): string[] =>
  Array.from({ length: RECOVERY_CODES }, () => (base32(randomBytes(RECOVERY_BYTES)).match(/.{4}/g) ?? []).join('-'));
