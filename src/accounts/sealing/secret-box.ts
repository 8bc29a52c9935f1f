// Encrypts values that must be readable again, at rest and in browsers: two-factor secrets, tickets between the two
// steps of a sign-in, and saved playground items. If the keys are configured rather than generated, the database alone
// reveals nothing.
//
//   acc1.  key id │ nonce │ AES-256-GCM(text; key id, purpose, about) │ tag

import { decode, decrypt, encrypt, fields } from './boxes.js';
import type { KeyRing } from './key-ring.js';

export type SecretPurpose =
  | 'second factor'
  | 'sign-in ticket'
  | 'sign-in elsewhere'
  | 'saved text'
  | 'page key'
  | 'pinned prompt'
  | 'pinned request'
  | 'webhook secret';

export interface OpenedSecret {
  readonly text: string;
  /**
   * Whether the value is encrypted with the current key. If it is not, it must be re-encrypted before its key is
   * removed.
   */
  readonly current: boolean;
}

const PREFIX = 'acc1.';
const MAX_CHARACTERS = 8_192;
/**
 * Maximum length of a sealed saved item or pinned prompt: 400,000 characters of three UTF-8 bytes each, encoded as
 * base64url, plus overhead.
 */
const MAX_SAVED_CHARACTERS = 1_700_000;

const LONG: ReadonlySet<SecretPurpose> = new Set(['saved text', 'pinned prompt', 'pinned request']);

export class SecretBox {
  constructor(private readonly keys: KeyRing) {}

  /** `about`: the owner, to whom the value is bound. */
  seal(purpose: SecretPurpose, about: string, text: string): string {
    const key = this.keys.current;
    const head = Buffer.from([key.id]);
    return (
      PREFIX +
      Buffer.concat([head, ...encrypt(key.accountSecrets, fields(head, purpose, about), Buffer.from(text))]).toString(
        'base64url',
      )
    );
  }

  /** Returns null if the value was modified or its key is missing. */
  open(purpose: SecretPurpose, about: string, sealed: string): OpenedSecret | null {
    const value =
      sealed.startsWith(PREFIX) && sealed.length <= (LONG.has(purpose) ? MAX_SAVED_CHARACTERS : MAX_CHARACTERS)
        ? decode(sealed.slice(PREFIX.length))
        : null;
    if (value === null || value.length < 1) return null;
    for (const key of this.keys.named(value.readUInt8(0))) {
      const plain = decrypt(key.accountSecrets, fields(value.subarray(0, 1), purpose, about), value.subarray(1));
      if (plain !== null) return { text: plain.toString('utf8'), current: key === this.keys.current };
    }
    return null;
  }
}
