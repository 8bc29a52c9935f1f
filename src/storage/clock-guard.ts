// Keeps a wall clock that has jumped ahead from erasing what is kept for a number of days. The wall clock is stored every hour. Where
// it is more than a day ahead of the stored value plus the time that has run since, nothing is erased until six more hours have run, or
// an operator confirms the time (`monolith data sweep --confirm`), or the clock is right again. One per process; its event loop only.

import { performance } from 'node:perf_hooks';
import type { ErasureHold } from '../shared/erasure-hold.js';
import type { EraseGate } from './erase-gate.js';

const HOUR_MS = 3_600_000;
export const MOST_AHEAD_MS = 24 * HOUR_MS;
export const HOLD_MS = 6 * HOUR_MS;
const TICK_MS = 60_000;

/** What is stored. */
export interface ClockRecord {
  /** Milliseconds since 1970: the last time that was trusted. */
  readonly wall: number;
  /** How long servers have run since the wall clock was found ahead of it, in milliseconds; null: it is not. */
  readonly heldMs: number | null;
}

/** In the data folder, or in the database that several servers share. */
export interface ClockRecords {
  /** Milliseconds since 1970, by the clock that sweeps go by. */
  now(): number;
  read(): Promise<ClockRecord | null>;
  write(record: ClockRecord): Promise<void>;
}

export interface ClockGuardOptions {
  hold: ErasureHold;
  /** Erasing has been stopped, or (null) is allowed again. */
  onHeld: (held: { aheadMs: number; stored: Date } | null) => void;
  /** The record cannot be read or written; it is tried again every minute. */
  onError: (error: unknown) => void;
  /** Monotonic milliseconds. */
  elapsed?: () => number;
}

export class ClockGuard implements EraseGate {
  readonly #listeners = new Set<() => void>();
  readonly #elapsed: () => number;
  readonly #timer: NodeJS.Timeout;
  /** The last trusted wall clock, and the monotonic clock at that moment. */
  #wall: number;
  #wallAt: number;
  /** While held: since when, of the monotonic clock, and how long servers had run by then. */
  #held: { since: number; beforeMs: number } | null = null;
  /** The record as this process knows it: another one in its place is another process's word, or an operator's. */
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

  /** Before anything is swept. Rejects if the record cannot be read. */
  static async open(records: ClockRecords, options: ClockGuardOptions): Promise<ClockGuard> {
    const guard = new ClockGuard(records, await records.read(), options);
    guard.allows();
    await guard.#store().catch(options.onError);
    return guard;
  }

  allows(): boolean {
    const elapsed = this.#elapsed();
    const aheadMs = this.records.now() - (this.#wall + elapsed - this.#wallAt);
    if (aheadMs <= MOST_AHEAD_MS) this.#trust(elapsed);
    else if (this.#held === null) this.#begin(aheadMs, elapsed);
    else if (this.#ranMs(elapsed) >= HOLD_MS) this.#trust(elapsed);
    if (this.#held !== null) this.options.hold.held = { aheadMs, leftMs: HOLD_MS - this.#ranMs(elapsed) };
    return this.#held === null;
  }

  onAllowed(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /** Every minute: learns of a confirmation, and stores the clock if an hour has passed. Never rejects. */
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

  /** Stores the clock, so that the next start begins from here. */
  async close(): Promise<void> {
    clearInterval(this.#timer);
    await this.#work;
    this.allows();
    await this.#store().catch(this.options.onError);
  }

  /** The clock as it is now. */
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

  /** What others have stored since: a time that they trust, or that an operator has confirmed. */
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
