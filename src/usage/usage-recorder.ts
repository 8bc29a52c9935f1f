// A UsageSink that batches: usage is collected for 250 ms and recorded together (BatchWriter). No request waits for the
// write. One per HTTP worker thread; used only on its event loop.

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

  /** Resolves when all usage reported so far has been recorded or has failed to be written. */
  flush(): Promise<void> {
    return this.#writer.flush();
  }

  close(): Promise<void> {
    return this.#writer.close();
  }
}
