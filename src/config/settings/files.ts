// Settings for files that clients upload.
import * as kind from '../kinds.js';
import { setting } from './setting.js';

export const files = {
  max_bytes: setting(
    kind.bytes(1024, 2 ** 40),
    104_857_600,
    'Maximum size of one uploaded file. Larger files are rejected with 413.',
  ),
  organization_bytes: setting(
    kind.bytes(1024, 2 ** 50),
    1_073_741_824,
    "Maximum total size of one organization's files, including unfinished uploads. Above it, uploads are rejected with 400.",
  ),
  total_bytes: setting(
    kind.bytes(1024, 2 ** 50),
    34_359_738_368,
    "Maximum total size of all organizations' files, including unfinished uploads and results of batches. Above it, uploads are rejected with 503. Without a shared database, all stored data may take at most 64 GiB.",
  ),
  retention_days: setting(
    kind.integer(1, 36_500),
    30,
    'Number of days to keep a file, unless the client sets an earlier expiry.',
  ),
};
