// A Sealer that uses a key ring. Layouts, before base64url encoding:
//
//   thinking 1   1 │ key id │ model byte │ HMAC-SHA256(fields, text)
//   thinking 2   2 │ key id │ model byte │ nonce │ AES-256-GCM(text; fields) │ tag
//   thinking 3   3 │ key id │ model byte │ nonce │ AES-256-GCM(origin; fields, text) │ tag
//   thinking 4   4 │ key id │ model byte │ nonce │ AES-256-GCM(text, origin; fields) │ tag
//   enc1.            key id │              nonce │ AES-256-GCM(length of model, model, text; fields) │ tag
//   enc2.            key id │              nonce │ AES-256-GCM(model, text, origin; 2, fields) │ tag
//
// `fields` are the preceding bytes, the organization and (for thinking) the model's name, each with its length.
// `origin` is JSON (origin-json.ts); only output from upstreams has an origin. The model byte is a hash of the name, so
// it is the same on every server, regardless of the catalog's order; the keyed hash binds the full name. If any byte of
// a value has been modified, opening it returns null.
import { createHash, createHmac, timingSafeEqual } from 'node:crypto';
import { decode, decrypt, encrypt, fields, nonceOf } from './boxes.js';
import type { KeyRing, SealingKey } from './key-ring.js';
import { packOrigin, unpackOrigin } from './origin-json.js';
import type { OpenedThinking, SealContext, Sealer, SealKind, Unsealed } from './sealer.js';

const SIGNED = 1;
const SEALED = 2;
const SIGNED_WITH_ORIGIN = 3;
const SEALED_WITH_ORIGIN = 4;
const HEAD = 3; // format, key ID, model byte
const MAC = 32;
const PREFIX = 'enc1.';
const PREFIX_WITH_ORIGIN = 'enc2.';
const isVisible = (format: number): boolean => format === SIGNED || format === SIGNED_WITH_ORIGIN;

export class KeySealer implements Sealer {
  readonly #modelsByByte = new Map<number, string[]>();

  /** `models`: every model name that a returned value may contain. */
  constructor(
    private readonly keys: KeyRing,
    models: readonly string[],
  ) {
    for (const model of models) this.know(model);
  }

  /** Adds a model name that a returned value may contain. */
  know(model: string): void {
    const byte = modelByte(model);
    const names = this.#modelsByByte.get(byte) ?? [];
    if (!names.includes(model)) this.#modelsByByte.set(byte, [...names, model]);
  }

  signThinking(text: string, { organizationId, model, origin }: SealContext): string {
    const key = this.keys.current;
    if (origin != null) {
      const head = Buffer.from([SIGNED_WITH_ORIGIN, key.id, modelByte(model)]);
      const bound = fields(head, organizationId, model, text);
      const plain = packOrigin(text, origin, {});
      const nonce = nonceOf(key.thinkingSignature, bound, plain);
      return Buffer.concat([head, ...encrypt(key.thinkingText, bound, plain, nonce)]).toString('base64url');
    }
    const head = Buffer.from([SIGNED, key.id, modelByte(model)]);
    return Buffer.concat([head, sign(key.thinkingSignature, fields(head, organizationId, model), text)]).toString(
      'base64url',
    );
  }

  sealThinking(text: string, { organizationId, model, origin }: SealContext): string {
    const key = this.keys.current;
    const head = Buffer.from([origin == null ? SEALED : SEALED_WITH_ORIGIN, key.id, modelByte(model)]);
    const plain = origin == null ? Buffer.from(text) : packOrigin(text, origin, { text });
    return Buffer.concat([head, ...encrypt(key.thinkingText, fields(head, organizationId, model), plain)]).toString(
      'base64url',
    );
  }

  openThinking(signature: string, thinking: string, organizationId: string): OpenedThinking | null {
    const value = decode(signature);
    if (value === null || value.length < HEAD) return null;
    const head = value.subarray(0, HEAD);
    const payload = value.subarray(HEAD);
    const format = value.readUInt8(0);
    if (format < SIGNED || format > SEALED_WITH_ORIGIN || (isVisible(format) ? !isWhole(thinking) : thinking !== ''))
      return null;
    for (const key of this.keys.named(value.readUInt8(1))) {
      for (const model of this.#modelsByByte.get(value.readUInt8(2)) ?? []) {
        const opened = openWith(key, format, payload, { head, organizationId, model, thinking });
        if (opened !== null) return { ...opened, model, format: isVisible(format) ? 'signed' : 'sealed' };
      }
    }
    return null;
  }

  seal(kind: SealKind, text: string, { organizationId, model, origin }: SealContext): string {
    const key = this.keys.current;
    if (origin != null) {
      const plain = packOrigin(text, origin, { model, text });
      const sealed = encrypt(key[kind], fields(Buffer.from([2, key.id]), organizationId), plain);
      return PREFIX_WITH_ORIGIN + Buffer.concat([Buffer.from([key.id]), ...sealed]).toString('base64url');
    }
    const head = Buffer.from([key.id]);
    const name = Buffer.from(model);
    const length = Buffer.alloc(2);
    length.writeUInt16BE(name.length);
    const plain = Buffer.concat([length, name, Buffer.from(text)]);
    return (
      PREFIX + Buffer.concat([head, ...encrypt(key[kind], fields(head, organizationId), plain)]).toString('base64url')
    );
  }

  unseal(kind: SealKind, sealed: string, organizationId: string): Unsealed | null {
    const hasOrigin = sealed.startsWith(PREFIX_WITH_ORIGIN);
    const value = hasOrigin || sealed.startsWith(PREFIX) ? decode(sealed.slice(PREFIX.length)) : null;
    if (value === null || value.length < 1) return null;
    const head = hasOrigin ? Buffer.from([2, value.readUInt8(0)]) : value.subarray(0, 1);
    for (const key of this.keys.named(value.readUInt8(0))) {
      const plain = decrypt(key[kind], fields(head, organizationId), value.subarray(1));
      if (plain === null) continue;
      if (hasOrigin) return unpackOrigin(plain, null);
      const end = 2 + plain.readUInt16BE(0);
      return { model: plain.toString('utf8', 2, end), text: plain.toString('utf8', end), origin: null };
    }
    return null;
  }
}

interface Bound {
  head: Buffer;
  organizationId: string;
  model: string;
  thinking: string;
}

/** Returns null if the value was not created with this key for this model and organization. */
function openWith(
  key: SealingKey,
  format: number,
  payload: Buffer,
  { head, organizationId, model, thinking }: Bound,
): Pick<Unsealed, 'text' | 'origin'> | null {
  const bound = fields(head, organizationId, model);
  if (format === SIGNED) {
    const valid = payload.length === MAC && timingSafeEqual(sign(key.thinkingSignature, bound, thinking), payload);
    return valid ? { text: thinking, origin: null } : null;
  }
  const plain = decrypt(
    key.thinkingText,
    format === SIGNED_WITH_ORIGIN ? fields(head, organizationId, model, thinking) : bound,
    payload,
  );
  if (plain === null) return null;
  if (format === SEALED) return { text: plain.toString(), origin: null };
  const { text, origin } = unpackOrigin(plain, format === SIGNED_WITH_ORIGIN ? thinking : null);
  return { text, origin };
}

function modelByte(model: string): number {
  return createHash('sha256').update(model).digest().readUInt8(0);
}

function sign(key: Buffer, bound: Buffer, text: string): Buffer {
  return createHmac('sha256', key).update(bound).update(text, 'utf8').digest();
}

/**
 * Unpaired surrogates are hashed like U+FFFD, so text that contains one cannot be verified. The server never emits any.
 */
function isWhole(text: string): boolean {
  return !/\p{Surrogate}/u.test(text);
}
