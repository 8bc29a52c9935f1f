// An organization's settings that override the general ones. Owns the `organization-settings` table, keyed by
// organization; without a row, the general settings apply.

import type { Store, Table } from '../../store.js';
import { NO_SETTINGS } from '../../../accounts/organizations.js';
import type { OrganizationSettings } from '../../../accounts/organizations.js';

export class SettingsTable {
  private readonly rows: Table<OrganizationSettings>;

  constructor(store: Store) {
    this.rows = store.table('organization-settings');
  }

  get(organizationId: string): OrganizationSettings {
    return this.rows.get(organizationId) ?? NO_SETTINGS;
  }

  /** Must be called within a transaction. */
  put(organizationId: string, settings: OrganizationSettings): void {
    void this.rows.put(organizationId, settings);
  }

  /** Must be called within a transaction. */
  remove(organizationId: string): void {
    void this.rows.remove(organizationId);
  }
}
