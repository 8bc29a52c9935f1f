// Where API keys are looked up: a port, see docs/internals/storage.md. key-cache.ts stands in front of it.

import type { Identity } from '../shared/identity.js';
import type { KeyRecord, Organization } from './keys.js';
import type { OrganizationSettings } from './organizations.js';

/** Who a key speaks for, and until when. */
export interface KeyHolder {
  readonly keyId: string;
  /** For good: no clock is consulted. */
  readonly revoked: boolean;
  readonly overlapEndsAt: number; // milliseconds since 1970; Infinity: never
  readonly expiresAt: number;
  readonly suspended: boolean;
  /** With the permissions of the key, and the limits of the key and its organization. */
  readonly identity: Identity;
}

/** What decides whether a key is valid at a time. */
export type KeyEnds = Pick<KeyHolder, 'revoked' | 'overlapEndsAt' | 'expiresAt'>;

/** An organization and those of its keys that have running requests. */
export interface Standing {
  readonly organization: 'active' | 'suspended' | 'gone';
  /** Without those that are no keys of the organization (any more). */
  readonly keys: ReadonlyMap<string, KeyEnds>;
}

export interface KeyStore {
  /** As they are now, in one read. */
  standing(organizationId: string, keyIds: readonly string[]): Promise<Standing>;
  /** The key with this digest, see keyDigest(), as it is now; in constant work. */
  find(digest: string): Promise<KeyHolder | undefined>;
  /** Key → milliseconds. One that is known to have been used later keeps that time. */
  noteLastUsed(times: Iterable<readonly [keyId: string, at: number]>): Promise<void>;
}

export function identityFor(
  { id, tenant }: Organization,
  { limits, monthlyTokenCap, keepsText }: OrganizationSettings,
  key: Pick<KeyRecord, 'id' | 'models' | 'scopes' | 'limits'>,
): Identity {
  return Object.freeze({
    organizationId: id,
    organizationNumber: tenant,
    keyId: key.id,
    models: Object.freeze([...key.models]),
    scopes: Object.freeze([...key.scopes]),
    limits,
    keyLimits: key.limits,
    monthlyTokenCap,
    keepsText: keepsText === true,
  });
}

/** Why a key is refused at time `now`, in milliseconds; null if it is valid. */
export function keyRefusal(
  { revoked, overlapEndsAt, expiresAt }: KeyEnds,
  now: number,
): 'api_key_revoked' | 'api_key_expired' | null {
  if (revoked || overlapEndsAt <= now) return 'api_key_revoked';
  return expiresAt <= now ? 'api_key_expired' : null;
}
