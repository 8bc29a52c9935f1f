// Opens the server's sealer with configured keys, or with a key that is generated once and stored.

import { StartError } from '../../shared/errors.js';
import { KeyRing, SECRET_BYTES } from './key-ring.js';
import { KeySealer } from './key-sealer.js';
import type { SealerState } from './sealer-state.js';

/** `configured`: keys of 64 hex digits each, the current one first. Throws StartError. */
export async function openKeyRing(state: SealerState, configured: readonly string[]): Promise<KeyRing> {
  const given = configured.map(parseKey);
  const made = await state.madeKey(given.length > 0);
  return new KeyRing(made === null ? given : [...given, made]);
}

/**
 * For commands: returns the servers' key ring without changing their state. Throws StartError if `configured` is empty
 * although the servers use configured keys, or if it is not empty although they use a generated key.
 */
export async function storedKeyRing(state: SealerState, configured: readonly string[]): Promise<KeyRing> {
  const given = configured.map(parseKey);
  const made = await state.storedKey();
  if (given.length === 0 && (made === null || made.replacedAt !== null))
    throw new StartError(
      made === null
        ? "No key is stored yet. Use the server's secrets.signing_keys setting or, if the server has none, start the server first."
        : 'The server uses the secrets.signing_keys setting; the command requires the same setting.',
    );
  if (given.length > 0 && made !== null && made.replacedAt === null)
    throw new StartError('The server does not use the secrets.signing_keys setting; run the command without it.');
  return new KeyRing(made === null ? given : [...given, made.secret]);
}

/** `configured`: keys as in openKeyRing(). `models`: public names in catalog order. Throws StartError. */
export async function openSealer(
  state: SealerState,
  configured: readonly string[],
  models: readonly string[],
): Promise<KeySealer> {
  return new KeySealer(await openKeyRing(state, configured), await state.knownModels(models));
}

function parseKey(text: string, index: number): Uint8Array {
  if (!/^[0-9a-f]+$/i.test(text) || text.length !== 2 * SECRET_BYTES) {
    throw new StartError(`secrets.signing_keys: key ${index + 1} must be ${2 * SECRET_BYTES} hexadecimal digits.`);
  }
  return Buffer.from(text, 'hex');
}
