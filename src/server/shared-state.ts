// Memory shared by all threads of the process. The main thread creates it once and passes it to each HTTP worker.

import { randomBytes } from 'node:crypto';
import { UNKNOWN_KEY_BYTES } from '../accounts/unknown-keys.js';
import { COUNTER_BYTES, ledgerBytes } from '../admission/counter-memory.js';
import type { Config } from '../config/settings.js';
import { TIER_STATE_BYTES } from '../engine/kv-tier/tier-state.js';
import { upstreamBytes } from '../generation/upstream/shared-counts.js';
import { PROMPT_MEMORY_BYTES } from '../protocol/prompt-cache/prompt-memory.js';
import { ERASURE_HOLD_BYTES } from '../shared/erasure-hold.js';
import { ThreadStates } from '../shared/thread-states.js';
import { HeldResponses } from '../storage/held-responses.js';
import { upstreamShape } from './engine-settings.js';

export interface SharedState {
  /** Identifies this process among the processes that share the limits. */
  process: string;
  /** Counters for the limits; see src/admission. */
  counters: SharedArrayBuffer;
  /** For each HTTP worker, the requests that it has admitted but not finished; see ledgerOf() in src/admission. */
  ledgers: SharedArrayBuffer;
  /** Unknown API keys seen per client address; see src/accounts/unknown-keys.ts. */
  unknownKeys: SharedArrayBuffer;
  /** Counters for the upstream servers; see src/generation/upstream/shared-counts.ts. */
  upstreams: SharedArrayBuffer;
  /** Stored responses that must not be erased; see src/storage/held-responses.ts. */
  held: SharedArrayBuffer;
  /** Whether erasing is suspended; see src/shared/erasure-hold.ts. */
  erasure: SharedArrayBuffer;
  /** Recent prompts; see src/protocol/prompt-cache/prompt-memory.ts. */
  prompts: SharedArrayBuffer;
  /** Whether the disk tier's worker is running; see src/engine/kv-tier/tier-state.ts. */
  kvTier: SharedArrayBuffer;
  /** States of the HTTP workers; see src/shared/thread-states.ts. Empty if there is only one thread. */
  threads: SharedArrayBuffer;
}

export function createSharedState(config: Config): SharedState {
  const { threads } = config.http;
  const answering = threads > 1 ? threads : 0;
  return {
    process: randomBytes(6).toString('hex'),
    counters: new SharedArrayBuffer(COUNTER_BYTES),
    ledgers: new SharedArrayBuffer(ledgerBytes(answering)),
    unknownKeys: new SharedArrayBuffer(UNKNOWN_KEY_BYTES),
    erasure: new SharedArrayBuffer(ERASURE_HOLD_BYTES),
    upstreams: new SharedArrayBuffer(upstreamBytes(upstreamShape(config))),
    held: new SharedArrayBuffer(HeldResponses.bytes(answering + 1)),
    kvTier: new SharedArrayBuffer(TIER_STATE_BYTES),
    prompts: new SharedArrayBuffer(PROMPT_MEMORY_BYTES),
    threads: new SharedArrayBuffer(ThreadStates.bytes(answering)),
  };
}
