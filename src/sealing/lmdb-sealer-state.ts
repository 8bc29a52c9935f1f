// SealerState in the table `secrets`.

import { randomBytes } from 'node:crypto';
import type { Store, Table } from '../storage/store.js';
import { SECRET_BYTES } from './key-ring.js';
import type { SealerState } from './sealer-state.js';

interface MadeKey {
  secret: Uint8Array;
  /** Since when keys from the settings are used instead (ms); null while this is the current one. */
  replacedAt: number | null;
}

const MADE_KEY = 'signing-key';
const MODEL_NAMES = 'model-names';
/** A key that was replaced goes on verifying for at least 30 days. */
const GRACE_MS = 31 * 24 * 3_600_000;
const MAX_MODEL_NAMES = 1_000;

export class LmdbSealerState implements SealerState {
  readonly #keys: Table<MadeKey>;
  readonly #names: Table<string[]>;

  constructor(store: Store) {
    this.#keys = store.table('secrets');
    this.#names = store.table('secrets');
  }

  async madeKey(replaced: boolean): Promise<Uint8Array | null> {
    if (!replaced) await this.#keys.insert(MADE_KEY, { secret: new Uint8Array(randomBytes(SECRET_BYTES)), replacedAt: null });
    const made = this.#keys.get(MADE_KEY);
    if (made === undefined) return null;
    if (replaced !== (made.replacedAt !== null)) {
      made.replacedAt = replaced ? Date.now() : null;
      await this.#keys.put(MADE_KEY, made);
    }
    return made.replacedAt === null || Date.now() - made.replacedAt < GRACE_MS ? made.secret : null;
  }

  /** A conversation begun with a model that is gone goes on with another. */
  async knownModels(models: readonly string[]): Promise<readonly string[]> {
    const before = this.#names.get(MODEL_NAMES) ?? [];
    const known = [...new Set([...models, ...before])].slice(0, Math.max(models.length, MAX_MODEL_NAMES));
    if (known.length !== before.length || known.some((name) => !before.includes(name))) await this.#names.put(MODEL_NAMES, known);
    return known;
  }
}
