// UsageSink that gathers: what is told within 250 ms is recorded together. Nothing waits for it: if the store is
// slow or its disk full, up to MAX_WAITING entries wait here and further ones are dropped, with a line in the log.
// One per thread that answers requests, used on its event loop only.

import type { FinishedUsage, RejectedUsage, UsageSink } from '../shared/usage-sink.js';
import type { Log } from '../telemetry/types.js';
import type { UsageEntry, UsageStore } from './usage-store.js';

const FLUSH_MS = 250;
/** After a write that failed. */
const RETRY_MS = 2_000;
/** Entries recorded at once: some milliseconds of work. */
const BATCH = 1_000;
const MAX_WAITING = 50_000;

export class UsageRecorder implements UsageSink {
  #waiting: UsageEntry[] = [];
  #timer: NodeJS.Timeout | null = null;
  #writing: Promise<void> | null = null;
  #dropped = 0;
  #failing = false;

  constructor(private readonly store: Pick<UsageStore, 'record'>, private readonly log: Log, private readonly now: () => number = Date.now) {}

  finished(usage: FinishedUsage): void {
    this.#push({ usage, at: usage.endedAt });
  }

  rejected(usage: RejectedUsage): void {
    this.#push({ usage, at: this.now() });
  }

  /** Resolves when everything told so far is recorded, or could not be written. */
  async flush(): Promise<void> {
    this.#disarm();
    while (this.#waiting.length > 0) {
      const writing = (this.#writing ??= this.#write().finally(() => { this.#writing = null; }));
      await writing;
      if (this.#failing) return;
    }
  }

  async close(): Promise<void> {
    await this.flush();
    this.#disarm();
    if (this.#waiting.length > 0) this.log.error({ entries: this.#waiting.length }, 'usage could not be recorded and is lost');
    this.#waiting = [];
  }

  #push(entry: UsageEntry): void {
    if (this.#waiting.length >= MAX_WAITING) {
      if (this.#dropped++ === 0) this.log.error({ waiting: MAX_WAITING }, 'usage is told faster than it can be recorded: some is dropped');
      return;
    }
    this.#waiting.push(entry);
    this.#arm(FLUSH_MS);
  }

  #arm(ms: number): void {
    this.#timer ??= setTimeout(() => {
      this.#timer = null;
      void this.flush();
    }, ms).unref();
  }

  #disarm(): void {
    if (this.#timer !== null) clearTimeout(this.#timer);
    this.#timer = null;
  }

  async #write(): Promise<void> {
    const batch = this.#waiting.splice(0, BATCH);
    try {
      await this.store.record(batch);
      if (this.#failing || this.#dropped > 0) this.log.info({ dropped: this.#dropped }, 'usage is recorded again');
      this.#failing = false;
      this.#dropped = 0;
    } catch (error) {
      if (!this.#failing) this.log.error({ err: error }, 'usage cannot be recorded now; it is tried again');
      this.#failing = true;
      this.#waiting = [...batch, ...this.#waiting];
      this.#disarm();
      this.#arm(RETRY_MS);
    }
  }
}
