// Implements ApiKeys on the `api_keys` table, with the secret for the keyed hashes.

import { newAccountId, newApiKey } from '../../../shared/ids.js';
import type { Queryable } from '../database.js';
import {
  changedKey,
  checkChanger,
  checkMaker,
  checkRotating,
  given,
  newKeyRecord,
  successorOf,
} from '../../../accounts/api-keys.js';
import type { ApiKeys, CreatedKey, KeyChange, NewKey } from '../../../accounts/api-keys.js';
import type { Actor } from '../../../accounts/audit.js';
import { keyDigest, keyedHash, revokedNow, temporaryDetail } from '../../../accounts/keys.js';
import type { KeyRecord } from '../../../accounts/keys.js';
import {
  checkKeyOwner,
  checkManagingAccounts,
  isServiceAccountId,
  knownAccount,
  ownerDetail,
} from '../../../accounts/service-accounts.js';
import type { Page } from '../../../accounts/page.js';
import { noteAudit } from './audit-log.js';
import { countValidKeys, keyById, KEY_COLUMNS, keyOf, makeRoomForKey, putKey } from './key-rows.js';
import type { KeyRow } from './key-rows.js';
import { membership } from './member-rows.js';
import { serviceAccountsOf } from './service-account-rows.js';
import { ensureSecret } from './secret-rows.js';
import type { AccountWork } from './work.js';

/** Number of rows changed per statement when all of an organization's keys are changed. */
const SLICE = 200;

export class PostgresApiKeys implements ApiKeys {
  constructor(private readonly work: AccountWork) {}

  async get(organizationId: string, id: string): Promise<KeyRecord | null> {
    return (await keyById(this.work.sql, organizationId, id)) ?? null;
  }

  async all(): Promise<KeyRecord[]> {
    return (await this.work.sql.query<KeyRow>(`SELECT ${KEY_COLUMNS} FROM api_keys ORDER BY created_at, id`)).map(
      keyOf,
    );
  }

  async page(organizationId: string, limit: number, after: string | null): Promise<Page<KeyRecord> | null> {
    const last = after === null ? undefined : await this.get(organizationId, after);
    if (last === null) return null;
    const rows = await this.work.sql.query<KeyRow>(
      `SELECT ${KEY_COLUMNS} FROM api_keys WHERE organization_id = $1 AND (created_at, id) < ($2, $3) ORDER BY created_at DESC, id DESC LIMIT $4`,
      [
        organizationId,
        last === undefined ? Number.MAX_SAFE_INTEGER : Date.parse(last.createdAt),
        last?.id ?? '',
        limit + 1,
      ],
    );
    const data = rows.slice(0, limit).map(keyOf);
    return { data, next: rows.length > limit ? (data.at(-1)?.id ?? null) : null };
  }

  async create(organizationId: string, fields: NewKey, actor: Actor | null): Promise<CreatedKey> {
    const { secret, publicId } = newApiKey();
    const key = await this.#record(organizationId, fields, secret, publicId);
    await this.work.changeSeen(organizationId, async (sql) => {
      await checkOwner(sql, key, fields);
      await insert(sql, key, actor, this.work.now());
    });
    return { key, secret };
  }

  async first(organizationId: string, fields: NewKey): Promise<CreatedKey | null> {
    const isAny = async (sql: Queryable): Promise<boolean> =>
      (await sql.query('SELECT 1 FROM api_keys LIMIT 1')).length > 0;
    if (await isAny(this.work.sql)) return null;
    const { secret, publicId } = newApiKey();
    const key = await this.#record(organizationId, fields, secret, publicId);
    const made = await this.work.changeSeen(organizationId, async (sql) => {
      if (await isAny(sql)) return false;
      await insert(sql, key, null, this.work.now());
      return true;
    });
    return made ? { key, secret } : null;
  }

  async accept(organizationId: string, name: string, secret: string): Promise<void> {
    const key = await this.#record(organizationId, { name }, secret, null);
    const isThere = async (sql: Queryable): Promise<boolean> =>
      (await sql.query('SELECT 1 FROM api_keys WHERE hash = $1', [key.hash])).length > 0;
    if (await isThere(this.work.sql)) return;
    await this.work.changeSeen(organizationId, async (sql) => {
      if (!(await isThere(sql))) await insert(sql, key, null, this.work.now());
    });
  }

  change(organizationId: string, id: string, change: KeyChange, actor: Actor): Promise<KeyRecord | null> {
    return this.work.changeSeen(organizationId, async (sql) => {
      const key = await keyById(sql, organizationId, id);
      if (key === undefined) return null;
      const now = this.work.now();
      const active = await countValidKeys(sql, organizationId, now);
      const next = changedKey(key, change, () => active, now);
      await putKey(sql, next);
      await noteAudit(sql, organizationId, {
        actor,
        action: 'api_key.changed',
        target: id,
        detail: {
          name: next.name,
          fields: Object.keys(given(change)),
          ...(await detailOf(sql, key)),
        },
      });
      return next;
    });
  }

  async rotate(
    organizationId: string,
    id: string,
    overlapS: number,
    actor: Actor,
    createdBy: string | null,
  ): Promise<CreatedKey | null> {
    const made = newApiKey();
    const hash = await this.#hash(made.secret);
    const successor = await this.work.changeSeen(organizationId, async (sql) => {
      const key = await keyById(sql, organizationId, id);
      if (key === undefined) return null;
      if (createdBy !== null) {
        const own = (await membership(sql, organizationId, createdBy))?.role;
        checkMaker(own);
        checkChanger(own, createdBy, key);
      }
      const now = new Date(this.work.now());
      checkRotating(key, now);
      await makeRoomForKey(sql, organizationId, now.getTime());
      const { next, before } = successorOf(key, { id: newAccountId('key'), ...made, hash, createdBy }, overlapS, now);
      await putKey(sql, next);
      await putKey(sql, before);
      await noteAudit(sql, organizationId, {
        actor,
        action: 'api_key.rotated',
        target: key.id,
        detail: {
          name: key.name,
          successor: next.id,
          overlap_seconds: overlapS,
          ...(await ownerOf(sql, key)),
        },
      });
      return next;
    });
    return successor === null ? null : { key: successor, secret: made.secret };
  }

  revoke(organizationId: string, id: string, actor: Actor | null): Promise<KeyRecord | null> {
    return this.work.changeSeen(organizationId, async (sql) => {
      const key = await keyById(sql, organizationId, id);
      if (key === undefined || key.revoked === true) return key ?? null;
      const next = revokedNow(key, this.work.now());
      await putKey(sql, next);
      if (actor !== null)
        await noteAudit(sql, organizationId, {
          actor,
          action: 'api_key.revoked',
          target: id,
          detail: { name: key.name, ...(await detailOf(sql, key)) },
        });
      return next;
    });
  }

  /** Revokes all keys of an organization that is being deleted, in small steps. */
  async revokeAll(organizationId: string): Promise<void> {
    for (let more = true; more; ) {
      more = await this.work.changeSeen(
        organizationId,
        async (sql) =>
          (await sql.execute(
            `UPDATE api_keys SET revoked = true, revoked_at = least(revoked_at, $2) WHERE id IN (
           SELECT id FROM api_keys WHERE organization_id = $1 AND NOT revoked LIMIT $3)`,
            [organizationId, this.work.now(), SLICE],
          )) === SLICE,
      );
    }
  }

  /** Erases all keys of a deleted organization, in small steps. */
  async eraseAll(organizationId: string): Promise<void> {
    for (let more = true; more; ) {
      more = await this.work.changeSeen(
        organizationId,
        async (sql) =>
          (await sql.execute(
            'DELETE FROM api_keys WHERE id IN (SELECT id FROM api_keys WHERE organization_id = $1 LIMIT $2)',
            [organizationId, SLICE],
          )) === SLICE,
      );
    }
  }

  async #record(organizationId: string, fields: NewKey, text: string, publicId: string | null): Promise<KeyRecord> {
    return newKeyRecord(organizationId, fields, {
      id: newAccountId('key'),
      secret: text,
      publicId,
      hash: await this.#hash(text),
    });
  }

  async #hash(text: string): Promise<Uint8Array> {
    return new Uint8Array(
      keyedHash(await ensureSecret(this.work.sql, 'api-keys'), Buffer.from(keyDigest(text), 'hex')),
    );
  }
}

/**
 * Checks that the owner may have a new key, and that an admin creates it if the owner is a service account. Rejects
 * with ApiError.
 */
async function checkOwner(
  sql: Queryable,
  { organizationId, createdBy }: KeyRecord,
  { serviceAccount }: NewKey,
): Promise<void> {
  if (serviceAccount !== undefined) {
    const { id, by } = serviceAccount;
    if (by !== null) checkManagingAccounts((await membership(sql, organizationId, by))?.role);
    checkKeyOwner(knownAccount((await serviceAccountsOf(sql, organizationId, id))[0]));
  } else if (createdBy !== null) checkMaker((await membership(sql, organizationId, createdBy))?.role);
}

/** Details of audit entries about a key. */
const detailOf = async (sql: Queryable, key: KeyRecord): Promise<object> => ({
  ...(await ownerOf(sql, key)),
  ...temporaryDetail(key),
});

async function ownerOf(sql: Queryable, { organizationId, createdBy }: KeyRecord): Promise<object> {
  if (!isServiceAccountId(createdBy)) return {};
  return ownerDetail((await serviceAccountsOf(sql, organizationId, createdBy))[0]);
}

async function insert(sql: Queryable, key: KeyRecord, actor: Actor | null, now: number): Promise<void> {
  await makeRoomForKey(sql, key.organizationId, now);
  await putKey(sql, key);
  if (actor !== null)
    await noteAudit(sql, key.organizationId, {
      actor,
      action: 'api_key.created',
      target: key.id,
      detail: {
        name: key.name,
        models: key.models,
        scopes: key.scopes,
        ...(await detailOf(sql, key)),
      },
    });
}
