// Opens LMDB environments for writing. No other code may do so: this enlarges the buffer for the package's error texts
// first.

import { open } from 'lmdb';
import type { RootDatabase, RootDatabaseOptionsWithPath } from 'lmdb';
import { loadAddon } from '../../engine/load-addon.js';

/** Like lmdb's open(). Throws Error. */
export function openLmdb(options: RootDatabaseOptionsWithPath): RootDatabase {
  loadAddon().guardLmdbErrors();
  return open(options);
}
