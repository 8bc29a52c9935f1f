// Collects entries from many callers and writes them in small batches, so that the event loop can serve requests in
// between. Callers do not wait. If the store is slow or its disk is full, up to MAX_WAITING entries are queued. Further
// entries are dropped, which is logged. There is one writer per HTTP worker thread and entry type, used only on the
// thread's event loop.

import type { Log } from '../telemetry/types.js';

const FLUSH_MS = 250;
/** Delay after a failed write. */
const RETRY_MS = 2_000;
/** Maximum number of entries per write. A write of this size takes a few milliseconds. */
const BATCH = 1_000;
/**
 * Minimum number of entries per write. If more are queued, a write takes only a fraction of the queue, because building
 * the batch blocks the event loop.
 */
const FEWEST = 32;
const SHARE = 8;
/** Pause between two batches. Without it, consecutive batches would delay requests that arrive in the meantime. */
const PAUSE_MS = 25;
const MAX_WAITING = 50_000;

export interface BatchWriterOptions<T> {
  /** The entries' name in log lines. */
  what: string;
  /** Stores all entries, or rejects and stores none. */
  write(batch: readonly T[]): Promise<void>;
  log: Log;
  /** Maximum number of entries per write. */
  batch?: number;
  maxWaiting?: number;
  /** Maximum time in ms between the arrival of an entry and its write. */
  flushMs?: number;
}

export class BatchWriter<T> {
  #waiting: T[] = [];
  #timer: NodeJS.Timeout | null = null;
  #writing: Promise<void> | null = null;
  #dropped = 0;
  #failing = false;

  constructor(private readonly options: BatchWriterOptions<T>) {}

  add(entry: T): void {
    const { what, log, maxWaiting = MAX_WAITING, flushMs = FLUSH_MS } = this.options;
    if (this.#waiting.length >= maxWaiting) {
      if (this.#dropped++ === 0)
        log.error({ waiting: maxWaiting }, `${what}: entries arrive faster than they can be recorded; dropping some`);
      return;
    }
    this.#waiting.push(entry);
    this.#arm(flushMs);
  }

  get waiting(): number {
    return this.#waiting.length;
  }

  /** Resolves when all entries added so far have been written or have failed to be written. */
  async flush(): Promise<void> {
    this.#disarm();
    while (this.#waiting.length > 0) {
      await this.#once();
      if (this.#failing) return;
    }
  }

  async close(): Promise<void> {
    await this.flush();
    this.#disarm();
    if (this.#waiting.length > 0)
      this.options.log.error(
        { entries: this.#waiting.length },
        `${this.options.what}: could not be recorded, entries are lost`,
      );
    this.#waiting = [];
  }

  #arm(ms: number): void {
    this.#timer ??= setTimeout(() => {
      this.#timer = null;
      void this.#next();
    }, ms).unref();
  }

  /** Writes one batch, and the next one after a pause. */
  async #next(): Promise<void> {
    if (this.#waiting.length > 0) await this.#once();
    if (this.#waiting.length === 0 || this.#failing) return;
    this.#disarm();
    this.#arm(PAUSE_MS);
  }

  /** Joins the write in progress, or starts one. */
  #once(): Promise<void> {
    return (this.#writing ??= this.#write().finally(() => {
      this.#writing = null;
    }));
  }

  #disarm(): void {
    if (this.#timer !== null) clearTimeout(this.#timer);
    this.#timer = null;
  }

  async #write(): Promise<void> {
    const { what, log, write, batch: most = BATCH } = this.options;
    const batch = this.#waiting.splice(0, Math.min(most, Math.max(FEWEST, Math.ceil(this.#waiting.length / SHARE))));
    try {
      await write(batch);
      if (this.#failing || this.#dropped > 0) log.info({ dropped: this.#dropped }, `${what}: recording works again`);
      this.#failing = false;
      this.#dropped = 0;
    } catch (error) {
      if (!this.#failing) log.error({ err: error }, `${what}: recording failed; will retry`);
      this.#failing = true;
      this.#waiting = [...batch, ...this.#waiting];
      this.#disarm();
      this.#arm(RETRY_MS);
    }
  }
}
