// What an account keeps that must be read again, sealed at rest and in the hands of browsers: secrets of second factors,
// tickets between the steps of a sign-in; and what people save of the playground. Whoever has the rows alone reads none of it where the keys are in the settings.
//
//   acc1.  key id │ nonce │ AES-256-GCM(text; key id, purpose, about) │ tag

import { decode, decrypt, encrypt, fields } from './boxes.js';
import type { KeyRing } from './key-ring.js';

export type SecretPurpose = 'second factor' | 'sign-in ticket' | 'sign-in elsewhere' | 'saved text';

export interface OpenedSecret {
  readonly text: string;
  /** It was sealed by the key that seals now; if not, it is to be sealed anew before that other key goes. */
  readonly current: boolean;
}

const PREFIX = 'acc1.';
const MAX_CHARACTERS = 8_192;
/** Of what people save: JSON of at most 400,000 characters, of three bytes each in UTF-8. */
const MAX_SAVED_CHARACTERS = 1_700_000;

export class SecretBox {
  constructor(private readonly keys: KeyRing) {}

  /** `about`: whose it is; it opens for nobody else. */
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

  /** Null if it is not as it was sealed, or its key is gone. */
  open(purpose: SecretPurpose, about: string, sealed: string): OpenedSecret | null {
    const value =
      sealed.startsWith(PREFIX) && sealed.length <= (purpose === 'saved text' ? MAX_SAVED_CHARACTERS : MAX_CHARACTERS)
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
