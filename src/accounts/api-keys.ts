// API keys: made, changed, rotated, revoked, listed. A port, see docs/internals/storage.md: each method is one unit of work, with
// what the audit log says of it, durable when it resolves. Isolated by organization: another's key is unknown. What
// changes is told to who looks keys up (key-store.ts), after it is durable.

import type { LimitOverride } from '../config/kinds.js';
import { apiError } from '../shared/errors.js';
import type { Scope } from '../shared/identity.js';
import type { Role } from '../shared/wire/dashboard.js';
import type { Actor } from './audit.js';
import { ALL_SCOPES, keyStatus, revokedNow, timeOf } from './keys.js';
import type { KeyRecord } from './keys.js';
import { hasRole } from './members.js';
import type { Slice } from './slice.js';

/** Keys of one organization that are valid at once. */
export const MAX_ACTIVE_KEYS = 1_000;
/** With those that are not any more: past it the oldest of these go. */
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
}

/** What of a key can be changed. */
export interface KeyChange {
  name?: string | undefined;
  models?: string[] | undefined;
  scopes?: Scope[] | undefined;
  limits?: Record<string, LimitOverride> | null | undefined;
  expiresAt?: Date | null | undefined;
}

export interface CreatedKey {
  key: KeyRecord;
  secret: string;
}

export interface ApiKeys {
  get(organizationId: string, id: string): Promise<KeyRecord | null>;
  /** Of every organization, oldest first: for the command line. */
  all(): Promise<KeyRecord[]>;
  /** Youngest first. `after`: the id of the last one before; null if it is none of the organization's. */
  page(organizationId: string, limit: number, after: string | null): Promise<Slice<KeyRecord> | null>;
  /** The secret is not kept. With `createdBy`: rejects with ApiError 403 unless that is a developer or more of it then. Rejects with ApiError 422 `too_many_entries`. */
  create(organizationId: string, fields: NewKey, actor: Actor | null): Promise<CreatedKey>;
  /** As create(), if there is no key at all, of any organization: of many who ask at once one gets it. Null: there is one. */
  first(organizationId: string, fields: NewKey): Promise<CreatedKey | null>;
  /** Makes a key of the operator's choice valid, unless it is one already. */
  accept(organizationId: string, name: string, secret: string): Promise<void>;
  /** Null if there is no such key. Rejects with ApiError 422 if it has ended. */
  change(organizationId: string, id: string, change: KeyChange, actor: Actor): Promise<KeyRecord | null>;
  /**
   * A successor with the same permissions; the old key stays valid for `overlapS` seconds. Without `createdBy` it is
   * its creator's, as the old one; with it: rejects with ApiError 403 unless they may then. Null if there is no such key. Rejects
   * with ApiError 422 if it has ended.
   */
  rotate(
    organizationId: string,
    id: string,
    overlapS: number,
    actor: Actor,
    createdBy: string | null,
  ): Promise<CreatedKey | null>;
  /** The row stays. Idempotent. Null if there is no such key. Without `actor` nothing is noted. */
  revoke(organizationId: string, id: string, actor: Actor | null): Promise<KeyRecord | null>;
}

// What holds whoever keeps the keys.

/** Throws ApiError 403. `own`: the role of who makes a key. */
export function checkMaker(own: Role | undefined): void {
  if (own === undefined || !hasRole(own, 'developer'))
    throw apiError('role_not_allowed', 'Making an API key needs the role developer.');
}

/** Throws ApiError 403. `own`: the role of `by`, a developer or more, who changes it. */
export function checkChanger(own: Role | undefined, by: string, key: KeyRecord): void {
  if (own === undefined || (!hasRole(own, 'admin') && key.createdBy !== by))
    throw apiError('role_not_allowed', 'With the role developer only the keys one has created can be changed.');
}

export const tooManyKeys = (): Error =>
  apiError('too_many_entries', `An organization may have ${MAX_ACTIVE_KEYS} valid API keys. Revoke one first.`);

/** What a key becomes. Throws ApiError 422 if it has ended, or is revived where there are enough already. */
export function changedKey(key: KeyRecord, change: KeyChange, activeKeys: () => number, now: number): KeyRecord {
  const status = keyStatus(key, new Date(now));
  if (status === 'revoked')
    throw apiError('invalid_value', 'This API key has been revoked: nothing of it can be changed.', 'id');
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
      `This API key ${status === 'revoked' ? 'has been revoked' : 'has expired'}: it cannot be rotated. Create a new one.`,
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
    createdBy: fields.createdBy ?? null,
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
  };
}

/** What follows a key that is rotated, and what becomes of it. */
export function successorOf(
  key: KeyRecord,
  made: { id: string; secret: string; publicId: string; hash: Uint8Array; createdBy: string | null },
  overlapS: number,
  now: Date,
): { next: KeyRecord; before: KeyRecord } {
  const next: KeyRecord = {
    ...key,
    id: made.id,
    createdBy: made.createdBy ?? key.createdBy,
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

/** Without the properties that are undefined. */
export function given<T extends object>(values: T): { [K in keyof T]?: Exclude<T[K], undefined> } {
  return Object.fromEntries(Object.entries(values).filter(([, value]) => value !== undefined)) as {
    [K in keyof T]?: Exclude<T[K], undefined>;
  };
}
