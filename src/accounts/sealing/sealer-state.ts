// What the sealer of a server keeps: a port, see docs/internals/storage.md. Each method is one unit of work, durable when it
// resolves, and gives every thread and process that asks the same.

export interface SealerState {
  /**
   * The key that was made once, as far as it still counts. `replaced`: keys from the settings are used instead, and it is
   * not made; one that was goes on verifying for a while. Null if there is none.
   */
  madeKey(replaced: boolean): Promise<Uint8Array | null>;
  /** Names that were served before and are now, those of `models` first; so many as there may be. */
  knownModels(models: readonly string[]): Promise<readonly string[]>;
}

/** A key that was replaced goes on verifying for at least 30 days. */
export const GRACE_MS = 31 * 24 * 3_600_000;
const MAX_MODEL_NAMES = 1_000;

/** What is to be kept where `before` is; null: all of these are in it. */
export function knownNames(models: readonly string[], before: readonly string[]): readonly string[] | null {
  const known = [...new Set([...models, ...before])].slice(0, Math.max(models.length, MAX_MODEL_NAMES));
  return known.length !== before.length || known.some((name) => !before.includes(name)) ? known : null;
}
