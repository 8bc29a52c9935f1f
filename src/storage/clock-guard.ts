// Prevents data with a retention period from being erased when the wall clock jumps ahead. The wall-clock time is
// stored every hour. If the clock is more than a day ahead of the stored time plus the elapsed time, no data is erased
// until servers have run for six more hours, an operator confirms the time (`monolith data sweep --confirm`), or the
// clock is correct again. There is one guard per process, used only on its event loop.

import { performance } from 'node:perf_hooks';
import type { ErasureHold } from '../shared/erasure-hold.js';
import type { EraseGate } from './erase-gate.js';

const HOUR_MS = 3_600_000;
export const MAX_AHEAD_MS = 24 * HOUR_MS;
export const HOLD_MS = 6 * HOUR_MS;
const TICK_MS = 60_000;

/** The stored record. */
export interface ClockRecord {
  /** The last trusted wall-clock time, in milliseconds since the Unix epoch. */
  readonly wall: number;
  /** How long servers have run since the wall clock was found to be ahead, in milliseconds; null if it is not ahead. */
  readonly heldMs: number | null;
}

/** Stored in the data directory or in the database that several servers share. */
export interface ClockRecords {
  /** Milliseconds since the Unix epoch, by the clock that decides when retention periods end. */
  now(): number;
  read(): Promise<ClockRecord | null>;
  write(record: ClockRecord): Promise<void>;
}

export interface ClockGuardOptions {
  hold: ErasureHold;
  /** Called when erasing is suspended or, with null, when it is allowed again. */
  onHeld: (held: { aheadMs: number; stored: Date } | null) => void;
  /** Called when the record cannot be read or written. Retried every minute. */
  onError: (error: unknown) => void;
  /** Monotonic milliseconds. */
  elapsed?: () => number;
}

export class ClockGuard implements EraseGate {
  readonly #listeners = new Set<() => void>();
  readonly #elapsed: () => number;
  readonly #timer: NodeJS.Timeout;
  /** The last trusted wall-clock time, and the monotonic time of that reading. */
  #wall: number;
  #wallAt: number;
  /**
   * While erasing is suspended: when the suspension started (monotonic clock), and how long servers had already run
   * before that.
   */
  #held: { since: number; beforeMs: number } | null = null;
  /**
   * The record as this process last saw it. If the stored record differs, another process or an operator has written
   * it.
   */
  #stored: ClockRecord | null;
  #storedAt: number;
  #work: Promise<void> = Promise.resolve();
  #failing = false;

  private constructor(
    private readonly records: ClockRecords,
    stored: ClockRecord | null,
    private readonly options: ClockGuardOptions,
  ) {
    this.#elapsed = options.elapsed ?? (() => performance.now());
    this.#stored = stored;
    this.#wall = stored?.wall ?? records.now();
    this.#wallAt = this.#storedAt = this.#elapsed();
    this.#timer = setInterval(() => void this.tick(), TICK_MS).unref();
  }

  /** Must be called before any sweep. Rejects if the record cannot be read. */
  static async open(records: ClockRecords, options: ClockGuardOptions): Promise<ClockGuard> {
    const guard = new ClockGuard(records, await records.read(), options);
    guard.allows();
    await guard.#store().catch(options.onError);
    return guard;
  }

  allows(): boolean {
    const elapsed = this.#elapsed();
    const aheadMs = this.records.now() - (this.#wall + elapsed - this.#wallAt);
    if (aheadMs <= MAX_AHEAD_MS) this.#trust(elapsed);
    else if (this.#held === null) this.#begin(aheadMs, elapsed);
    else if (this.#ranMs(elapsed) >= HOLD_MS) this.#trust(elapsed);
    if (this.#held !== null) this.options.hold.held = { aheadMs, leftMs: HOLD_MS - this.#ranMs(elapsed) };
    return this.#held === null;
  }

  onAllowed(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /** Must be called every minute. Picks up a confirmation, and stores the clock once an hour. Never rejects. */
  tick(): Promise<void> {
    return (this.#work = this.#work
      .then(async () => {
        await this.#learn();
        this.allows();
        if (this.#elapsed() - this.#storedAt >= HOUR_MS) await this.#store();
      })
      .then(
        () => {
          this.#failing = false;
        },
        (error: unknown) => {
          if (!this.#failing) this.options.onError(error);
          this.#failing = true;
        },
      ));
  }

  /** Stores the clock, so that the next startup can compare against it. */
  async close(): Promise<void> {
    clearInterval(this.#timer);
    await this.#work;
    this.allows();
    await this.#store().catch(this.options.onError);
  }

  /** Trusts the current wall clock. */
  #trust(elapsed: number): void {
    this.#wall = this.records.now();
    this.#wallAt = elapsed;
    if (this.#held === null) return;
    this.#held = null;
    this.options.hold.held = null;
    this.options.onHeld(null);
    this.#work = this.#work.then(() => this.#store()).catch(this.options.onError);
    for (const listener of [...this.#listeners]) listener();
  }

  #begin(aheadMs: number, elapsed: number): void {
    this.#held = { since: elapsed, beforeMs: this.#stored?.heldMs ?? 0 };
    this.options.onHeld({ aheadMs, stored: new Date(this.#wall) });
  }

  #ranMs(elapsed: number): number {
    return this.#held === null ? 0 : this.#held.beforeMs + elapsed - this.#held.since;
  }

  /** Adopts a time that another process trusts or that an operator has confirmed. */
  async #learn(): Promise<void> {
    const record = await this.records.read();
    if (record === null || record.wall === this.#stored?.wall) return;
    this.#stored = record;
    if (record.heldMs !== null) return;
    this.#wall = record.wall;
    this.#wallAt = this.#elapsed();
  }

  async #store(): Promise<void> {
    const elapsed = this.#elapsed();
    const record: ClockRecord =
      this.#held === null
        ? { wall: this.records.now(), heldMs: null }
        : { wall: this.#wall, heldMs: this.#ranMs(elapsed) };
    await this.records.write(record);
    this.#stored = record;
    this.#storedAt = elapsed;
  }
}
