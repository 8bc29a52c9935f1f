// Opens the stores of files and uploads in the shared database.

import type { EraseGate } from '../storage/erase-gate.js';
import type { FileSettings } from '../storage/file-store.js';
import { PostgresFileContents } from '../storage/postgres/files/contents.js';
import { PostgresFileStore } from '../storage/postgres/files/file-store.js';
import { PostgresUploadStore } from '../storage/postgres/files/upload-store.js';
import type { SharedDatabase } from '../storage/postgres/shared-database.js';
import type { FileStores } from './lmdb-files.js';

export function databaseFiles(
  { database, clock }: SharedDatabase,
  settings: FileSettings,
  gate: EraseGate,
): FileStores {
  const contents = new PostgresFileContents(database, settings, () => clock.now() / 1000);
  const files = new PostgresFileStore(contents, gate);
  return { files, uploads: new PostgresUploadStore(contents, files, gate) };
}
