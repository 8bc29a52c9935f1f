// Implements PriceStore on the `prices` table, which has one row, and on the audit log.

import type { AuditNote } from '../../../accounts/audit.js';
import type { LmdbAuditLog } from '../accounts/audit-log.js';
import type { Store, Table } from '../../store.js';
import type { PriceTable } from '../../../shared/wire/usage.js';
import type { PriceStore } from '../../../usage/price-store.js';

const ROW = 'all';

export class LmdbPriceStore implements PriceStore {
  readonly #rows: Table<PriceTable>;

  constructor(
    private readonly store: Store,
    private readonly audit: Pick<LmdbAuditLog, 'note'>,
  ) {
    this.#rows = store.table('prices');
  }

  async get(): Promise<PriceTable | null> {
    return this.#rows.get(ROW) ?? null;
  }

  set(prices: PriceTable | null, { actor, action, detail }: AuditNote): Promise<void> {
    return this.store.transaction(() => {
      if (prices === null) void this.#rows.remove(ROW);
      else void this.#rows.put(ROW, prices);
      void this.audit.note(null, actor, action, null, detail);
    });
  }
}
