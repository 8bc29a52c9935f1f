// Implements KeyStore on the keys and organizations tables. A lookup is a single statement that uses a single index.

import type { KeyEnds, KeyHolder, KeyStore, Standing } from '../../../accounts/key-store.js';
import { AddressList } from '../../../shared/address-list.js';
import { identityFor } from '../../../accounts/key-store.js';
import { keyedHash } from '../../../accounts/keys.js';
import type { KeyRecord, Organization } from '../../../accounts/keys.js';
import { besides, ORGANIZATION_BESIDE, organizationOf, settingsOf } from './organization-rows.js';
import { secretOf } from './secret-rows.js';
import type { Value } from '../database.js';
import type { AccountWork } from './work.js';

interface Ends {
  revoked: boolean;
  revoked_at: number | null;
  expires_at: number | null;
  disabled: boolean;
}
interface Standings extends Ends {
  status: Organization['status'];
  deleted_at: number | null;
  id: string | null;
}
interface Found extends Ends {
  id: string;
  models: string[];
  scopes: KeyRecord['scopes'];
  limits: KeyRecord['limits'];
  allowed_addresses: string[];
}

/** SQL expression: the key belongs to a service account that is disabled. */
const DISABLED = `(api_keys.created_by LIKE 'svc\\_%' AND NOT EXISTS (
  SELECT 1 FROM service_accounts WHERE service_accounts.id = api_keys.created_by AND NOT service_accounts.disabled))`;

export class PostgresKeyStore implements KeyStore {
  #secret: Buffer | undefined;

  constructor(private readonly work: AccountWork) {}

  async find(digest: string): Promise<KeyHolder | undefined> {
    this.#secret ??= await secretOf(this.work.sql, 'api-keys'); // cached, because it never changes
    if (this.#secret === undefined) return undefined; // no key exists yet
    return this.#holder('api_keys.hash = $1', [keyedHash(this.#secret, Buffer.from(digest, 'hex'))]);
  }

  findById(organizationId: string, keyId: string): Promise<KeyHolder | undefined> {
    return this.#holder('api_keys.organization_id = $1 AND api_keys.id = $2', [organizationId, keyId]);
  }

  /** `condition`: SQL that selects at most one key. */
  async #holder(condition: string, values: readonly Value[]): Promise<KeyHolder | undefined> {
    const [row] = await this.work.sql.query<Found>(
      `SELECT api_keys.id, api_keys.revoked, api_keys.revoked_at, api_keys.expires_at, api_keys.models, api_keys.scopes, api_keys.limits, api_keys.allowed_addresses, ${DISABLED} AS disabled, ${ORGANIZATION_BESIDE}
       FROM api_keys JOIN organizations ON organizations.id = api_keys.organization_id WHERE ${condition}`,
      values,
    );
    if (row === undefined) return undefined;
    const organization = besides(row);
    return {
      // The keys of a deleted organization count as revoked.
      ...endsOf(row),
      keyId: row.id,
      revoked: row.revoked || organization.deleted_at !== null,
      suspended: organization.status === 'suspended',
      addresses: AddressList.of(row.allowed_addresses),
      identity: identityFor(organizationOf(organization), settingsOf(organization), row),
    };
  }

  async standing(organizationId: string, keyIds: readonly string[]): Promise<Standing> {
    const rows = await this.work.sql.query<Standings>(
      `SELECT organizations.status, organizations.deleted_at, api_keys.id, api_keys.revoked, api_keys.revoked_at, api_keys.expires_at, ${DISABLED} AS disabled
       FROM organizations LEFT JOIN api_keys ON api_keys.organization_id = organizations.id AND api_keys.id = ANY($2) WHERE organizations.id = $1`,
      [organizationId, keyIds],
    );
    const [first] = rows;
    return {
      organization: first === undefined || first.deleted_at !== null ? 'gone' : first.status,
      keys: new Map(rows.flatMap((row) => (row.id === null ? [] : [[row.id, endsOf(row)] as const]))),
    };
  }

  async noteLastUsed(times: Iterable<readonly [keyId: string, at: number]>): Promise<void> {
    const sorted = [...times].sort(([a], [b]) => (a < b ? -1 : 1)); // sorted, so that rows are locked in a fixed order
    await this.work.sql.execute(
      `UPDATE api_keys SET last_used_at = used.at FROM (SELECT id, at FROM unnest($1::text[], $2::bigint[]) AS given (id, at)) AS used
       WHERE api_keys.id = used.id AND (api_keys.last_used_at IS NULL OR api_keys.last_used_at < used.at)`,
      [sorted.map(([id]) => id), sorted.map(([, at]) => at)],
    );
  }
}

const endsOf = (row: Ends): KeyEnds => ({
  revoked: row.revoked,
  overlapEndsAt: row.revoked_at ?? Infinity,
  expiresAt: row.expires_at ?? Infinity,
  disabled: row.disabled,
});
