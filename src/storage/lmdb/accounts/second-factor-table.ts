// The `second-factors` table, keyed by user. Methods that write must be called within a transaction.

import type { Store, Table } from '../../store.js';
import type { SecondFactor } from '../../../accounts/second-factors.js';

export interface SecondFactorRow {
  /** Null if two-factor authentication is off. */
  readonly factor: SecondFactor | null;
  /** A proposed secret that has not been confirmed yet. */
  readonly proposal: { readonly sealed: string; readonly until: number } | null; // milliseconds
}

const NONE: SecondFactorRow = Object.freeze({ factor: null, proposal: null });

export class SecondFactorTable {
  private readonly rows: Table<SecondFactorRow>;

  constructor(store: Store) {
    this.rows = store.table('second-factors');
  }

  get(userId: string): SecondFactorRow {
    return this.rows.get(userId) ?? NONE;
  }

  userIds(): string[] {
    return [...this.rows.keys()].map(String);
  }

  put(userId: string, row: SecondFactorRow): void {
    void this.rows.put(userId, row);
  }

  remove(userId: string): void {
    void this.rows.remove(userId);
  }
}
