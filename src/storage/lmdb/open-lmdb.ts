// Opens LMDB environments for writing: only here, so that none is written to before the package's error texts have room.

import { open } from 'lmdb';
import type { RootDatabase, RootDatabaseOptionsWithPath } from 'lmdb';
import { loadAddon } from '../../engine/load-addon.js';

/** As lmdb's open(). Throws Error. */
export function openLmdb(options: RootDatabaseOptionsWithPath): RootDatabase {
  loadAddon().guardLmdbErrors();
  return open(options);
}
