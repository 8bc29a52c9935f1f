// Implements KeyStore on the keys, organizations and settings tables, which are read in a single event-loop turn.

import { AddressList } from '../../../shared/address-list.js';
import { identityFor } from '../../../accounts/key-store.js';
import type { KeyEnds, KeyHolder, KeyStore, Standing } from '../../../accounts/key-store.js';
import { timeOf } from '../../../accounts/keys.js';
import type { KeyRecord } from '../../../accounts/keys.js';
import type { OrganizationTable } from './organization-table.js';
import { isServiceAccountId } from '../../../accounts/service-accounts.js';
import type { ServiceAccountTable } from './service-account-table.js';
import type { SettingsTable } from './settings-table.js';
import type { LmdbApiKeys } from './api-keys.js';

export class LmdbKeyStore implements KeyStore {
  constructor(
    private readonly keys: LmdbApiKeys,
    private readonly tables: {
      organizations: OrganizationTable;
      settings: SettingsTable;
      serviceAccountTable: ServiceAccountTable;
    },
  ) {}

  async find(digest: string): Promise<KeyHolder | undefined> {
    return this.#holder(this.keys.findByDigest(digest));
  }

  async findById(organizationId: string, keyId: string): Promise<KeyHolder | undefined> {
    return this.#holder((await this.keys.get(organizationId, keyId)) ?? undefined);
  }

  #holder(key: KeyRecord | undefined): KeyHolder | undefined {
    const organization = key === undefined ? undefined : this.tables.organizations.row(key.organizationId);
    if (key === undefined || organization === undefined) return undefined;
    const isDeleted = (organization.deletedAt ?? null) !== null;
    return {
      // The keys of a deleted organization count as revoked.
      ...this.#endsOf(key),
      keyId: key.id,
      revoked: isDeleted || key.revoked === true,
      suspended: organization.status === 'suspended',
      addresses: AddressList.of(key.allowedAddresses),
      identity: identityFor(organization, this.tables.settings.get(organization.id), key),
    };
  }

  async standing(organizationId: string, keyIds: readonly string[]): Promise<Standing> {
    const organization = this.tables.organizations.row(organizationId);
    const isThere = organization !== undefined && (organization.deletedAt ?? null) === null;
    const found = await Promise.all(keyIds.map((id) => this.keys.get(organizationId, id)));
    return {
      organization: isThere ? organization.status : 'gone',
      keys: new Map(found.flatMap((key) => (key === null ? [] : [[key.id, this.#endsOf(key)] as const]))),
    };
  }

  noteLastUsed(times: Iterable<readonly [keyId: string, at: number]>): Promise<void> {
    return this.keys.noteLastUsed(times);
  }

  #endsOf(key: KeyRecord): KeyEnds {
    const { organizationId, createdBy } = key;
    return {
      revoked: key.revoked === true,
      overlapEndsAt: timeOf(key.revokedAt),
      expiresAt: timeOf(key.expiresAt),
      disabled:
        isServiceAccountId(createdBy) &&
        this.tables.serviceAccountTable.get(organizationId, createdBy)?.disabled !== false,
    };
  }
}
