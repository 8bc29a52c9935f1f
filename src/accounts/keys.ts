// API keys as data: what is stored of one, and what is shown. The secret itself is never stored, only an
// HMAC of its SHA-256 under a secret of the database: whoever reads the table `keys` alone can test no guess.

import { createHmac, hash } from 'node:crypto';
import type { LimitOverride } from '../config/kinds.js';
import type { ApiKeyObject } from '../shared/wire/dashboard.js';
import type { Scope } from '../shared/identity.js';

export const ALL_SCOPES: readonly Scope[] = [
  'inference',
  'responses.read',
  'responses.delete',
  'models.read',
  'tokens.count',
];

export interface Organization {
  id: string; // org_…
  tenant: number; // the organization's number, 32-bit and unique, under the name it has on disk: names the organization to the engine
  name: string;
  status: 'active' | 'suspended';
  createdAt: string; // RFC 3339
  /** Since when it is deleted: suspended for good, shown to nobody. The row stays, so that its number is never given again. */
  deletedAt?: string | null;
  /** Of a deleted one, nothing it had stored is left. */
  erased?: boolean;
  /** Nor are its keys: nothing but this row. */
  keysErased?: boolean;
}

export interface KeyRecord {
  id: string; // key_…
  organizationId: string;
  createdBy: string | null; // user_…; null: the command line or first start
  name: string;
  publicId: string | null; // the 8 characters after sk-; null for a chosen key
  last4: string;
  hash: Uint8Array; // keyedHash() of the whole key
  models: string[]; // ['*'] or names
  scopes: Scope[];
  /** By model or `*`, besides the organization's; null: none. */
  limits: Record<string, LimitOverride> | null;
  expiresAt: string | null;
  lastUsedAt: string | null;
  createdAt: string;
  /** For display, except after a rotation: there it is the end of the overlap, during which old and new key are both valid. */
  revokedAt: string | null;
  /** Revoked for good, whatever any clock shows. Absent on keys that are not, and on keys whose overlap has a set end. */
  revoked?: boolean;
  rotatedFrom: string | null;
}

/** The key object of the dashboard and the command line; never the secret. */
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
  };
}

export function keyStatus(
  key: Pick<KeyRecord, 'revoked' | 'revokedAt' | 'expiresAt'>,
  now: Date,
): 'active' | 'expired' | 'revoked' {
  if (key.revoked === true || timeOf(key.revokedAt) <= now.getTime()) return 'revoked';
  if (timeOf(key.expiresAt) <= now.getTime()) return 'expired';
  return 'active';
}

/** A key that is revoked now. Processes obey the flag as soon as they read it; the time is for display. */
export const revokedNow = (key: KeyRecord, now: number): KeyRecord => ({
  ...key,
  revoked: true,
  revokedAt: new Date(Math.min(timeOf(key.revokedAt), now)).toISOString(),
});

/** Milliseconds since 1970; Infinity: never. */
export const timeOf = (date: string | null): number => (date === null ? Infinity : Date.parse(date));

/** SHA-256 of a key in hexadecimal: what a presented key is remembered by. */
export const keyDigest = (key: string): string => hash('sha256', key, 'hex');

/** What is stored of a key. Of the digest, so that rows which held nothing else could be brought up to date. */
export const keyedHash = (secret: Uint8Array, digest: Uint8Array): Buffer =>
  createHmac('sha256', secret).update(digest).digest();
