// UsageSink over LMDB: what is told within 250 ms is written in one transaction, as rows and added to the sums
// of its hour and month. Reading and writing a sum happens inside the transaction, so that several threads add
// up. Nothing waits for it: if the disk is slow or full, up to MAX_WAITING entries wait here and further ones
// are dropped, with a line in the log. One per thread that answers requests, used on its event loop only.

import { monthName, monthNumber } from '../admission/month-use.js';
import type { Store, Table } from '../storage/store.js';
import type { Log } from '../telemetry/types.js';
import { addSums, HOUR_MS, isFinished, noUsage, sumsOf } from './sums.js';
import type { HourKey, UsageRow, UsageSums } from './sums.js';
import type { FinishedUsage, RejectedUsage, UsageSink } from '../shared/usage-sink.js';

const FLUSH_MS = 250;
/** After a write that failed. */
const RETRY_MS = 2_000;
/** Entries of one transaction: some milliseconds of work. */
const BATCH = 1_000;
const MAX_WAITING = 50_000;

interface Entry { usage: FinishedUsage | RejectedUsage; at: number }

export class UsageRecorder implements UsageSink {
  readonly #rows: Table<UsageRow>;
  readonly #hours: Table<UsageSums>;
  readonly #months: Table<number>;
  #waiting: Entry[] = [];
  #timer: NodeJS.Timeout | null = null;
  #writing: Promise<void> | null = null;
  #number = 0;
  #dropped = 0;
  #failing = false;

  constructor(private readonly store: Store, private readonly log: Log, private readonly now: () => number = Date.now) {
    this.#rows = store.table('usage-rows');
    this.#hours = store.table('usage-hours');
    this.#months = store.table('usage-months');
  }

  finished(usage: FinishedUsage): void {
    this.#push({ usage, at: usage.endedAt });
  }

  rejected(usage: RejectedUsage): void {
    this.#push({ usage, at: this.now() });
  }

  /** Tokens of an organization in a month (`2026-11`), as far as they are written. */
  monthTokens(organizationId: string, month: string): number {
    return this.#months.get([organizationId, month]) ?? 0;
  }

  /** Resolves when everything told so far is on disk, or could not be written. */
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

  #push(entry: Entry): void {
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
      await this.store.transaction(() => this.#put(batch));
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

  #put(batch: readonly Entry[]): void {
    const hours = new Map<string, { key: HourKey; sums: UsageSums }>();
    const months = new Map<string, { key: [string, string]; tokens: number }>();
    for (const { usage, at } of batch) {
      const key: HourKey = [usage.organizationId, Math.floor(at / HOUR_MS), usage.model ?? '', usage.keyId, usage.endpoint];
      const name = key.join('\n');
      let hour = hours.get(name);
      if (hour === undefined) hours.set(name, (hour = { key, sums: noUsage() }));
      addSums(hour.sums, sumsOf(usage));
      if (!isFinished(usage)) continue;
      void this.#rows.put([usage.endedAt, usage.requestId, this.#number++], usage);
      const month = monthName(monthNumber(at));
      let sum = months.get(`${usage.organizationId}\n${month}`);
      if (sum === undefined) months.set(`${usage.organizationId}\n${month}`, (sum = { key: [usage.organizationId, month], tokens: 0 }));
      sum.tokens += usage.inputTokens + usage.outputTokens;
    }
    for (const { key, sums } of hours.values()) void this.#hours.put(key, addSums(sums, this.#hours.get(key) ?? noUsage()));
    for (const { key, tokens } of months.values()) void this.#months.put(key, tokens + (this.#months.get(key) ?? 0));
  }
}
