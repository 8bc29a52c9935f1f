// API keys as data: what is stored of one, and what is shown. The secret itself is never stored: it has 238
// random bits, so a plain SHA-256 cannot be reversed by guessing.

import { createHash } from 'node:crypto';
import type { Scope } from '../http/exchange.js';

export const ALL_SCOPES: readonly Scope[] = ['inference', 'responses.read', 'responses.delete', 'models.read', 'tokens.count'];

export interface Organization {
  id: string;                  // org_…
  tenant: number;              // 32-bit, unique: names the organization to the engine
  name: string;
  status: 'active' | 'suspended';
  createdAt: string;           // RFC 3339
}

export interface KeyRecord {
  id: string;                  // key_…
  organizationId: string;
  createdBy: string | null;    // user_…; null: the command line or first start
  name: string;
  publicId: string | null;     // the 8 characters after sk-; null for a chosen key
  last4: string;
  hash: Uint8Array;            // SHA-256 of the whole key
  models: string[];            // ['*'] or names
  scopes: Scope[];
  expiresAt: string | null;
  lastUsedAt: string | null;
  createdAt: string;
  revokedAt: string | null;
  rotatedFrom: string | null;
}

/** The key object of the dashboard and the command line; never the secret. */
export function keyObject(key: KeyRecord, now: Date): Record<string, unknown> {
  return {
    id: key.id, organization_id: key.organizationId, created_by: key.createdBy, name: key.name,
    prefix: key.publicId === null ? null : `sk-${key.publicId}`, last4: key.last4, status: keyStatus(key, now),
    models: key.models, scopes: key.scopes, expires_at: key.expiresAt, last_used_at: key.lastUsedAt,
    created_at: key.createdAt, revoked_at: key.revokedAt, rotated_from: key.rotatedFrom,
  };
}

export function keyStatus(key: KeyRecord, now: Date): 'active' | 'expired' | 'revoked' {
  if (key.revokedAt !== null && Date.parse(key.revokedAt) <= now.getTime()) return 'revoked';
  if (key.expiresAt !== null && Date.parse(key.expiresAt) <= now.getTime()) return 'expired';
  return 'active';
}

export function hashKey(secret: string): Buffer {
  return createHash('sha256').update(secret, 'utf8').digest();
}
