// Opens the stores of files and uploads: in the data directory's database, or in the shared one.

import type { EraseGate } from '../storage/erase-gate.js';
import type { FileSettings, FileStore } from '../storage/file-store.js';
import { LmdbFileContents } from '../storage/lmdb/files/contents.js';
import { LmdbFileStore } from '../storage/lmdb/files/file-store.js';
import { LmdbUploadStore } from '../storage/lmdb/files/upload-store.js';
import { PostgresFileContents } from '../storage/postgres/files/contents.js';
import { PostgresFileStore } from '../storage/postgres/files/file-store.js';
import { PostgresUploadStore } from '../storage/postgres/files/upload-store.js';
import type { SharedDatabase } from '../storage/postgres/shared-database.js';
import type { Store } from '../storage/store.js';
import type { UploadStore } from '../storage/upload-store.js';

export function openFiles(
  settings: FileSettings,
  {
    store,
    database,
    gate,
    undo,
  }: { store: Store; database: SharedDatabase | null; gate: EraseGate; undo: { add(undo: () => void): void } },
): { files: FileStore; uploads: UploadStore } {
  if (database === null) {
    const contents = new LmdbFileContents(store, settings, () => Date.now() / 1000);
    undo.add(() => contents.close());
    const files = new LmdbFileStore(contents, gate);
    return { files, uploads: new LmdbUploadStore(contents, files, gate) };
  }
  const contents = new PostgresFileContents(database.database, settings, () => database.clock.now() / 1000);
  const files = new PostgresFileStore(contents, gate);
  return { files, uploads: new PostgresUploadStore(contents, files, gate) };
}
