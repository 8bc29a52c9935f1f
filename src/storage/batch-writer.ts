// Gathers what many tell and writes it together, a little at a time, so that requests are answered in between. Nobody waits
// for it: if the store is slow or its disk full, up to MAX_WAITING entries wait here and further ones are dropped, with a line
// in the log. One per thread that answers requests and kind of entry, used on its event loop only.

import type { Log } from '../telemetry/types.js';

const FLUSH_MS = 250;
/** After a write that failed. */
const RETRY_MS = 2_000;
/** Most entries written at once: some milliseconds of work. */
const BATCH = 1_000;
/** Else as few as keep up, a share of what waits: the event loop waits while they are put together. */
const FEWEST = 32;
const SHARE = 8;
/** Between two batches. One upon the other they would hold up, all together, what comes meanwhile. */
const PAUSE_MS = 25;
const MAX_WAITING = 50_000;

export interface BatchWriterOptions<T> {
  /** What the log calls the entries. */
  what: string;
  /** All of them are kept or, if it rejects, none. */
  write(batch: readonly T[]): Promise<void>;
  log: Log;
  /** Most that are written at once. */
  batch?: number;
  maxWaiting?: number;
}

export class BatchWriter<T> {
  #waiting: T[] = [];
  #timer: NodeJS.Timeout | null = null;
  #writing: Promise<void> | null = null;
  #dropped = 0;
  #failing = false;

  constructor(private readonly options: BatchWriterOptions<T>) {}

  add(entry: T): void {
    const { what, log, maxWaiting = MAX_WAITING } = this.options;
    if (this.#waiting.length >= maxWaiting) {
      if (this.#dropped++ === 0)
        log.error({ waiting: maxWaiting }, `${what} is told faster than it can be recorded: some is dropped`);
      return;
    }
    this.#waiting.push(entry);
    this.#arm(FLUSH_MS);
  }

  get waiting(): number {
    return this.#waiting.length;
  }

  /** Resolves when everything told so far is written, or could not be. */
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
        `${this.options.what} could not be recorded and is lost`,
      );
    this.#waiting = [];
  }

  #arm(ms: number): void {
    this.#timer ??= setTimeout(() => {
      this.#timer = null;
      void this.#next();
    }, ms).unref();
  }

  /** One batch; the one behind it after a pause. */
  async #next(): Promise<void> {
    if (this.#waiting.length > 0) await this.#once();
    if (this.#waiting.length === 0 || this.#failing) return;
    this.#disarm();
    this.#arm(PAUSE_MS);
  }

  /** As whoever asked before, if that is under way. */
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
      if (this.#failing || this.#dropped > 0) log.info({ dropped: this.#dropped }, `${what} is recorded again`);
      this.#failing = false;
      this.#dropped = 0;
    } catch (error) {
      if (!this.#failing) log.error({ err: error }, `${what} cannot be recorded now; it is tried again`);
      this.#failing = true;
      this.#waiting = [...batch, ...this.#waiting];
      this.#disarm();
      this.#arm(RETRY_MS);
    }
  }
}
