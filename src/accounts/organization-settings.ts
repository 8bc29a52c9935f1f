// What an operator set for an organization, beside the general settings. Owns the table
// `organization-settings`, keyed by organization; without a row, everything is as the settings have it.

import type { LimitOverride } from '../config/kinds.js';
import type { Store, Table } from '../storage/store.js';

export interface OrganizationSettings {
  /** By model or `*`. */
  limits: Record<string, LimitOverride>;
  /** Tokens per calendar month (UTC); null: no cap. */
  monthlyTokenCap: number | null;
}

const NONE: OrganizationSettings = Object.freeze({ limits: Object.freeze({}), monthlyTokenCap: null });

export class OrganizationSettingsTable {
  private readonly rows: Table<OrganizationSettings>;

  constructor(store: Store) {
    this.rows = store.table('organization-settings');
  }

  get(organizationId: string): OrganizationSettings {
    return this.rows.get(organizationId) ?? NONE;
  }

  put(organizationId: string, settings: OrganizationSettings): Promise<void> {
    return this.rows.put(organizationId, settings);
  }

  /** Within a transaction. */
  remove(organizationId: string): void {
    void this.rows.remove(organizationId);
  }
}
