// Authenticated encryption of short values, and the encoding of the data that is bound to them. No side effects.

import { createCipheriv, createDecipheriv, createHmac, randomBytes } from 'node:crypto';

const NONCE = 12;
const TAG = 16;
/**
 * Maximum length of a value to decode. It equals the maximum size of a request body, and no value created here is that
 * long.
 */
const MAX_CHARACTERS = 64 * 1024 * 1024;

/** Unambiguous encoding of a list of fields: each field is preceded by its length. */
export function fields(...values: readonly (string | Buffer)[]): Buffer {
  const parts: Buffer[] = [];
  for (const value of values) {
    const bytes = typeof value === 'string' ? Buffer.from(value) : value;
    const length = Buffer.alloc(4);
    length.writeUInt32BE(bytes.length);
    parts.push(length, bytes);
  }
  return Buffer.concat(parts);
}

/** A nonce derived from the content, so that equal content always has the same ciphertext. */
export function nonceOf(key: Buffer, bound: Buffer, plain: Buffer): Buffer {
  return createHmac('sha256', key).update(bound).update(plain).digest().subarray(0, NONCE);
}

/** AES-256-GCM: returns nonce, ciphertext, tag. `bound` is authenticated and must be identical for decryption. */
export function encrypt(key: Buffer, bound: Buffer, plain: Buffer, nonce: Buffer = randomBytes(NONCE)): Buffer[] {
  const cipher = createCipheriv('aes-256-gcm', key, nonce).setAAD(bound);
  return [nonce, cipher.update(plain), cipher.final(), cipher.getAuthTag()];
}

/** `payload`: nonce, ciphertext, tag. Returns null if `payload` or `bound` was modified. */
export function decrypt(key: Buffer, bound: Buffer, payload: Buffer): Buffer | null {
  if (payload.length < NONCE + TAG) return null;
  const decipher = createDecipheriv('aes-256-gcm', key, payload.subarray(0, NONCE), { authTagLength: TAG }).setAAD(
    bound,
  );
  decipher.setAuthTag(payload.subarray(payload.length - TAG));
  const plain = decipher.update(payload.subarray(NONCE, payload.length - TAG));
  try {
    return Buffer.concat([plain, decipher.final()]);
  } catch {
    return null;
  }
}

/** Decodes base64url strictly. Node.js also accepts variants, but each value must have exactly one encoding. */
export function decode(text: string): Buffer | null {
  if (text.length > MAX_CHARACTERS) return null;
  const bytes = Buffer.from(text, 'base64url');
  return bytes.toString('base64url') === text ? bytes : null;
}
