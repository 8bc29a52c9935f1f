// Dependencies of the routes for files and uploads.

import type { FileStore } from '../../storage/file-store.js';
import type { UploadStore } from '../../storage/upload-store.js';

export interface FileDeps {
  files: FileStore;
  uploads: UploadStore;
  settings: { readonly retention_days: number; readonly max_bytes: number };
  /** Returns the time in seconds since 1970. */
  now(): number;
}
