// Settings for batches of requests.
import * as kind from '../kinds.js';
import { setting } from './setting.js';

export const batches = {
  concurrency: setting(
    kind.integer(0, 1_000),
    4,
    'Maximum number of batch requests that this process runs concurrently. They start only while no other request is waiting for an engine. 0 = this process runs no batch requests.',
  ),
  max_lines: setting(kind.integer(1, 1_000_000), 50_000, 'Maximum number of requests per batch.'),
  per_organization: setting(
    kind.integer(1, 10_000),
    20,
    'Maximum number of unfinished batches per organization. Further batches are rejected with 429.',
  ),
  hours: setting(
    kind.integer(1, 8_760),
    24,
    'Lifetime of a batch, in hours. When a batch expires, its remaining requests are not run.',
  ),
  retention_days: setting(
    kind.integer(1, 36_500),
    30,
    'Number of days to keep a finished batch and its results. Output files expire after the same time, unless the client sets a different expiry.',
  ),
  lease_s: setting(
    kind.integer(3, 600),
    30,
    'Time, in seconds, before another process may run the requests of a lost process.',
  ),
};
