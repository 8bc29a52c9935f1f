// Settings for the prefix cache's disk tier, which keeps KV pages after they are evicted from memory.
import * as kind from '../kinds.js';
import { setting } from './setting.js';

export const kv = {
  disk: setting(
    kind.choice('stored', 'all', 'off'),
    'stored',
    'Which KV cache pages are also kept on disk, encrypted, so that they survive a restart and the unloading of the model. stored: pages of stored responses, and of requests with prompt_cache_retention 24h; all: pages of all requests; off: none.',
  ),
  disk_bytes: setting(
    kind.bytes(0, 2 ** 46),
    0,
    'Maximum size of the KV cache pages on disk, in bytes; 0 = automatic (8 GiB, or 10 percent of the free disk space if that is less).',
  ),
  min_tokens: setting(
    kind.integer(16, 1_048_576),
    256,
    'Minimum prompt length, in tokens, for writing KV cache pages to disk or reading them from disk.',
  ),
  max_pinned: setting(
    kind.integer(0, 1_000),
    16,
    'Maximum number of pinned prompts (monolith cache warm), which stay in memory and on disk; 0 = none.',
  ),
  backlog_bytes: setting(
    kind.bytes(1_048_576, 2 ** 40),
    268_435_456,
    'Maximum bytes of KV cache pages per model that wait to be written to disk. Pages above the limit are skipped and counted.',
  ),
};
