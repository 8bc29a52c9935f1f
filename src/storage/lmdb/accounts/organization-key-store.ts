// Implements OrganizationKeyStore on the `secrets` table.

import type { OrganizationKeyStore } from '../../../accounts/sealing/organization-key-store.js';
import type { Store, Table } from '../../store.js';

const nameOf = (organizationId: string): string => `page-key ${organizationId}`;

export class LmdbOrganizationKeyStore implements OrganizationKeyStore {
  readonly #rows: Table<string>;

  constructor(private readonly store: Store) {
    this.#rows = store.table('secrets');
  }

  async keyOf(organizationId: string, made: string): Promise<string> {
    await this.#rows.insert(nameOf(organizationId), made);
    return this.#rows.get(nameOf(organizationId)) ?? made;
  }

  replace(organizationId: string, before: string, after: string): Promise<void> {
    return this.store.transaction(() => {
      if (this.#rows.get(nameOf(organizationId)) === before) void this.#rows.put(nameOf(organizationId), after);
    });
  }

  async erase(organizationId: string): Promise<void> {
    await this.#rows.remove(nameOf(organizationId));
  }
}
