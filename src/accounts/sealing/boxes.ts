// Authenticated encryption of short values, and the bytes it is bound to. Pure.

import { createCipheriv, createDecipheriv, randomBytes } from 'node:crypto';

const NONCE = 12;
const TAG = 16;
/** Longest value that is looked at: what a request body can hold, and more than any output. */
const MAX_CHARACTERS = 64 * 1024 * 1024;

/** No two lists of fields have the same bytes: each is preceded by its length. */
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

/** AES-256-GCM: nonce, ciphertext, tag. `bound` is authenticated, and has to be the same when it is opened. */
export function encrypt(key: Buffer, bound: Buffer, plain: Buffer): Buffer[] {
  const nonce = randomBytes(NONCE);
  const cipher = createCipheriv('aes-256-gcm', key, nonce).setAAD(bound);
  return [nonce, cipher.update(plain), cipher.final(), cipher.getAuthTag()];
}

/** `payload`: nonce, ciphertext, tag. Null if it is not byte for byte as it was made. */
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

/** Of base64url. Node decodes leniently; here a value has exactly one spelling. */
export function decode(text: string): Buffer | null {
  if (text.length > MAX_CHARACTERS) return null;
  const bytes = Buffer.from(text, 'base64url');
  return bytes.toString('base64url') === text ? bytes : null;
}
