// Implements SealerState on the `secrets` table.

import { randomBytes } from 'node:crypto';
import type { Store, Table } from '../../store.js';
import { SECRET_BYTES } from '../../../accounts/sealing/key-ring.js';
import { GRACE_MS, knownNames } from '../../../accounts/sealing/sealer-state.js';
import type { SealerState, StoredKey } from '../../../accounts/sealing/sealer-state.js';

interface MadeKey {
  secret: Uint8Array;
  /** When configured keys replaced this key, in ms; null while this key is the current one. */
  replacedAt: number | null;
}

const MADE_KEY = 'signing-key';
const MODEL_NAMES = 'model-names';

export class LmdbSealerState implements SealerState {
  readonly #keys: Table<MadeKey>;
  readonly #names: Table<string[]>;

  constructor(
    store: Store,
    private readonly now: () => number = Date.now,
  ) {
    this.#keys = store.table('secrets');
    this.#names = store.table('secrets');
  }

  async madeKey(replaced: boolean): Promise<Uint8Array | null> {
    if (!replaced)
      await this.#keys.insert(MADE_KEY, { secret: new Uint8Array(randomBytes(SECRET_BYTES)), replacedAt: null });
    const made = this.#keys.get(MADE_KEY);
    if (made === undefined) return null;
    if (replaced !== (made.replacedAt !== null)) {
      made.replacedAt = replaced ? this.now() : null;
      await this.#keys.put(MADE_KEY, made);
    }
    return made.replacedAt === null || this.now() - made.replacedAt < GRACE_MS ? made.secret : null;
  }

  storedKey(): Promise<StoredKey | null> {
    return Promise.resolve(this.#keys.get(MADE_KEY) ?? null);
  }

  /**
   * Keeps the names of removed models, so that a conversation started with a removed model can continue with
   * another one.
   */
  async knownModels(models: readonly string[]): Promise<readonly string[]> {
    const before = this.#names.get(MODEL_NAMES) ?? [];
    const known = knownNames(models, before);
    if (known !== null) await this.#names.put(MODEL_NAMES, [...known]);
    return known ?? before;
  }
}
