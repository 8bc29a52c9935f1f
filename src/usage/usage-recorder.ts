// UsageSink that gathers: what is told waits for a quarter of a second and is recorded in batches, and nothing waits for it (BatchWriter).
// One per thread that answers requests, used on its event loop only.

import type { FinishedUsage, RejectedUsage, UsageSink } from '../shared/usage-sink.js';
import { BatchWriter } from '../storage/batch-writer.js';
import type { Log } from '../telemetry/types.js';
import type { UsageEntry, UsageStore } from './usage-store.js';

export class UsageRecorder implements UsageSink {
  readonly #writer: BatchWriter<UsageEntry>;

  constructor(
    store: Pick<UsageStore, 'record'>,
    log: Log,
    private readonly now: () => number = Date.now,
  ) {
    this.#writer = new BatchWriter({ what: 'usage', write: (batch) => store.record(batch), log });
  }

  finished(usage: FinishedUsage): void {
    this.#writer.add({ usage, at: usage.endedAt });
  }

  rejected(usage: RejectedUsage): void {
    this.#writer.add({ usage, at: this.now() });
  }

  /** Resolves when everything told so far is recorded, or could not be written. */
  flush(): Promise<void> {
    return this.#writer.flush();
  }

  close(): Promise<void> {
    return this.#writer.close();
  }
}
