// The keys of a server. Each secret yields one key per purpose, so that a value made for one purpose can
// never pass for another's, and a one-byte name by which values find their key again. Pure.
import { hkdfSync } from 'node:crypto';

export const SECRET_BYTES = 32;

/** What is derived from one secret. */
export interface SealingKey {
  /** Of the secret itself, so it stays the same wherever the key stands in the list. Two keys may share it. */
  readonly id: number;
  readonly thinkingSignature: Buffer;
  readonly thinkingText: Buffer;
  readonly reasoning: Buffer;
  readonly compaction: Buffer;
  readonly accountSecrets: Buffer;
  readonly affinity: Buffer;
}

export class KeyRing {
  /** Seals and signs whatever is new. */
  readonly current: SealingKey;
  readonly #byId = new Map<number, SealingKey[]>();

  /** `secrets`: 32 bytes each, the current one first, at least one. */
  constructor(secrets: readonly Uint8Array[]) {
    const keys = secrets.map(deriveKey);
    const [current] = keys;
    if (current === undefined) throw new TypeError('a key ring needs a key');
    this.current = current;
    for (const key of keys) this.#byId.set(key.id, [...this.named(key.id), key]);
  }

  /** The keys a value with this key-id byte may be of. */
  named(id: number): readonly SealingKey[] {
    return this.#byId.get(id) ?? [];
  }
}

function deriveKey(secret: Uint8Array): SealingKey {
  if (secret.length !== SECRET_BYTES) throw new TypeError(`a sealing key has ${SECRET_BYTES} bytes`);
  const derive = (purpose: string, length = 32): Buffer =>
    Buffer.from(hkdfSync('sha256', secret, '', `monolith ${purpose}`, length));
  return {
    id: derive('key id', 1).readUInt8(0),
    thinkingSignature: derive('thinking signature'),
    thinkingText: derive('thinking text'),
    reasoning: derive('reasoning'),
    compaction: derive('compaction'),
    accountSecrets: derive('account secrets'),
    affinity: derive('affinity'),
  };
}
