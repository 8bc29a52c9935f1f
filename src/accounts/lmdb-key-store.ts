// KeyStore over the tables of keys, organizations and their settings, all read in one turn of the event loop.

import type { Identity } from '../identity/identity.js';
import type { Store, Table } from '../storage/store.js';
import type { ApiKeys } from './api-keys.js';
import type { KeyHolder, KeyStore } from './key-store.js';
import { timeOf } from './keys.js';
import type { KeyRecord, Organization } from './keys.js';
import type { OrganizationSettings, OrganizationSettingsTable } from './organization-settings.js';

export class LmdbKeyStore implements KeyStore {
  readonly #organizations: Table<Organization>;

  constructor(store: Store, private readonly keys: ApiKeys, private readonly settings: OrganizationSettingsTable) {
    this.#organizations = store.table('organizations');
  }

  async find(digest: string): Promise<KeyHolder | undefined> {
    const key = this.keys.findByDigest(digest);
    const organization = key === undefined ? undefined : this.#organizations.get(key.organizationId);
    if (key === undefined || organization === undefined) return undefined;
    const isDeleted = (organization.deletedAt ?? null) !== null;
    return {
      // What an organization that is gone had are revoked keys.
      keyId: key.id, revokedAt: isDeleted ? 0 : timeOf(key.revokedAt), expiresAt: timeOf(key.expiresAt), suspended: organization.status === 'suspended',
      identity: identityFor(organization, this.settings.get(organization.id), key),
    };
  }

  noteLastUsed(times: Iterable<readonly [keyId: string, at: number]>): Promise<void> {
    return this.keys.noteLastUsed(times);
  }
}

export function identityFor({ id, tenant }: Organization, { limits, monthlyTokenCap }: OrganizationSettings, key: Pick<KeyRecord, 'id' | 'models' | 'scopes' | 'limits'>): Identity {
  return Object.freeze({
    organizationId: id, organizationNumber: tenant, keyId: key.id,
    models: Object.freeze([...key.models]), scopes: Object.freeze([...key.scopes]),
    limits, keyLimits: key.limits, monthlyTokenCap,
  });
}
