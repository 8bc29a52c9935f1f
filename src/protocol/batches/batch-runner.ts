// Decides when this process works on batches. A line is one request of a batch. A job is work on a whole batch:
// validating it, stopping it or writing its result files (jobs.ts). This process claims lines while fewer than
// `concurrency` lines are running and no interactive request is waiting. It runs at most one job at a time. All
// processes that share the stores do this independently; leases in BatchStore prevent two processes from doing the same
// work. Event-loop thread only.

import { performance } from 'node:perf_hooks';
import { ApiError } from '../../shared/errors.js';
import { base62 } from '../../shared/ids.js';
import { CLAIMED_CHARACTERS } from '../../storage/batch-store.js';
import type { Batch } from '../../storage/batch-store.js';
import { runJob, type JobDeps } from './jobs.js';
import { LineRunner, type LineRunnerDeps } from './line-runner.js';

/** Polling interval, in ms, for work created by other threads or processes. */
const POLL_MS = 1_000;
/** Minimum delay in ms before a failed job is retried. */
const JOB_AGAIN_MS = 5_000;
/** Minimum interval in ms between two counts of all lines for the metrics. */
const COUNT_MS = 5_000;
/** Maximum number of lines claimed in one transaction. */
const CLAIMED_AT_ONCE = 16;

export interface BatchRunnerDeps extends LineRunnerDeps, JobDeps {
  /** Maximum number of lines that this process runs concurrently. */
  readonly concurrency: number;
  /** Returns the number of interactive requests in the queues of all engines. */
  readonly waiting: () => number;
  /** Receives the numbers of running and waiting lines of all organizations, for the metrics. */
  readonly report: (counts: { running: number; waiting: number }) => void;
  /** Notifies webhooks that a batch has ended. A failure is harmless, because the webhook dispatcher also polls. */
  readonly ended: (id: string) => Promise<void>;
  /** Whether new work may be started. */
  readonly isOpen: () => boolean;
}

export class BatchRunner {
  /** Random ID of this process in leases. A restarted process has a new ID. */
  readonly #owner = base62(16);
  readonly #lines: LineRunner;
  readonly #timer: NodeJS.Timeout;
  /** Maps IDs of organizations and batches whose lines must wait to the end of the delay (performance.now()). */
  readonly #delayed = new Map<string, number>();
  #round: Promise<void> | null = null;
  #again = false;
  #job: Promise<void> | null = null;
  #countedAt = -Infinity;
  #isClosed = false;

  constructor(private readonly deps: BatchRunnerDeps) {
    this.#lines = new LineRunner(
      deps,
      () => this.wake(),
      (id, delayMs) => this.#delayed.set(id, performance.now() + delayMs),
    );
    this.#timer = setInterval(() => this.wake(), POLL_MS).unref();
  }

  /**
   * Releases the lines that an earlier process on the same data directory was running, so that they can be claimed.
   * Does nothing with PostgreSQL, where leases expire instead.
   */
  async takeOver(): Promise<void> {
    await this.deps.batches.releaseOthers(this.#owner);
    this.wake();
  }

  /** Starts looking for work. If a search is already running, repeats it afterwards. */
  wake(): void {
    if (this.#isClosed) return;
    this.#again = true;
    this.#round ??= this.#rounds().finally(() => {
      this.#round = null;
    });
  }

  /**
   * Stops claiming lines, and stops and releases the running ones. Must be called before the engines end their
   * requests; otherwise, truncated responses would be stored as results.
   */
  drain(): void {
    this.#isClosed = true;
    clearInterval(this.#timer);
    this.#lines.releaseAll();
  }

  async close(): Promise<void> {
    this.drain();
    await this.#round;
    await this.#lines.close();
    await this.#job;
  }

  async #rounds(): Promise<void> {
    while (this.#again && this.#isOpen) {
      this.#again = false;
      try {
        await this.deps.batches.expire();
        await this.#claimJob();
        await this.#claimLines();
        await this.#count();
      } catch (error) {
        this.#failed(error, 'cannot look for work on batches');
      }
    }
  }

  get #isOpen(): boolean {
    return !this.#isClosed && this.deps.isOpen();
  }

  async #claimJob(): Promise<void> {
    if (this.#job !== null) return;
    const { batches, leaseMs } = this.deps;
    const batch = await batches.claimJob(this.#owner, leaseMs);
    if (batch === null) return;
    this.#job = this.#runJob(batch).finally(() => {
      this.#job = null;
      this.wake();
    });
  }

  async #runJob(batch: Batch): Promise<void> {
    const { batches, leaseMs } = this.deps;
    const renewing = setInterval(() => {
      batches
        .renewJob(batch.id, this.#owner, leaseMs)
        .catch((err: unknown) => this.#failed(err, "cannot renew a batch's lease"));
    }, leaseMs / 3).unref();
    try {
      const again = await runJob(this.deps, batch);
      if (again !== null) await batches.releaseJob(batch.id, this.#owner, again);
      else await this.#reportEnd(batch);
    } catch (error) {
      this.#failed(error, 'work on a batch failed and will be repeated');
      const delayMs = Math.max(JOB_AGAIN_MS, (error instanceof ApiError ? error.retryAfterMs : null) ?? 0);
      await batches.releaseJob(batch.id, this.#owner, delayMs).catch(() => undefined); // or the lease expires
    } finally {
      clearInterval(renewing);
    }
  }

  async #reportEnd({ id, organizationId }: Batch): Promise<void> {
    if ((await this.deps.batches.get(organizationId, id))?.phase !== 'ended') return;
    await this.deps.ended(id).catch(() => undefined);
  }

  async #claimLines(): Promise<void> {
    const { batches, concurrency, leaseMs } = this.deps;
    while (this.#isOpen && !this.#mustYield) {
      const limit = Math.min(CLAIMED_AT_ONCE, concurrency - this.#lines.size);
      if (limit <= 0) return;
      const claimed = await batches.claim(this.#owner, limit, leaseMs, this.#delayedNow());
      for (const line of claimed) this.#lines.run(line);
      const characters = claimed.reduce((sum, { body }) => sum + body.length, 0);
      if (claimed.length < limit && characters < CLAIMED_CHARACTERS) return;
    }
  }

  async #count(): Promise<void> {
    if (performance.now() - this.#countedAt < COUNT_MS) return;
    this.#countedAt = performance.now();
    this.deps.report(await this.deps.batches.counts());
  }

  #delayedNow(): ReadonlySet<string> {
    const now = performance.now();
    for (const [id, until] of this.#delayed) if (until <= now) this.#delayed.delete(id);
    return new Set(this.#delayed.keys());
  }

  /** Whether an interactive request is waiting for an engine. */
  get #mustYield(): boolean {
    return this.deps.waiting() > 0;
  }

  /**
   * Logs an error. ApiErrors are skipped, because they come from the database and the storage layer has already
   * logged them.
   */
  #failed(err: unknown, message: string): void {
    if (!(err instanceof ApiError)) this.deps.log.error({ err }, message);
  }
}
