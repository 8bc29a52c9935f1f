// Tokens that an organization with a cap has used this calendar month (UTC): one counter in shared memory. It starts
// from the stored usage, so it survives restarts. Safe to call from any thread.
//
// The record also contains the month. The first thread that finds an old month in the record claims the new one by
// storing a negative number while it reads the stored usage. Tokens used in the meantime are already counted. Other
// threads wait until the month is set, and claim it themselves after a timeout. Once the month is set, calls are
// synchronous.

import { setTimeout as sleep } from 'node:timers/promises';
import { FULL } from './record-table.js';
import type { RecordTable } from './record-table.js';
import { recordKey } from './record-key.js';

// If a claim is older than this, the claiming thread may have terminated.
const PATIENCE_MS = 5_000;
const LOOK_MS = 2;
// Each claim on a month gets a new number, so that an abandoned claim can be recognized.
const CLAIMS = 1_000;

/** Returns 202611 for November 2026. */
export function monthNumber(ms: number): number {
  const date = new Date(ms);
  return date.getUTCFullYear() * 100 + date.getUTCMonth() + 1;
}

/** Returns the month's name in storage, such as `2026-11`. */
export const monthName = (month: number): string =>
  `${Math.floor(month / 100)}-${String(month % 100).padStart(2, '0')}`;

/** The start of the month after the one that contains `ms`. */
export function nextMonth(ms: number): Date {
  const date = new Date(ms);
  return new Date(Date.UTC(date.getUTCFullYear(), date.getUTCMonth() + 1, 1));
}

/** Reads an organization's stored tokens for a month. */
export type StoredMonth = (organizationId: string, month: string) => Promise<number>;

const claimOf = (month: number, attempt: number): number => -(month * CLAIMS + (attempt % CLAIMS));
const isClaimOf = (state: number, month: number): boolean => state < 0 && Math.floor(-state / CLAIMS) === month;

export class MonthUse {
  /** By organization: the month whose counter this thread is starting or waiting for. */
  private readonly beginning = new Map<string, Promise<void>>();

  constructor(
    private readonly table: RecordTable,
    private readonly stored: StoredMonth,
    private readonly wall: () => number,
    private readonly patienceMs = PATIENCE_MS,
  ) {}

  /**
   * Returns the tokens used, or null if the table is full. Returns a promise if the number is not known yet; the caller
   * must call again after it has resolved.
   */
  used(organizationId: string): number | Promise<void> | null {
    const record = this.table.enter(recordKey('month', organizationId), 1, null);
    if (record <= FULL) return null;
    try {
      if (this.table.month(record) === monthNumber(this.wall())) return Number(this.table.load(record, 'tokens'));
      return this.begin(organizationId);
    } finally {
      this.table.leave(record, 1);
    }
  }

  /**
   * If the organization has no cap, tokens are counted only if a counter exists. The organization then had a cap and
   * may get one again this month.
   */
  add(organizationId: string, tokens: number, capped = true): void {
    const key = recordKey('month', organizationId);
    if (!capped && this.table.find(key) < 0) return;
    const record = this.table.enter(key, 1, null);
    if (record <= FULL) return;
    try {
      // Starts the month before these tokens are added and recorded as usage. If this fails, the next request with a
      // cap tries again.
      const month = monthNumber(this.wall());
      const state = this.table.month(record);
      if (state !== month && !isClaimOf(state, month)) this.begin(organizationId).catch(() => undefined);
      this.table.add(record, 'tokens', BigInt(tokens));
    } finally {
      this.table.leave(record, 1);
    }
  }

  /** Replaces the local count with the count from the shared counters. */
  saw(organizationId: string, tokens: number): void {
    const record = this.table.enter(recordKey('month', organizationId), 1, null);
    if (record <= FULL) return;
    try {
      const month = monthNumber(this.wall());
      const claim = this.claim(record, month, false);
      if (claim === null && this.table.month(record) !== month) return; // another thread is starting it
      this.table.store(record, 'tokens', BigInt(Math.round(tokens)));
      if (claim !== null) this.table.turnMonth(record, claim, month);
    } finally {
      this.table.leave(record, 1);
    }
  }

  private begin(organizationId: string): Promise<void> {
    let begun = this.beginning.get(organizationId);
    if (begun === undefined) {
      begun = this.beginOnce(organizationId).finally(() => this.beginning.delete(organizationId));
      this.beginning.set(organizationId, begun);
    }
    return begun;
  }

  private async beginOnce(organizationId: string): Promise<void> {
    // pins the record until the month's counter has started
    const record = this.table.enter(recordKey('month', organizationId), 1, null);
    if (record <= FULL) return;
    try {
      const month = monthNumber(this.wall());
      const claim = this.claim(record, month, false);
      if (claim === null) await this.claimed(organizationId, record, month);
      else await this.load(organizationId, record, month, claim);
    } finally {
      this.table.leave(record, 1);
    }
  }

  /**
   * Claims the month and returns the claim. Returns null if another thread has claimed the month or its counter has
   * already started. `restart`: takes over another thread's claim.
   */
  private claim(record: number, month: number, restart: boolean): number | null {
    const found = this.table.month(record);
    if (found === month) return null;
    if (isClaimOf(found, month)) {
      const next = claimOf(month, (-found % CLAIMS) + 1);
      return restart && this.table.turnMonth(record, found, next) ? next : null;
    }
    const before = this.table.load(record, 'tokens');
    const claim = claimOf(month, 0);
    if (!this.table.turnMonth(record, found, claim)) return null;
    this.table.add(record, 'tokens', -before); // tokens from another month
    return claim;
  }

  private async load(organizationId: string, record: number, month: number, claim: number): Promise<void> {
    try {
      const stored = BigInt(Math.round(await this.stored(organizationId, monthName(month))));
      this.table.add(record, 'tokens', stored);
      // another thread has started it
      if (!this.table.turnMonth(record, claim, month)) this.table.add(record, 'tokens', -stored);
    } catch (error) {
      this.table.turnMonth(record, claim, 0);
      throw error;
    }
  }

  /** Waits for the thread that claimed the month. */
  private async claimed(organizationId: string, record: number, month: number): Promise<void> {
    for (const since = performance.now(); performance.now() - since < this.patienceMs; ) {
      if (!isClaimOf(this.table.month(record), month)) return;
      await sleep(LOOK_MS);
    }
    const claim = this.claim(record, month, true);
    if (claim !== null) await this.load(organizationId, record, month, claim);
  }
}
