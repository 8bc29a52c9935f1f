// Upgrades API keys. From schema version 4 to 5, replaces their plain SHA-256 hashes with keyed ones, and adds a list
// of keys per organization. From version 7 to 8, sets a flag on revoked keys. From version 11 to 12, adds the scopes of
// files and batches. This file describes versions 5, 8 and 12 and must not change, even if the current code in
// src/accounts does.

import { createHmac, randomBytes } from 'node:crypto';
import type { Store } from '../store.js';

interface KeyRow {
  id: string;
  scopes: string[];
  organizationId: string;
  hash: Uint8Array;
  limits?: unknown;
  createdAt: string;
  expiresAt: string | null;
  revokedAt: string | null;
  revoked?: boolean;
}

const timeOf = (date: string | null): number => (date === null ? Infinity : Date.parse(date));

/** Must be called within a transaction. */
export function keyTheHashes(store: Store): void {
  const rows = store.table<KeyRow>('keys');
  const byHash = store.table<string>('keys-by-hash');
  const byOrganization = store.table<number | null>('keys-by-organization');
  const secret = new Uint8Array(randomBytes(32));
  void store.table<Uint8Array>('secrets').put('api-keys', secret);
  for (const id of [...rows.keys()]) {
    const key = rows.get(id) as KeyRow;
    const hash = createHmac('sha256', secret).update(key.hash).digest();
    void byHash.remove(Buffer.from(key.hash).toString('hex'));
    void byHash.put(hash.toString('hex'), key.id);
    void rows.put(id, { ...key, hash: new Uint8Array(hash), limits: key.limits ?? null });
    const end = Math.min(timeOf(key.revokedAt), timeOf(key.expiresAt));
    void byOrganization.put([key.organizationId, Date.parse(key.createdAt), key.id], end === Infinity ? null : end);
  }
}

/** Must be called within a transaction. */
export function flagRevokedKeys(store: Store, now = Date.now()): void {
  const rows = store.table<KeyRow>('keys');
  const byOrganization = store.table<number | null>('keys-by-organization');
  for (const id of [...rows.keys()]) {
    const key = rows.get(id) as KeyRow;
    if (timeOf(key.revokedAt) > now) continue;
    void rows.put(id, { ...key, revoked: true });
    void byOrganization.put([key.organizationId, Date.parse(key.createdAt), key.id], 0);
  }
}

const SCOPES_BEFORE_FILES = ['inference', 'responses.read', 'responses.delete', 'models.read', 'tokens.count'];

/** Adds the scopes of files and batches to keys that have all earlier scopes. Must be called within a transaction. */
export function addFileScopes(store: Store): void {
  const rows = store.table<KeyRow>('keys');
  for (const id of [...rows.keys()]) {
    const key = rows.get(id) as KeyRow;
    if (SCOPES_BEFORE_FILES.every((scope) => key.scopes.includes(scope)))
      void rows.put(id, { ...key, scopes: [...key.scopes, 'files.read', 'files.write', 'batches'] });
  }
}
