// API keys as data: the stored record and the displayed object. The secret is never stored, only an HMAC of its
// SHA-256, keyed by a secret in the database, so that guesses cannot be checked against the `keys` table alone.

import { createHmac, hash } from 'node:crypto';
import type { LimitOverride } from '../config/kinds.js';
import type { ApiKeyObject } from '../shared/wire/api-keys.js';
import type { Scope } from '../shared/identity.js';

export const ALL_SCOPES: readonly Scope[] = [
  'inference',
  'responses.read',
  'responses.delete',
  'models.read',
  'tokens.count',
  'files.read',
  'files.write',
  'batches',
];

export interface Organization {
  id: string; // org_…
  // unique 32-bit number that identifies the organization to the engine; named like the on-disk field
  tenant: number;
  name: string;
  status: 'active' | 'suspended';
  createdAt: string; // RFC 3339
  /**
   * Time of deletion. A deleted organization is permanently suspended and hidden. Its row is kept, so that its number
   * is never reused.
   */
  deletedAt?: string | null;
  /** Whether a deleted organization's stored data has been erased. */
  erased?: boolean;
  /** Whether a deleted organization's keys have been erased too, so that only this row is left. */
  keysErased?: boolean;
}

export interface KeyRecord {
  id: string; // key_…
  organizationId: string;
  /** user_… or, for a key of a service account, svc_…; null if created on the command line or at the first startup. */
  createdBy: string | null;
  name: string;
  publicId: string | null; // the 8 characters after sk-; null for a configured key
  last4: string;
  hash: Uint8Array; // keyedHash() of the whole key
  models: string[]; // ['*'] or names
  scopes: Scope[];
  /**
   * The key's own limits, by model or `*`, which apply in addition to the organization's limits. Null if it has none.
   */
  limits: Record<string, LimitOverride> | null;
  expiresAt: string | null;
  lastUsedAt: string | null;
  createdAt: string;
  /**
   * The time of the revocation, for display only. After a rotation, this is the end of the overlap during which the old
   * and the new key are both valid.
   */
  revokedAt: string | null;
  /**
   * Whether the key is permanently revoked, regardless of any clock. Absent if the key is not revoked, or if it expires
   * at the end of a rotation's overlap.
   */
  revoked?: boolean;
  rotatedFrom: string | null;
  /** IP addresses and CIDR ranges from which the key may be used. Absent or empty allows all addresses. */
  allowedAddresses?: readonly string[];
  /**
   * Whether a command such as `monolith chat` created the key for its own requests. Such a key is revoked when the
   * command ends.
   */
  temporary?: boolean;
}

/** The key object shown in the dashboard and on the command line. Never contains the secret. */
export function keyObject(key: KeyRecord, now: Date): ApiKeyObject {
  return {
    id: key.id,
    organization_id: key.organizationId,
    created_by: key.createdBy,
    name: key.name,
    prefix: key.publicId === null ? null : `sk-${key.publicId}`,
    last4: key.last4,
    status: keyStatus(key, now),
    models: key.models,
    scopes: key.scopes,
    limits: key.limits as ApiKeyObject['limits'],
    expires_at: key.expiresAt,
    last_used_at: key.lastUsedAt,
    created_at: key.createdAt,
    revoked_at: key.revokedAt,
    rotated_from: key.rotatedFrom,
    allowed_addresses: [...(key.allowedAddresses ?? [])],
    temporary: key.temporary === true,
  };
}

/** Whether lists show a key by default. Temporary keys are shown only while they are valid. */
export const isListed = (key: KeyRecord, now: Date): boolean =>
  key.temporary !== true || keyStatus(key, now) === 'active';

/** Marks audit entries about temporary keys. */
export const temporaryDetail = ({ temporary }: KeyRecord): { temporary?: true } =>
  temporary === true ? { temporary } : {};

export function keyStatus(
  key: Pick<KeyRecord, 'revoked' | 'revokedAt' | 'expiresAt'>,
  now: Date,
): 'active' | 'expired' | 'revoked' {
  if (key.revoked === true || timeOf(key.revokedAt) <= now.getTime()) return 'revoked';
  if (timeOf(key.expiresAt) <= now.getTime()) return 'expired';
  return 'active';
}

/**
 * The record after an immediate revocation. The flag takes effect as soon as a process reads it; the time is only for
 * display.
 */
export const revokedNow = (key: KeyRecord, now: number): KeyRecord => ({
  ...key,
  revoked: true,
  revokedAt: new Date(Math.min(timeOf(key.revokedAt), now)).toISOString(),
});

/** Milliseconds since the Unix epoch; Infinity = never. */
export const timeOf = (date: string | null): number => (date === null ? Infinity : Date.parse(date));

/** SHA-256 of a key in hexadecimal. The key cache is indexed by this digest, so it does not contain the key itself. */
export const keyDigest = (key: string): string => hash('sha256', key, 'hex');

/**
 * The stored hash of a key. Computed from the digest, so that rows of earlier releases, which contained only the
 * digest, could be upgraded.
 */
export const keyedHash = (secret: Uint8Array, digest: Uint8Array): Buffer =>
  createHmac('sha256', secret).update(digest).digest();
