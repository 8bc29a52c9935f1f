// Tokens an organization has used this calendar month (UTC), for those that have a cap: one number in shared
// memory, begun from what usage recording has stored, so it survives the process. Any thread.
//
// The month is in the record too. Who first sees another one claims the beginning: a number below zero stands there
// while what is stored is looked up, and meanwhile what is used is counted already. The others wait until the month
// stands there, and claim it anew after a while. Once begun, a month's count costs no promise.

import { setTimeout as sleep } from 'node:timers/promises';
import { FULL } from './record-table.js';
import type { RecordTable } from './record-table.js';
import { recordKey } from './record-key.js';

// A thread that has not begun the count by then may have ended.
const PATIENCE_MS = 5_000;
const LOOK_MS = 2;
// Claims of one month differ, so that one that was given up is known as such.
const CLAIMS = 1_000;

/** 202611 for November 2026. */
export function monthNumber(ms: number): number {
  const date = new Date(ms);
  return date.getUTCFullYear() * 100 + date.getUTCMonth() + 1;
}

/** `2026-11`: how stored sums name it. */
export const monthName = (month: number): string =>
  `${Math.floor(month / 100)}-${String(month % 100).padStart(2, '0')}`;

/** When the month after that of `ms` begins. */
export function nextMonth(ms: number): Date {
  const date = new Date(ms);
  return new Date(Date.UTC(date.getUTCFullYear(), date.getUTCMonth() + 1, 1));
}

/** Tokens stored of an organization's month. */
export type StoredMonth = (organizationId: string, month: string) => Promise<number>;

const claimOf = (month: number, attempt: number): number => -(month * CLAIMS + (attempt % CLAIMS));
const isClaimOf = (state: number, month: number): boolean => state < 0 && Math.floor(-state / CLAIMS) === month;

export class MonthUse {
  /** What this thread begins or waits for, by organization. */
  private readonly beginning = new Map<string, Promise<void>>();

  constructor(
    private readonly table: RecordTable,
    private readonly stored: StoredMonth,
    private readonly wall: () => number,
    private readonly patienceMs = PATIENCE_MS,
  ) {}

  /** A promise: of the time when it can be told, ask again then. Null: nothing can be said now. */
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

  /** Who has no cap is counted only if counting has begun: they had one, and may have one again this month. */
  add(organizationId: string, tokens: number, capped = true): void {
    const key = recordKey('month', organizationId);
    if (!capped && this.table.find(key) < 0) return;
    const record = this.table.enter(key, 1, null);
    if (record <= FULL) return;
    try {
      // Before it is counted, which is before it is recorded. If it fails, the next request of a capped one tries again.
      const month = monthNumber(this.wall());
      const state = this.table.month(record);
      if (state !== month && !isClaimOf(state, month)) this.begin(organizationId).catch(() => undefined);
      this.table.add(record, 'tokens', BigInt(tokens));
    } finally {
      this.table.leave(record, 1);
    }
  }

  /** Somebody who counts for all has said how much it is. */
  saw(organizationId: string, tokens: number): void {
    const record = this.table.enter(recordKey('month', organizationId), 1, null);
    if (record <= FULL) return;
    try {
      const month = monthNumber(this.wall());
      const claim = this.claim(record, month, false);
      if (claim === null && this.table.month(record) !== month) return; // another thread begins it
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
    const record = this.table.enter(recordKey('month', organizationId), 1, null); // until it is begun
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

  /** Null: another thread has it, or the month is begun. `anew`: what another thread has claimed is taken from it. */
  private claim(record: number, month: number, anew: boolean): number | null {
    const found = this.table.month(record);
    if (found === month) return null;
    if (isClaimOf(found, month)) {
      const next = claimOf(month, (-found % CLAIMS) + 1);
      return anew && this.table.turnMonth(record, found, next) ? next : null;
    }
    const before = this.table.load(record, 'tokens');
    const claim = claimOf(month, 0);
    if (!this.table.turnMonth(record, found, claim)) return null;
    this.table.add(record, 'tokens', -before); // of another month
    return claim;
  }

  private async load(organizationId: string, record: number, month: number, claim: number): Promise<void> {
    try {
      const stored = BigInt(Math.round(await this.stored(organizationId, monthName(month))));
      this.table.add(record, 'tokens', stored);
      if (!this.table.turnMonth(record, claim, month)) this.table.add(record, 'tokens', -stored); // another thread began it
    } catch (error) {
      this.table.turnMonth(record, claim, 0);
      throw error;
    }
  }

  /** Waits for the thread that has claimed the month. */
  private async claimed(organizationId: string, record: number, month: number): Promise<void> {
    for (const since = performance.now(); performance.now() - since < this.patienceMs; ) {
      if (!isClaimOf(this.table.month(record), month)) return;
      await sleep(LOOK_MS);
    }
    const claim = this.claim(record, month, true);
    if (claim !== null) await this.load(organizationId, record, month, claim);
  }
}
