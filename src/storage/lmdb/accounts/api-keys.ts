// Implements ApiKeys on the `keys`, `keys-by-hash` and `keys-by-organization` tables, with the secret for the keyed
// hashes. Any thread and process may write, because each change is one transaction on the current state.
//
//   keys                  id                          → record
//   keys-by-hash          hash in hexadecimal         → id
//   keys-by-organization  [organization, created, id] → when it expires, in ms; 0: revoked, null: no end

import { randomBytes, timingSafeEqual } from 'node:crypto';
import { newAccountId, newApiKey } from '../../../shared/ids.js';
import type { Key, Store, Table } from '../../store.js';
import {
  changedKey,
  checkChanger,
  checkMaker,
  checkRotating,
  given,
  MAX_ACTIVE_KEYS,
  MAX_KEPT_KEYS,
  newKeyRecord,
  successorOf,
  tooManyKeys,
} from '../../../accounts/api-keys.js';
import type { ApiKeys, CreatedKey, KeyChange, NewKey } from '../../../accounts/api-keys.js';
import type { Actor } from '../../../accounts/audit.js';
import { keyDigest, keyedHash, revokedNow, temporaryDetail, timeOf } from '../../../accounts/keys.js';
import type { KeyRecord } from '../../../accounts/keys.js';
import {
  checkKeyOwner,
  checkManagingAccounts,
  isServiceAccountId,
  knownAccount,
  ownerDetail,
} from '../../../accounts/service-accounts.js';
import type { ServiceAccountTable } from './service-account-table.js';
import type { MembershipTable } from './membership-table.js';
import type { LmdbAuditLog } from './audit-log.js';
import type { Page } from '../../../accounts/page.js';

/** Number of rows changed per transaction when all of an organization's keys are changed. */
const SLICE = 200;

const SECRET = 'api-keys';
const SECRET_BYTES = 32;
const AFTER_ALL = '\u{10ffff}';

export class LmdbApiKeys implements ApiKeys {
  private readonly rows: Table<KeyRecord>;
  private readonly byHash: Table<string>;
  private readonly byOrganization: Table<number | null>;
  private readonly secrets: Table<Uint8Array>;
  private made: Uint8Array | undefined;

  /** `changed` is called with the organization after each change. */
  constructor(
    private readonly store: Store,
    private readonly members: { memberships: MembershipTable; serviceAccounts: ServiceAccountTable },
    private readonly audit: LmdbAuditLog,
    private readonly changed: (organizationId: string) => void,
  ) {
    this.rows = store.table('keys');
    this.byHash = store.table('keys-by-hash');
    this.byOrganization = store.table('keys-by-organization');
    this.secrets = store.table('secrets');
  }

  /** The key with this digest (see keyDigest()). Takes constant time: one hash, one index lookup, one row. */
  findByDigest(digest: string): KeyRecord | undefined {
    this.store.refresh(); // another thread may have created or revoked the key since this event-loop turn started
    const secret = this.secret();
    if (secret === undefined) return undefined; // no key exists yet
    const hash = keyedHash(secret, Buffer.from(digest, 'hex'));
    const id = this.byHash.get(hash.toString('hex'));
    const key = id === undefined ? undefined : this.rows.get(id);
    return key !== undefined && key.hash.length === hash.length && timingSafeEqual(key.hash, hash) ? key : undefined;
  }

  async get(organizationId: string, id: string): Promise<KeyRecord | null> {
    return this.row(organizationId, id) ?? null;
  }

  /** Returns undefined if the key does not exist or belongs to another organization. */
  private row(organizationId: string, id: string): KeyRecord | undefined {
    const key = id.length > 64 ? undefined : this.rows.get(id);
    return key?.organizationId === organizationId ? key : undefined;
  }

  async all(): Promise<KeyRecord[]> {
    return [...this.rows.range()].map(({ value }) => value).sort((a, b) => a.createdAt.localeCompare(b.createdAt));
  }

  async page(organizationId: string, limit: number, after: string | null): Promise<Page<KeyRecord> | null> {
    const last = after === null ? undefined : this.row(organizationId, after);
    if (after !== null && last === undefined) return null;
    const from: Key = last === undefined ? [organizationId, AFTER_ALL] : placeOf(last);
    const places = [...this.byOrganization.keys({ from, to: [organizationId], reverse: true, limit: limit + 2 })] as [
      string,
      number,
      string,
    ][];
    const ids = places.map(([, , id]) => id).filter((id) => id !== after);
    const data = ids.slice(0, limit).flatMap((id) => this.rows.get(id) ?? []);
    return { data, next: ids.length > limit ? (ids[limit - 1] ?? null) : null };
  }

  /** Number of currently valid keys. */
  activeCount(organizationId: string, now = Date.now()): number {
    let count = 0;
    for (const { value } of this.byOrganization.range(ofOrganization(organizationId)))
      if (value === null || value > now) count++;
    return count;
  }

  /** Number of currently valid keys, by owning user or service account. */
  activeByOwner(organizationId: string, now = Date.now()): Map<string, number> {
    const counts = new Map<string, number>();
    for (const { key, value } of this.byOrganization.range(ofOrganization(organizationId))) {
      if (value !== null && value <= now) continue;
      const owner = this.rows.get((key as [string, number, string])[2])?.createdBy ?? null;
      if (owner !== null) counts.set(owner, (counts.get(owner) ?? 0) + 1);
    }
    return counts;
  }

  /** Must be called within a transaction. Revokes all keys of a service account, and returns how many were valid. */
  revokeOwned(organizationId: string, owner: string): number {
    const now = Date.now();
    let count = 0;
    for (const { key: place, value } of [...this.byOrganization.range(ofOrganization(organizationId))]) {
      const key = this.rows.get((place as [string, number, string])[2]);
      if (key?.createdBy !== owner || key.revoked === true) continue;
      if (value === null || value > now) count++;
      this.write(revokedNow(key, now));
    }
    return count;
  }

  async create(organizationId: string, fields: NewKey, actor: Actor | null): Promise<CreatedKey> {
    const { secret, publicId } = newApiKey();
    return { key: await this.insert(organizationId, { fields, text: secret, publicId, actor }), secret };
  }

  async first(organizationId: string, fields: NewKey): Promise<CreatedKey | null> {
    const isThere = (): boolean => [...this.rows.keys({ limit: 1 })].length > 0;
    if (isThere()) return null;
    const { secret, publicId } = newApiKey();
    const key = await this.insert(organizationId, { fields, text: secret, publicId, actor: null, isThere });
    return this.row(organizationId, key.id) === undefined ? null : { key, secret };
  }

  async accept(organizationId: string, name: string, secret: string): Promise<void> {
    await this.ensureSecret();
    if (this.findByDigest(keyDigest(secret)) === undefined)
      await this.insert(organizationId, {
        fields: { name },
        text: secret,
        publicId: null,
        actor: null,
        isThere: () => this.findByDigest(keyDigest(secret)) !== undefined,
      });
  }

  async change(organizationId: string, id: string, change: KeyChange, actor: Actor): Promise<KeyRecord | null> {
    const changed = await this.store.transaction(() => {
      const key = this.row(organizationId, id);
      if (key === undefined) return null;
      const next = changedKey(key, change, () => this.activeCount(organizationId), Date.now());
      this.write(next);
      void this.audit.note(organizationId, actor, 'api_key.changed', id, {
        name: next.name,
        fields: Object.keys(given(change)),
        ...this.detail(key),
      });
      return next;
    });
    this.changed(organizationId);
    return changed;
  }

  async rotate(
    organizationId: string,
    id: string,
    overlapS: number,
    actor: Actor,
    createdBy: string | null,
  ): Promise<CreatedKey | null> {
    const secret = await this.ensureSecret();
    const made = newApiKey();
    const successor = await this.store.transaction(() => {
      const key = this.row(organizationId, id);
      if (key === undefined) return null;
      if (createdBy !== null) {
        const own = this.members.memberships.get(organizationId, createdBy)?.role;
        checkMaker(own);
        checkChanger(own, createdBy, key);
      }
      const now = new Date();
      checkRotating(key, now);
      this.makeRoom(organizationId);
      const hash = new Uint8Array(keyedHash(secret, Buffer.from(keyDigest(made.secret), 'hex')));
      const { next, before } = successorOf(key, { id: newAccountId('key'), ...made, hash, createdBy }, overlapS, now);
      this.write(next);
      void this.byHash.put(Buffer.from(next.hash).toString('hex'), next.id);
      this.write(before);
      void this.audit.note(organizationId, actor, 'api_key.rotated', key.id, {
        name: key.name,
        successor: next.id,
        overlap_seconds: overlapS,
        ...this.owner(key),
      });
      return next;
    });
    this.changed(organizationId);
    return successor === null ? null : { key: successor, secret: made.secret };
  }

  async revoke(organizationId: string, id: string, actor: Actor | null): Promise<KeyRecord | null> {
    const revoked = await this.store.transaction(() => {
      const key = this.row(organizationId, id);
      if (key === undefined || key.revoked === true) return key ?? null;
      const next = revokedNow(key, Date.now());
      this.write(next);
      if (actor !== null)
        void this.audit.note(organizationId, actor, 'api_key.revoked', id, { name: key.name, ...this.detail(key) });
      return next;
    });
    this.changed(organizationId);
    return revoked;
  }

  /** Revokes all keys of an organization that is being deleted, in small steps. */
  async revokeAll(organizationId: string): Promise<void> {
    for (let from: Key | null = [organizationId]; from !== null; ) {
      const begin: Key = from;
      from = await this.store.transaction((): Key | null => {
        const { to } = ofOrganization(organizationId);
        const places = [...this.byOrganization.keys({ from: begin, to, limit: SLICE + 1 })] as [
          string,
          number,
          string,
        ][];
        for (const [, , id] of places.slice(0, SLICE)) {
          const key = this.rows.get(id);
          if (key !== undefined && key.revoked !== true) this.write(revokedNow(key, Date.now()));
        }
        return places[SLICE] ?? null;
      });
    }
    this.changed(organizationId);
  }

  /** Erases all keys of a deleted organization, in small steps. */
  async eraseAll(organizationId: string): Promise<void> {
    for (let more = true; more; ) {
      more = await this.store.transaction(() => {
        const places = [...this.byOrganization.keys({ ...ofOrganization(organizationId), limit: SLICE })];
        for (const place of places) this.erase(place);
        return places.length === SLICE;
      });
    }
    this.changed(organizationId);
  }

  /** `times`: key ID → milliseconds. */
  async noteLastUsed(times: Iterable<readonly [string, number]>): Promise<void> {
    await this.store.transaction(() => {
      for (const [id, at] of times) {
        const key = this.rows.get(id);
        // Another thread has stored a later time.
        if (key === undefined || (key.lastUsedAt !== null && Date.parse(key.lastUsedAt) >= at)) continue;
        void this.rows.put(id, { ...key, lastUsedAt: new Date(at).toISOString() });
      }
    });
  }

  private async insert(
    organizationId: string,
    {
      fields,
      text,
      publicId,
      actor,
      isThere = (): boolean => false,
    }: {
      fields: NewKey;
      text: string;
      publicId: string | null;
      actor: Actor | null;
      isThere?: (() => boolean) | undefined;
    },
  ): Promise<KeyRecord> {
    const hash = keyedHash(await this.ensureSecret(), Buffer.from(keyDigest(text), 'hex'));
    const key = newKeyRecord(organizationId, fields, {
      id: newAccountId('key'),
      secret: text,
      publicId,
      hash: new Uint8Array(hash),
    });
    await this.store.transaction(() => {
      if (isThere()) return;
      this.checkOwner(organizationId, key, fields);
      this.makeRoom(organizationId);
      this.write(key);
      void this.byHash.put(hash.toString('hex'), key.id);
      if (actor !== null)
        void this.audit.note(organizationId, actor, 'api_key.created', key.id, {
          name: key.name,
          models: key.models,
          scopes: key.scopes,
          ...this.detail(key),
        });
    });
    this.changed(organizationId);
    return key;
  }

  /**
   * Checks that the owner may have a new key, and that an admin creates it if the owner is a service account.
   * Throws ApiError.
   */
  private checkOwner(organizationId: string, { createdBy }: KeyRecord, { serviceAccount }: NewKey): void {
    if (serviceAccount !== undefined) {
      const { id, by } = serviceAccount;
      if (by !== null) checkManagingAccounts(this.members.memberships.get(organizationId, by)?.role);
      checkKeyOwner(knownAccount(this.members.serviceAccounts.get(organizationId, id)));
    } else if (createdBy !== null) checkMaker(this.members.memberships.get(organizationId, createdBy)?.role);
  }

  /** Details of audit entries about a key. */
  private detail(key: KeyRecord): object {
    return { ...this.owner(key), ...temporaryDetail(key) };
  }

  private owner({ organizationId, createdBy }: KeyRecord): object {
    return isServiceAccountId(createdBy)
      ? ownerDetail(this.members.serviceAccounts.get(organizationId, createdBy))
      : {};
  }

  /** Must be called within a transaction. Writes the record and its entry in the organization's list. */
  private write(key: KeyRecord): void {
    void this.rows.put(key.id, key);
    const end = key.revoked === true ? 0 : Math.min(timeOf(key.revokedAt), timeOf(key.expiresAt));
    void this.byOrganization.put(placeOf(key), end === Infinity ? null : end);
  }

  /** Must be called within a transaction. Makes room for one more key. Throws ApiError 422. */
  private makeRoom(organizationId: string): void {
    const now = Date.now();
    const places = [...this.byOrganization.range(ofOrganization(organizationId))];
    const ended = places.filter(({ value }) => value !== null && value <= now);
    if (places.length - ended.length >= MAX_ACTIVE_KEYS) throw tooManyKeys();
    for (const { key } of ended.slice(0, Math.max(0, places.length + 1 - MAX_KEPT_KEYS))) this.erase(key);
  }

  /** Must be called within a transaction. Erases the key of this list entry, with all its index entries. */
  private erase(place: Key): void {
    const id = (place as [string, number, string])[2];
    const row = this.rows.get(id);
    if (row !== undefined) void this.byHash.remove(Buffer.from(row.hash).toString('hex'));
    void this.rows.remove(id);
    void this.byOrganization.remove(place);
  }

  private secret(): Uint8Array | undefined {
    return (this.made ??= this.secrets.get(SECRET));
  }

  private async ensureSecret(): Promise<Uint8Array> {
    const known = this.secret();
    if (known !== undefined) return known;
    await this.secrets.insert(SECRET, new Uint8Array(randomBytes(SECRET_BYTES)));
    return this.secret() as Uint8Array;
  }
}

const placeOf = (key: KeyRecord): Key => [key.organizationId, Date.parse(key.createdAt), key.id];
const ofOrganization = (id: string): { from: Key; to: Key } => ({ from: [id], to: [id, AFTER_ALL] });
