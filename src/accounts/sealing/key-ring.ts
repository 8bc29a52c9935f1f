// A server's encryption keys. Each secret yields one key per purpose, so that a value created for one purpose is never
// valid for another. It also yields a one-byte ID that identifies the key within encrypted values. No side effects.
import { hkdfSync } from 'node:crypto';

export const SECRET_BYTES = 32;

/** Keys derived from one secret. */
export interface SealingKey {
  /**
   * The key's ID. It is derived from the secret and therefore does not depend on the key's position in the list. Two
   * keys may have the same ID.
   */
  readonly id: number;
  readonly thinkingSignature: Buffer;
  readonly thinkingText: Buffer;
  readonly reasoning: Buffer;
  readonly compaction: Buffer;
  readonly contextSummary: Buffer;
  readonly accountSecrets: Buffer;
  readonly affinity: Buffer;
}

export class KeyRing {
  /** Encrypts and signs new values. */
  readonly current: SealingKey;
  readonly #byId = new Map<number, SealingKey[]>();

  /** `secrets`: at least one secret of 32 bytes; the current one comes first. */
  constructor(secrets: readonly Uint8Array[]) {
    const keys = secrets.map(deriveKey);
    const [current] = keys;
    if (current === undefined) throw new TypeError('a key ring needs at least one key');
    this.current = current;
    for (const key of keys) this.#byId.set(key.id, [...this.named(key.id), key]);
  }

  /** All keys with this key ID. Several keys can have the same ID, so any of them may have created the value. */
  named(id: number): readonly SealingKey[] {
    return this.#byId.get(id) ?? [];
  }
}

function deriveKey(secret: Uint8Array): SealingKey {
  if (secret.length !== SECRET_BYTES) throw new TypeError(`a sealing key must have ${SECRET_BYTES} bytes`);
  const derive = (purpose: string, length = 32): Buffer =>
    Buffer.from(hkdfSync('sha256', secret, '', `monolith ${purpose}`, length));
  return {
    id: derive('key id', 1).readUInt8(0),
    thinkingSignature: derive('thinking signature'),
    thinkingText: derive('thinking text'),
    reasoning: derive('reasoning'),
    compaction: derive('compaction'),
    contextSummary: derive('context summary'),
    accountSecrets: derive('account secrets'),
    affinity: derive('affinity'),
  };
}
