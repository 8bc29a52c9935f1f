// Organizations, stored as rows of the `organizations` table. Methods that write must be called within a transaction.

import { newAccountId } from '../../../shared/ids.js';
import type { Store, Table } from '../../store.js';
import type { Organization } from '../../../accounts/keys.js';
import type { Page } from '../../../accounts/page.js';

// Row of the `meta` table: the highest organization number assigned so far.
const LAST_NUMBER = 'last-tenant';

/** Longer IDs cannot exist, and LMDB limits key length. */
const MAX_ID = 64;

export class OrganizationTable {
  private readonly organizations: Table<Organization>;
  private readonly meta: Table<number>;

  constructor(store: Store) {
    this.organizations = store.table('organizations');
    this.meta = store.table('meta');
  }

  /** Undefined if not found or deleted. */
  get(id: string): Organization | undefined {
    const organization = id.length > MAX_ID ? undefined : this.organizations.get(id);
    return organization === undefined || isDeleted(organization) ? undefined : organization;
  }

  /** Oldest first. */
  list(): Organization[] {
    return this.all().filter((one) => !isDeleted(one));
  }

  /** Ordered by ID. `after`: ID of the previous page's last entry. */
  page(limit: number, after: string | null): Page<Organization> {
    const from = after === null ? {} : { from: after.slice(0, MAX_ID) };
    const data: Organization[] = [];
    for (const { value } of this.organizations.range(from)) {
      if (value.id === after || isDeleted(value)) continue;
      if (data.length === limit) return { data, next: data.at(-1)?.id ?? null };
      data.push(value);
    }
    return { data, next: null };
  }

  /** Also returns deleted organizations. */
  row(id: string): Organization | undefined {
    return this.organizations.get(id);
  }

  /** Deleted organizations that may still have stored data. */
  halfDeleted(): Organization[] {
    return this.all().filter((one) => isDeleted(one) && one.erased !== true);
  }

  /** Organizations that were deleted before this time, whose stored data has been erased but whose keys have not. */
  deletedBefore(time: number): Organization[] {
    return this.all().filter(
      (one) => one.erased === true && one.keysErased !== true && Date.parse(one.deletedAt ?? '') < time,
    );
  }

  /** Must be called within a transaction. */
  create(name: string): Organization {
    const organization: Organization = {
      id: newAccountId('org'),
      tenant: this.newNumber(),
      name,
      status: 'active',
      createdAt: new Date().toISOString(),
    };
    void this.organizations.put(organization.id, organization);
    return organization;
  }

  /** Must be called within a transaction. Returns undefined if not found. */
  change(id: string, patch: Partial<Pick<Organization, 'name' | 'status'>>): Organization | undefined {
    const organization = this.get(id);
    if (organization === undefined) return undefined;
    const changed = { ...organization, ...patch };
    void this.organizations.put(id, changed);
    return changed;
  }

  /** Must be called within a transaction. */
  markDeleted(id: string): void {
    const organization = this.get(id);
    if (organization !== undefined)
      void this.organizations.put(id, { ...organization, status: 'suspended', deletedAt: new Date().toISOString() });
  }

  /** Must be called within a transaction. Records which data of a deleted organization has been erased. */
  markErased(id: string, what: 'erased' | 'keysErased'): void {
    const organization = this.organizations.get(id);
    if (organization !== undefined) void this.organizations.put(id, { ...organization, [what]: true });
  }

  /** Numbers are never reused, because they identify organizations in the prefix cache and in counters. */
  private newNumber(): number {
    // Old databases lack this row, so their organizations are scanned once.
    const number = (this.meta.get(LAST_NUMBER) ?? this.all().reduce((most, one) => Math.max(most, one.tenant), 0)) + 1;
    void this.meta.put(LAST_NUMBER, number);
    return number;
  }

  private all(): Organization[] {
    return [...this.organizations.range()].map(({ value }) => value).sort((a, b) => a.tenant - b.tenant);
  }
}

const isDeleted = ({ deletedAt }: Organization): boolean => (deletedAt ?? null) !== null;
