// Decides when this process works on batches: it claims lines while fewer than the configured number run and no
// interactive request waits, and does at most one job on a batch at a time. All processes that share the stores do this
// independently; the leases in BatchStore keep them apart. Event-loop thread only.

import { performance } from 'node:perf_hooks';
import { ApiError } from '../../shared/errors.js';
import { base62 } from '../../shared/ids.js';
import type { Batch } from '../../storage/batch-store.js';
import { runJob, type JobDeps } from './jobs.js';
import { LineRunner, type LineRunnerDeps } from './line-runner.js';

/** Work that other threads or processes have created is found this often. */
const POLL_MS = 1_000;
/** A job that failed is tried again after this time. */
const JOB_AGAIN_MS = 5_000;
/** Lines are counted this often, for the metrics. */
const COUNT_MS = 5_000;
/** Lines claimed in one transaction. */
const CLAIMED_AT_ONCE = 16;

export interface BatchRunnerDeps extends LineRunnerDeps, JobDeps {
  /** Maximum number of lines that run concurrently. */
  readonly concurrency: number;
  /** Number of requests that wait for an engine, including lines. */
  readonly waiting: () => number;
  /** Receives the number of lines that run and that wait, of all organizations. */
  readonly report: (counts: { running: number; waiting: number }) => void;
  /** Reports that the end of a batch is stored. A failure is harmless: the end is found later. */
  readonly ended: (id: string) => Promise<void>;
  /** Whether new work may be started. */
  readonly isOpen: () => boolean;
}

export class BatchRunner {
  /** Identifies this process in leases. Never reused. */
  readonly #owner = base62(16);
  readonly #lines: LineRunner;
  readonly #timer: NodeJS.Timeout;
  /** IDs of organizations and batches whose lines are not claimed, and until when, on the monotonic clock. */
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

  /** Makes the lines that earlier processes on the same data directory were running available again. */
  async takeOver(): Promise<void> {
    await this.deps.batches.releaseOthers(this.#owner);
    this.wake();
  }

  /** Looks for work soon. */
  wake(): void {
    if (this.#isClosed) return;
    this.#again = true;
    this.#round ??= this.#rounds().finally(() => {
      this.#round = null;
    });
  }

  /**
   * Stops claiming lines and releases those that are running. Call this before an engine ends its requests, because
   * their truncated responses would otherwise be stored.
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
        .catch((err: unknown) => this.#failed(err, 'cannot renew the lease of a batch'));
    }, leaseMs / 3).unref();
    try {
      const again = await runJob(this.deps, batch);
      if (again !== null) await batches.releaseJob(batch.id, this.#owner, again);
      else await this.#reportEnd(batch);
    } catch (error) {
      this.#failed(error, 'work on a batch failed and will be repeated');
      await batches.releaseJob(batch.id, this.#owner, JOB_AGAIN_MS).catch(() => undefined); // or the lease expires
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
      if (claimed.length < limit) return;
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

  /** Whether an interactive request waits for an engine. */
  get #mustYield(): boolean {
    return this.deps.waiting() > this.#lines.queued;
  }

  /** Errors of the database arrive as ApiErrors, which the storage has already logged. */
  #failed(err: unknown, message: string): void {
    if (!(err instanceof ApiError)) this.deps.log.error({ err }, message);
  }
}
