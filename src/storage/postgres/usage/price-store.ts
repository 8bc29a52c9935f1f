// Implements PriceStore on the shared database's settings and the audit log.

import type { AuditNote } from '../../../accounts/audit.js';
import { noteSetting } from '../accounts/audit-log.js';
import type { AccountWork } from '../accounts/work.js';
import { putSetting, removeSetting, settingOf } from '../setting-rows.js';
import type { PriceTable } from '../../../shared/wire/usage.js';
import type { PriceStore } from '../../../usage/price-store.js';

const ALL = 'all';

export class PostgresPriceStore implements PriceStore {
  constructor(private readonly work: AccountWork) {}

  async get(): Promise<PriceTable | null> {
    return (await settingOf<PriceTable>(this.work.sql, 'prices', ALL)) ?? null;
  }

  set(prices: PriceTable | null, note: AuditNote): Promise<void> {
    return this.work.change(async (sql) => {
      if (prices === null) await removeSetting(sql, 'prices', ALL);
      else await putSetting(sql, 'prices', ALL, prices);
      await noteSetting(sql, null, note, null);
    });
  }
}
