// Tokens an organization has used this calendar month (UTC), for those that have a cap: one number in shared
// memory, begun from what usage recording has stored, so it survives the process. Any thread.
//
// The month is in the record too. Who first sees another one turns it to its negative, reads what is stored
// and makes it positive; the others wait those microseconds, or go on without after a while.

import { FULL } from './record-table.js';
import type { RecordTable } from './record-table.js';
import { recordKey } from './record-key.js';

const PATIENCE_MS = 100;

/** 202611 for November 2026. */
export function monthNumber(ms: number): number {
  const date = new Date(ms);
  return date.getUTCFullYear() * 100 + date.getUTCMonth() + 1;
}

/** `2026-11`: how stored sums name it. */
export const monthName = (month: number): string => `${Math.floor(month / 100)}-${String(month % 100).padStart(2, '0')}`;

/** When the month after that of `ms` begins. */
export function nextMonth(ms: number): Date {
  const date = new Date(ms);
  return new Date(Date.UTC(date.getUTCFullYear(), date.getUTCMonth() + 1, 1));
}

/** Tokens stored of an organization's month. */
export type StoredMonth = (organizationId: string, month: string) => number;

export class MonthUse {
  constructor(private readonly table: RecordTable, private readonly stored: StoredMonth, private readonly wall: () => number) {}

  /** Null: nothing can be said now. */
  used(organizationId: string): number | null {
    return this.withRecord(organizationId, (record) => Number(this.table.load(record, 'tokens')));
  }

  /** Who has no cap is counted only if counting has begun: they had one, and may have one again this month. */
  add(organizationId: string, tokens: number, capped = true): void {
    if (!capped && this.table.find(recordKey('month', organizationId)) < 0) return;
    this.withRecord(organizationId, (record) => this.table.add(record, 'tokens', BigInt(tokens)));
  }

  private withRecord<T>(organizationId: string, work: (record: number) => T): T | null {
    const record = this.table.enter(recordKey('month', organizationId), 1, null);
    if (record <= FULL) return null;
    try {
      this.begin(record, organizationId);
      return work(record);
    } finally {
      this.table.leave(record, 1);
    }
  }

  private begin(record: number, organizationId: string): void {
    const month = monthNumber(this.wall());
    for (let since: number | null = null; ;) {
      const found = this.table.month(record);
      if (found === month) return;
      if (found === -month) {
        since ??= performance.now();
        if (performance.now() - since < PATIENCE_MS) continue;
      }
      if (!this.table.turnMonth(record, found, -month)) continue;
      try {
        this.table.store(record, 'tokens', BigInt(Math.round(this.stored(organizationId, monthName(month)))));
      } finally {
        this.table.turnMonth(record, -month, month);
      }
      return;
    }
  }
}
