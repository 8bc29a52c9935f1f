// Implements OrganizationKeyStore on the shared database's secrets. All processes share the same keys.

import type { OrganizationKeyStore } from '../../../accounts/sealing/organization-key-store.js';
import type { Database } from '../database.js';

const nameOf = (organizationId: string): string => `page-key ${organizationId}`;

export class PostgresOrganizationKeyStore implements OrganizationKeyStore {
  constructor(private readonly sql: Database) {}

  async keyOf(organizationId: string, made: string): Promise<string> {
    const name = nameOf(organizationId);
    await this.sql.execute('INSERT INTO secrets (name, value) VALUES ($1, $2) ON CONFLICT (name) DO NOTHING', [
      name,
      Buffer.from(made),
    ]);
    const [row] = await this.sql.query<{ value: Buffer }>('SELECT value FROM secrets WHERE name = $1', [name]);
    return row === undefined ? made : row.value.toString('utf8');
  }

  async replace(organizationId: string, before: string, after: string): Promise<void> {
    await this.sql.execute('UPDATE secrets SET value = $3 WHERE name = $1 AND value = $2', [
      nameOf(organizationId),
      Buffer.from(before),
      Buffer.from(after),
    ]);
  }

  async erase(organizationId: string): Promise<void> {
    await this.sql.execute('DELETE FROM secrets WHERE name = $1', [nameOf(organizationId)]);
  }
}
