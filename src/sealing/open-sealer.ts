// The sealer of a server: its keys from the settings, or made once and kept in the database.
import type { Store } from '../storage/store.js';
import type { Sealer } from './sealer.js';

/** `configured`: 64 hex digits each, the current key first. `models`: public names in catalog order. Throws StartError. */
export async function openSealer(_store: Store, _configured: readonly string[], _models: readonly string[]): Promise<Sealer> {
  const absent = (): never => { throw new Error('sealing is not implemented'); };
  return { signThinking: absent, sealThinking: absent, openThinking: absent, seal: absent, unseal: absent };
}
