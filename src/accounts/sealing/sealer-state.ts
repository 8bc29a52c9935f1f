// Storage port for the sealer's state (see docs/internals/storage.md). Each method is one transaction, is durable when
// it resolves, and returns the same result to every thread and process.

/** A generated key. */
export interface StoredKey {
  readonly secret: Uint8Array;
  /** When configured keys replaced this key, in ms; null while this key is the current one. */
  readonly replacedAt: number | null;
}

export interface SealerState {
  /**
   * Returns the generated key while it is valid, or null if there is none. `replaced`: keys are configured, so no key
   * is generated, and an existing generated key stays valid only for verification and only for a limited time.
   */
  madeKey(replaced: boolean): Promise<Uint8Array | null>;
  /** Returns the generated key, valid or expired, without changing it. Null if no key was generated. */
  storedKey(): Promise<StoredKey | null>;
  /**
   * Returns the names of all models that are or were served, up to a maximum number. The names in `models` come
   * first.
   */
  knownModels(models: readonly string[]): Promise<readonly string[]>;
}

/** How long a replaced key stays valid for verification: at least 30 days. */
export const GRACE_MS = 31 * 24 * 3_600_000;
const MAX_MODEL_NAMES = 1_000;

/** The list to store in place of `before`, or null if `before` already contains all names. */
export function knownNames(models: readonly string[], before: readonly string[]): readonly string[] | null {
  const known = [...new Set([...models, ...before])].slice(0, Math.max(models.length, MAX_MODEL_NAMES));
  return known.length !== before.length || known.some((name) => !before.includes(name)) ? known : null;
}
