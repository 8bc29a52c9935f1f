// Storage port for API keys (see docs/internals/storage.md): create, change, rotate, revoke, list. Each method is one
// transaction, including its audit entry, and is durable when it resolves. Other organizations' keys are treated as
// unknown. Caches (key-store.ts) are notified of a change once it is durable.

import type { LimitOverride } from '../config/kinds.js';
import { apiError } from '../shared/errors.js';
import type { Scope } from '../shared/identity.js';
import type { Role } from '../shared/wire/organizations.js';
import type { Actor } from './audit.js';
import { ALL_SCOPES, keyStatus, revokedNow, timeOf } from './keys.js';
import type { KeyRecord } from './keys.js';
import { hasRole } from './members.js';
import type { Page } from './page.js';
import { isServiceAccountId } from './service-accounts.js';

/** Maximum number of valid keys per organization. */
export const MAX_ACTIVE_KEYS = 1_000;
/**
 * Maximum number of keys per organization, including expired and revoked ones. Beyond that, the oldest expired and
 * revoked keys are deleted.
 */
export const MAX_KEPT_KEYS = 2_000;

export const MAX_OVERLAP_S = 30 * 86_400;
export const DEFAULT_OVERLAP_S = 86_400;

export interface NewKey {
  name: string;
  models?: string[] | undefined;
  scopes?: Scope[] | undefined;
  limits?: Record<string, LimitOverride> | null | undefined;
  expiresAt?: Date | null | undefined;
  createdBy?: string | null | undefined;
  /**
   * The service account that owns the key; replaces `createdBy`. `by`: the user who creates the key; null if it is
   * not created by a user.
   */
  serviceAccount?: { readonly id: string; readonly by: string | null } | undefined;
  allowedAddresses?: readonly string[] | undefined;
  temporary?: boolean | undefined;
}

/** The key properties that can be changed. */
export interface KeyChange {
  name?: string | undefined;
  models?: string[] | undefined;
  scopes?: Scope[] | undefined;
  limits?: Record<string, LimitOverride> | null | undefined;
  expiresAt?: Date | null | undefined;
  allowedAddresses?: readonly string[] | undefined;
}

export interface CreatedKey {
  key: KeyRecord;
  secret: string;
}

export interface ApiKeys {
  get(organizationId: string, id: string): Promise<KeyRecord | null>;
  /** The keys of all organizations, oldest first. For the command line. */
  all(): Promise<KeyRecord[]>;
  /** Newest first. `after`: ID of the previous page's last key. Null if the organization does not have that key. */
  page(organizationId: string, limit: number, after: string | null): Promise<Page<KeyRecord> | null>;
  /**
   * The secret is not stored. If `createdBy` is set, rejects with ApiError 403 unless that user is at least a developer
   * at that time. If `serviceAccount` is set, rejects with ApiError 403 unless `by` is an admin and the service account
   * is at least a developer. Can also reject with ApiError 404 or 422.
   */
  create(organizationId: string, fields: NewKey, actor: Actor | null): Promise<CreatedKey>;
  /**
   * Like create(), but only if no organization has a key. If several callers run concurrently, only one of them gets
   * the key. Resolves to null if a key already exists.
   */
  first(organizationId: string, fields: NewKey): Promise<CreatedKey | null>;
  /** Registers a key that the operator has chosen as valid, unless it is registered already. */
  accept(organizationId: string, name: string, secret: string): Promise<void>;
  /** Returns null if the key is not found. Rejects with ApiError 422 if the key is revoked. */
  change(organizationId: string, id: string, change: KeyChange, actor: Actor): Promise<KeyRecord | null>;
  /**
   * Creates a successor with the same permissions; the old key stays valid for `overlapS` seconds. If `createdBy` is
   * absent or a service account owns the key, the successor keeps the old key's creator. If `createdBy` is set, rejects
   * with ApiError 403 unless that user may create keys at that time. Null if not found. Rejects with ApiError 422 if
   * the key has expired or is revoked.
   */
  rotate(
    organizationId: string,
    id: string,
    overlapS: number,
    actor: Actor,
    createdBy: string | null,
  ): Promise<CreatedKey | null>;
  /**
   * Revokes a key; its row is kept. Idempotent. Returns null if the key is not found. If `actor` is absent, no audit
   * entry is written.
   */
  revoke(organizationId: string, id: string, actor: Actor | null): Promise<KeyRecord | null>;
}

// Rules shared by all implementations of the port.

/** Checks that a user may create API keys. `own`: the user's role. Throws ApiError 403. */
export function checkMaker(own: Role | undefined): void {
  if (own === undefined || !hasRole(own, 'developer'))
    throw apiError('role_not_allowed', 'Creating an API key requires the developer role.');
}

/** Checks that the user `by` may change the key. `own`: the user's role, at least developer. Throws ApiError 403. */
export function checkChanger(own: Role | undefined, by: string, key: KeyRecord): void {
  if (own === undefined || (!hasRole(own, 'admin') && key.createdBy !== by))
    throw apiError('role_not_allowed', 'With the developer role, you can only change keys that you created.');
}

export const tooManyKeys = (): Error =>
  apiError('too_many_entries', `An organization can have at most ${MAX_ACTIVE_KEYS} valid API keys. Revoke one first.`);

/**
 * The key after a change. Throws ApiError 422 if it is revoked, or if making it valid again would exceed the maximum
 * number of valid keys.
 */
export function changedKey(key: KeyRecord, change: KeyChange, activeKeys: () => number, now: number): KeyRecord {
  const status = keyStatus(key, new Date(now));
  if (status === 'revoked')
    throw apiError('invalid_value', 'This API key has been revoked and cannot be changed.', 'id');
  if (status === 'expired' && change.expiresAt !== undefined && activeKeys() >= MAX_ACTIVE_KEYS) throw tooManyKeys();
  const { expiresAt, ...others } = given(change);
  return { ...key, ...others, ...(expiresAt === undefined ? {} : { expiresAt: expiresAt?.toISOString() ?? null }) };
}

/** Throws ApiError 422. */
export function checkRotating(key: KeyRecord, now: Date): void {
  const status = keyStatus(key, now);
  if (status !== 'active')
    throw apiError(
      'invalid_value',
      `This API key ${status === 'revoked' ? 'has been revoked' : 'has expired'} and cannot be rotated. Create a new one.`,
      'id',
    );
}

/** The record of a new key. */
export function newKeyRecord(
  organizationId: string,
  fields: NewKey,
  { id, secret, publicId, hash }: { id: string; secret: string; publicId: string | null; hash: Uint8Array },
): KeyRecord {
  return {
    id,
    organizationId,
    createdBy: fields.serviceAccount?.id ?? fields.createdBy ?? null,
    name: fields.name,
    publicId,
    last4: secret.slice(-4),
    hash,
    models: fields.models ?? ['*'],
    scopes: fields.scopes ?? [...ALL_SCOPES],
    limits: fields.limits ?? null,
    expiresAt: fields.expiresAt?.toISOString() ?? null,
    lastUsedAt: null,
    createdAt: new Date().toISOString(),
    revokedAt: null,
    rotatedFrom: null,
    ...(fields.allowedAddresses === undefined ? {} : { allowedAddresses: fields.allowedAddresses }),
    ...(fields.temporary === true ? { temporary: true } : {}),
  };
}

/** The rotated key's successor, and the rotated key's own record after the rotation. */
export function successorOf(
  key: KeyRecord,
  made: { id: string; secret: string; publicId: string; hash: Uint8Array; createdBy: string | null },
  overlapS: number,
  now: Date,
): { next: KeyRecord; before: KeyRecord } {
  const { temporary: _temporary, ...kept } = key; // the successor stays
  const next: KeyRecord = {
    ...kept,
    id: made.id,
    createdBy: isServiceAccountId(key.createdBy) ? key.createdBy : (made.createdBy ?? key.createdBy),
    publicId: made.publicId,
    last4: made.secret.slice(-4),
    hash: made.hash,
    createdAt: now.toISOString(),
    lastUsedAt: null,
    revokedAt: null,
    rotatedFrom: key.id,
  };
  if (overlapS === 0) return { next, before: revokedNow(key, now.getTime()) };
  const end = Math.min(timeOf(key.revokedAt), now.getTime() + overlapS * 1000);
  return { next, before: { ...key, revokedAt: new Date(end).toISOString() } };
}

/** Returns a copy without undefined properties. */
export function given<T extends object>(values: T): { [K in keyof T]?: Exclude<T[K], undefined> } {
  return Object.fromEntries(Object.entries(values).filter(([, value]) => value !== undefined)) as {
    [K in keyof T]?: Exclude<T[K], undefined>;
  };
}
