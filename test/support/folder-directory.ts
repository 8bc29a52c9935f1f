// Opens the LMDB directory of a server in this process, for tests that inspect its tables.

import type { SweptDirectory } from '../../src/accounts/directory.js';
import { LmdbDirectory } from '../../src/storage/lmdb/accounts/directory.js';

export function folderDirectory({ directory }: { directory: SweptDirectory }): LmdbDirectory {
  if (!(directory instanceof LmdbDirectory)) throw new TypeError('this server shares its directory with others');
  return directory;
}
