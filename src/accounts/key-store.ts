// Storage port for looking up API keys (see docs/internals/storage.md). key-cache.ts caches the results.

import type { AddressList } from '../shared/address-list.js';
import type { Identity } from '../shared/identity.js';
import type { KeyRecord, Organization } from './keys.js';
import type { OrganizationSettings } from './organizations.js';

/** The identity that a key stands for, and when the key expires. */
export interface KeyHolder {
  readonly keyId: string;
  /** Whether the key is permanently revoked, regardless of any clock. */
  readonly revoked: boolean;
  readonly overlapEndsAt: number; // milliseconds since the Unix epoch; Infinity: never
  readonly expiresAt: number;
  /** Whether the key belongs to a disabled service account. */
  readonly disabled: boolean;
  readonly suspended: boolean;
  /** The addresses from which the key may be used; null = all. */
  readonly addresses: AddressList | null;
  /** The identity includes the key's permissions, and the limits of the key and its organization. */
  readonly identity: Identity;
}

/** The fields of a key that determine whether it is valid at a given time. */
export type KeyEnds = Pick<KeyHolder, 'revoked' | 'overlapEndsAt' | 'expiresAt' | 'disabled'>;

/** An organization, and those of its keys that have running requests. */
export interface Standing {
  readonly organization: 'active' | 'suspended' | 'gone';
  /** Omits IDs that are not, or are no longer, keys of the organization. */
  readonly keys: ReadonlyMap<string, KeyEnds>;
}

export interface KeyStore {
  /** The current state, in a single read. */
  standing(organizationId: string, keyIds: readonly string[]): Promise<Standing>;
  /**
   * Returns the current state of the key with this digest (see keyDigest()). Takes constant time, regardless of the
   * number of keys.
   */
  find(digest: string): Promise<KeyHolder | undefined>;
  /** Reads the stored state of one of the organization's keys. Resolves to undefined if the key is unknown. */
  findById(organizationId: string, keyId: string): Promise<KeyHolder | undefined>;
  /** `times`: last-use time in milliseconds, by key ID. A stored time that is later is kept. */
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

/** Why a key is refused at time `now` (in milliseconds); null if it is valid. */
export function keyRefusal(
  { revoked, overlapEndsAt, expiresAt, disabled }: KeyEnds,
  now: number,
): 'api_key_revoked' | 'api_key_expired' | 'service_account_disabled' | null {
  if (revoked || overlapEndsAt <= now) return 'api_key_revoked';
  if (expiresAt <= now) return 'api_key_expired';
  return disabled ? 'service_account_disabled' : null;
}
