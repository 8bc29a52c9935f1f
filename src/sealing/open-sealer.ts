// The sealer of a server: its keys from the settings, or made once and kept in the database. Owns the table
// `secrets`.
import { randomBytes } from 'node:crypto';
import { StartError } from '../errors.js';
import type { Store } from '../storage/store.js';
import { KeyRing, SECRET_BYTES } from './key-ring.js';
import { KeySealer } from './key-sealer.js';
import type { Sealer } from './sealer.js';

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

/** `configured`: 64 hex digits each, the current key first. `models`: public names in catalog order. Throws StartError. */
export async function openSealer(store: Store, configured: readonly string[], models: readonly string[]): Promise<Sealer> {
  const keys = new KeyRing([...configured.map(parseKey), ...(await madeKey(store, configured.length > 0))]);
  return new KeySealer(keys, await knownModels(store, models));
}

function parseKey(text: string, index: number): Uint8Array {
  if (!/^[0-9a-f]+$/i.test(text) || text.length !== 2 * SECRET_BYTES) {
    throw new StartError(`secrets.signing_keys: key ${index + 1} must be ${2 * SECRET_BYTES} hexadecimal digits.`);
  }
  return Buffer.from(text, 'hex');
}

/** The database's own key as far as it still counts; made if the settings have none. */
async function madeKey(store: Store, replaced: boolean): Promise<Uint8Array[]> {
  const table = store.table<MadeKey>('secrets');
  if (!replaced) await table.insert(MADE_KEY, { secret: new Uint8Array(randomBytes(SECRET_BYTES)), replacedAt: null });
  const made = table.get(MADE_KEY);
  if (made === undefined) return [];
  if (replaced !== (made.replacedAt !== null)) {
    made.replacedAt = replaced ? Date.now() : null;
    await table.put(MADE_KEY, made);
  }
  return made.replacedAt === null || Date.now() - made.replacedAt < GRACE_MS ? [made.secret] : [];
}

/** Names served now or before: a conversation begun with a model that is gone goes on with another. */
async function knownModels(store: Store, models: readonly string[]): Promise<readonly string[]> {
  const table = store.table<string[]>('secrets');
  const before = table.get(MODEL_NAMES) ?? [];
  const known = [...new Set([...models, ...before])].slice(0, Math.max(models.length, MAX_MODEL_NAMES));
  if (known.length !== before.length || known.some((name) => !before.includes(name))) await table.put(MODEL_NAMES, known);
  return known;
}
