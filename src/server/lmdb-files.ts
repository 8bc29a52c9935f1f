// Opens the stores of files and uploads in the data directory's database.

import type { EraseGate } from '../storage/erase-gate.js';
import type { FileSettings, FileStore } from '../storage/file-store.js';
import { LmdbFileContents } from '../storage/lmdb/files/contents.js';
import { LmdbFileStore } from '../storage/lmdb/files/file-store.js';
import { LmdbUploadStore } from '../storage/lmdb/files/upload-store.js';
import type { Store } from '../storage/store.js';
import type { UploadStore } from '../storage/upload-store.js';

export interface FileStores {
  readonly files: FileStore;
  readonly uploads: UploadStore;
}

export function folderFiles(
  store: Store,
  settings: FileSettings,
  { gate, undo }: { gate: EraseGate; undo: { add(undo: () => void): void } },
): FileStores {
  const contents = new LmdbFileContents(store, settings, () => Date.now() / 1000);
  undo.add(() => contents.close());
  const files = new LmdbFileStore(contents, gate);
  return { files, uploads: new LmdbUploadStore(contents, files, gate) };
}
