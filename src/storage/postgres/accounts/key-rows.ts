// API key rows, which are found by keyed hash and listed by organization. Functions that write must be called within a
// transaction.

import type { Queryable } from '../database.js';
import { MAX_ACTIVE_KEYS, MAX_KEPT_KEYS, tooManyKeys } from '../../../accounts/api-keys.js';
import type { KeyRecord } from '../../../accounts/keys.js';
import { dateOf, dateOrNull, msOrNull } from './times.js';

export interface KeyRow {
  id: string;
  organization_id: string;
  created_by: string | null;
  name: string;
  public_id: string | null;
  last4: string;
  hash: Buffer;
  models: string[];
  scopes: KeyRecord['scopes'];
  limits: KeyRecord['limits'];
  expires_at: number | null;
  last_used_at: number | null;
  created_at: number;
  revoked_at: number | null;
  revoked: boolean;
  rotated_from: string | null;
  temporary: boolean;
  allowed_addresses: string[];
}

export const KEY_COLUMNS =
  'id, organization_id, created_by, name, public_id, last4, hash, models, scopes, limits, expires_at, last_used_at, created_at, revoked_at, revoked, rotated_from, temporary, allowed_addresses';
/** SQL condition: the key is valid at time $2. */
export const VALID =
  'NOT revoked AND (revoked_at IS NULL OR revoked_at > $2) AND (expires_at IS NULL OR expires_at > $2)';

export const keyOf = (row: KeyRow): KeyRecord => ({
  id: row.id,
  organizationId: row.organization_id,
  createdBy: row.created_by,
  name: row.name,
  publicId: row.public_id,
  last4: row.last4,
  hash: new Uint8Array(row.hash),
  models: row.models,
  scopes: row.scopes,
  limits: row.limits,
  expiresAt: dateOrNull(row.expires_at),
  lastUsedAt: dateOrNull(row.last_used_at),
  createdAt: dateOf(row.created_at),
  revokedAt: dateOrNull(row.revoked_at),
  ...(row.revoked ? { revoked: true } : {}),
  rotatedFrom: row.rotated_from,
  ...(row.temporary ? { temporary: true } : {}),
  ...(row.allowed_addresses.length > 0 ? { allowedAddresses: row.allowed_addresses } : {}),
});

/** Resolves to undefined if the key does not exist or belongs to another organization. */
export async function keyById(sql: Queryable, organizationId: string, id: string): Promise<KeyRecord | undefined> {
  const [row] = await sql.query<KeyRow>(`SELECT ${KEY_COLUMNS} FROM api_keys WHERE organization_id = $1 AND id = $2`, [
    organizationId,
    id,
  ]);
  return row === undefined ? undefined : keyOf(row);
}

/** Number of currently valid keys. */
export async function countValidKeys(sql: Queryable, organizationId: string, now: number): Promise<number> {
  return (
    (
      await sql.query<{ count: number }>(`SELECT count(*) FROM api_keys WHERE organization_id = $1 AND ${VALID}`, [
        organizationId,
        now,
      ])
    )[0]?.count ?? 0
  );
}

/** Inserts or updates a key. */
export async function putKey(sql: Queryable, key: KeyRecord): Promise<void> {
  await sql.query(
    `INSERT INTO api_keys (${KEY_COLUMNS}) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18)
     ON CONFLICT (id) DO UPDATE SET name = excluded.name, models = excluded.models, scopes = excluded.scopes, limits = excluded.limits,
       expires_at = excluded.expires_at, revoked_at = excluded.revoked_at, revoked = excluded.revoked, allowed_addresses = excluded.allowed_addresses`,
    [
      key.id,
      key.organizationId,
      key.createdBy,
      key.name,
      key.publicId,
      key.last4,
      key.hash,
      JSON.stringify(key.models),
      JSON.stringify(key.scopes),
      key.limits === null ? null : JSON.stringify(key.limits),
      msOrNull(key.expiresAt),
      msOrNull(key.lastUsedAt),
      Date.parse(key.createdAt),
      msOrNull(key.revokedAt),
      key.revoked === true,
      key.rotatedFrom,
      key.temporary === true,
      JSON.stringify(key.allowedAddresses ?? []),
    ],
  );
}

/** Makes room for one more key. Rejects with ApiError 422. */
export async function makeRoomForKey(sql: Queryable, organizationId: string, now: number): Promise<void> {
  if ((await countValidKeys(sql, organizationId, now)) >= MAX_ACTIVE_KEYS) throw tooManyKeys();
  await sql.query(
    `DELETE FROM api_keys WHERE organization_id = $1 AND id IN (
       SELECT id FROM api_keys WHERE organization_id = $1 AND NOT (${VALID}) ORDER BY created_at, id
       LIMIT greatest(0, (SELECT count(*) FROM api_keys WHERE organization_id = $1) + 1 - $3::bigint))`,
    [organizationId, now, MAX_KEPT_KEYS],
  );
}
