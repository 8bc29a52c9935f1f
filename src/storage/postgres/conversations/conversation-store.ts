// Implements ConversationStore on the tables `conversations` and `conversation_items`, which several processes share. A
// row lock on the conversation serializes its changes.

import { isConversationId } from '../../../shared/ids.js';
import { appended, checkConversationCount, checkConversationSize } from '../../conversation-store.js';
import type {
  AppendOptions,
  ConversationHead,
  ConversationItem,
  ConversationSettings,
  ConversationStore,
  NewConversation,
} from '../../conversation-store.js';
import { OPEN_GATE } from '../../erase-gate.js';
import type { EraseGate } from '../../erase-gate.js';
import { itemKey, itemRows } from '../../response-parts.js';
import type { ItemRow } from '../../response-parts.js';
import { itemSize } from '../../response-size.js';
import type { ItemPage, ItemPageQuery, StoredItem } from '../../response-store.js';
import type { Database, Queryable } from '../database.js';

const DAY_S = 86_400;
const ERASED_AT_ONCE = 100;

interface HeadRow {
  id: string;
  organization: string;
  created_at: number;
  metadata: string;
  next: number;
  items: number;
  size: number;
}

interface ItemData {
  row: string;
  images: Buffer[];
  repeats: boolean;
  position: number;
}

/** JSON in the `row` column. */
type Row = Pick<ItemRow, 'id' | 'item'> & { output?: true };

export interface PostgresConversationOptions {
  /** Returns the time in seconds since 1970 on the database's clock. */
  now?: () => number;
  gate?: EraseGate;
}

const HEAD = 'id, organization, created_at, metadata, next, items, size';

export class PostgresConversationStore implements ConversationStore {
  readonly #retentionS: number;
  readonly #max: number;
  readonly #now: () => number;
  readonly #gate: EraseGate;

  constructor(
    private readonly database: Database,
    settings: ConversationSettings,
    { now = () => Date.now() / 1000, gate = OPEN_GATE }: PostgresConversationOptions = {},
  ) {
    this.#max = settings.max_conversations ?? Infinity;
    this.#retentionS = settings.retention_days * DAY_S;
    this.#now = () => Math.floor(now());
    this.#gate = gate;
  }

  async create(
    { id, organizationId, createdAt, metadata }: NewConversation,
    items: readonly ConversationItem[],
  ): Promise<void> {
    const size = checkConversationSize({ count: 0, size: 0 }, items);
    await this.database.transaction(async (within) => {
      // The lock makes an organization's concurrent requests count its conversations one after another.
      await within.query("SELECT pg_advisory_xact_lock(hashtextextended('conversations ' || $1, 0))", [organizationId]);
      const [{ n = 0 } = {}] = await within.query<{ n: number }>(
        'SELECT count(*) AS n FROM conversations WHERE organization = $1',
        [organizationId],
      );
      checkConversationCount(n, this.#max);
      await within.execute(
        'INSERT INTO conversations (id, organization, created_at, used_at, metadata, next, items, size) VALUES ($1, $2, $3, $4, $5, $6, $6, $7)',
        [id, organizationId, createdAt, this.#now(), JSON.stringify(metadata), items.length, size],
      );
      await insert(within, { id, next: 0 }, items);
    });
  }

  async head(organizationId: string, id: string): Promise<ConversationHead | null> {
    const row = await this.#head(this.database, organizationId, id);
    return row === null ? null : headOf(row);
  }

  async list(organizationId: string, limit: number, before: string | null): Promise<ConversationHead[]> {
    const rows = await this.database.query<HeadRow>(
      `SELECT ${HEAD} FROM conversations
       WHERE organization = $1 AND used_at > $2 AND ($3::text IS NULL OR id < $3) ORDER BY id DESC LIMIT $4`,
      [organizationId, this.#expired(), before, limit],
    );
    return rows.map(headOf);
  }

  async setMetadata(
    organizationId: string,
    id: string,
    metadata: Readonly<Record<string, string>>,
  ): Promise<ConversationHead | null> {
    if (!isConversationId(id)) return null;
    const [row] = await this.database.query<HeadRow>(
      `UPDATE conversations SET metadata = $4 WHERE id = $1 AND organization = $2 AND used_at > $3 RETURNING ${HEAD}`,
      [id, organizationId, this.#expired(), JSON.stringify(metadata)],
    );
    return row === undefined ? null : headOf(row);
  }

  append(
    organizationId: string,
    id: string,
    all: readonly ConversationItem[],
    options: AppendOptions = {},
  ): Promise<boolean> {
    return this.database.transaction(async (within) => {
      const head = await this.#locked(within, organizationId, id);
      if (head === null) return false;
      if (options.unless !== undefined && (await first(within, id, options.unless)) !== null) return true;
      const items = appended(head.items, all, options);
      const size = checkConversationSize({ count: head.items, size: head.size }, items);
      await within.execute(
        'UPDATE conversations SET next = next + $2::int, items = items + $2::int, size = size + $3::bigint, used_at = $4 WHERE id = $1',
        [id, items.length, size, this.#now()],
      );
      await insert(within, head, items);
      return true;
    });
  }

  async items(organizationId: string, id: string): Promise<readonly ConversationItem[] | null> {
    if ((await this.#head(this.database, organizationId, id)) === null) return null;
    return (
      await this.database.query<ItemData>(
        'SELECT row, images, repeats, position FROM conversation_items WHERE conversation_id = $1 ORDER BY position',
        [id],
      )
    ).map(itemOf);
  }

  async page(
    organizationId: string,
    id: string,
    { newestFirst, after, limit, images }: ItemPageQuery,
  ): Promise<ItemPage | 'no conversation' | 'no item'> {
    if ((await this.#head(this.database, organizationId, id)) === null) return 'no conversation';
    const start = after === null ? null : await first(this.database, id, after);
    if (after !== null && start === null) return 'no item';
    const shown = images ? 'images' : "'{}'::bytea[] AS images";
    const rows = await this.database.query<ItemData>(
      newestFirst
        ? `SELECT row, ${shown}, repeats, position FROM conversation_items
           WHERE conversation_id = $1 AND NOT repeats AND ($2::int IS NULL OR position < $2) ORDER BY position DESC LIMIT $3`
        : `SELECT row, ${shown}, repeats, position FROM conversation_items
           WHERE conversation_id = $1 AND NOT repeats AND ($2::int IS NULL OR position > $2) ORDER BY position LIMIT $3`,
      [id, start?.position ?? null, limit + 1],
    );
    return { items: rows.slice(0, limit).map(itemOf), more: rows.length > limit };
  }

  async item(organizationId: string, id: string, itemId: string): Promise<StoredItem | null> {
    if ((await this.#head(this.database, organizationId, id)) === null) return null;
    const found = await first(this.database, id, itemId);
    return found === null ? null : itemOf(found);
  }

  removeItem(organizationId: string, id: string, itemId: string): Promise<boolean> {
    return this.database.transaction(async (within) => {
      if ((await this.#locked(within, organizationId, id)) === null) return false;
      const removed = await within.query<{ size: number }>(
        'DELETE FROM conversation_items WHERE conversation_id = $1 AND item_key = $2 RETURNING size',
        [id, itemKey(itemId)],
      );
      if (removed.length === 0) return false;
      await within.execute(
        'UPDATE conversations SET items = items - $2::int, size = size - $3::bigint, used_at = $4 WHERE id = $1',
        [id, removed.length, removed.reduce((sum, { size }) => sum + size, 0), this.#now()],
      );
      return true;
    });
  }

  async delete(organizationId: string, id: string): Promise<boolean> {
    if (!isConversationId(id)) return false;
    return (
      (await this.database.execute('DELETE FROM conversations WHERE id = $1 AND organization = $2 AND used_at > $3', [
        id,
        organizationId,
        this.#expired(),
      ])) > 0
    );
  }

  async eraseOrganization(organizationId: string): Promise<void> {
    while (
      (await this.database.execute(
        'DELETE FROM conversations WHERE id IN (SELECT id FROM conversations WHERE organization = $1 LIMIT $2)',
        [organizationId, ERASED_AT_ONCE],
      )) > 0
    );
  }

  async sweep(): Promise<number> {
    let erased = 0;
    while (this.#gate.allows()) {
      const some = await this.database.execute(
        'DELETE FROM conversations WHERE id IN (SELECT id FROM conversations WHERE used_at <= $1 LIMIT $2)',
        [this.#expired(), ERASED_AT_ONCE],
      );
      if (some === 0) break;
      erased += some;
    }
    return erased;
  }

  /** Returns the expiry threshold: conversations that were last used at this time or earlier have expired. */
  #expired(): number {
    return this.#now() - this.#retentionS;
  }

  async #head(sql: Queryable, organizationId: string, id: string): Promise<HeadRow | null> {
    if (!isConversationId(id)) return null;
    const [row] = await sql.query<HeadRow>(
      `SELECT ${HEAD} FROM conversations WHERE id = $1 AND organization = $2 AND used_at > $3`,
      [id, organizationId, this.#expired()],
    );
    return row ?? null;
  }

  /**
   * Locks and returns a conversation's row. Returns null if the conversation is unknown or expired. Must be called
   * within a transaction.
   */
  async #locked(within: Queryable, organizationId: string, id: string): Promise<HeadRow | null> {
    if (!isConversationId(id)) return null;
    const [row] = await within.query<HeadRow>(
      `SELECT ${HEAD} FROM conversations WHERE id = $1 AND organization = $2 AND used_at > $3 FOR UPDATE`,
      [id, organizationId, this.#expired()],
    );
    return row ?? null;
  }
}

/** Returns the first item with this ID, or null if there is none. */
async function first(sql: Queryable, id: string, itemId: string): Promise<ItemData | null> {
  const [row] = await sql.query<ItemData>(
    'SELECT row, images, repeats, position FROM conversation_items WHERE conversation_id = $1 AND item_key = $2 ORDER BY position LIMIT 1',
    [id, itemKey(itemId)],
  );
  return row ?? null;
}

/** Inserts items. Must be called within a transaction that has locked the conversation. */
async function insert(
  within: Queryable,
  { id, next }: Pick<HeadRow, 'id' | 'next'>,
  items: readonly ConversationItem[],
): Promise<void> {
  if (items.length === 0) return;
  const keys = items.map((item) => itemKey(item.id));
  const known = new Set(
    (
      await within.query<{ item_key: string }>(
        'SELECT DISTINCT item_key FROM conversation_items WHERE conversation_id = $1 AND item_key = ANY ($2::text[])',
        [id, keys],
      )
    ).map(({ item_key }) => item_key),
  );
  const repeats = keys.map((key) => {
    const isKnown = known.has(key);
    known.add(key);
    return isKnown;
  });
  const rows = itemRows(items).map(
    ({ id: itemId, item }, at): Row => ({
      id: itemId,
      item,
      ...(items[at]?.output === true ? { output: true } : {}),
    }),
  );
  await within.execute(
    `INSERT INTO conversation_items (conversation_id, position, item_key, row, images, size, repeats)
     SELECT $1, $2::int + u.at - 1, u.item_key, u.row, '{}', u.size, u.repeats
     FROM unnest($3::text[], $4::text[], $5::bigint[], $6::boolean[]) WITH ORDINALITY AS u (item_key, row, size, repeats, at)`,
    [id, next, keys, rows.map((row) => JSON.stringify(row)), rows.map(({ item }) => itemSize(item)), repeats],
  );
  for (const [at, { images = [] }] of items.entries())
    if (images.length > 0)
      await within.execute(
        'UPDATE conversation_items SET images = $3::bytea[] WHERE conversation_id = $1 AND position = $2',
        [id, next + at, images],
      );
}

function itemOf({ row, images, repeats }: ItemData): ConversationItem {
  const { id, item, output } = JSON.parse(row) as Row;
  return {
    id,
    item,
    ...(images.length === 0 ? {} : { images }),
    ...(repeats ? { repeats } : {}),
    ...(output === true ? { output } : {}),
  };
}

const headOf = ({ id, organization, created_at, metadata, items, size }: HeadRow): ConversationHead => ({
  id,
  organizationId: organization,
  createdAt: created_at,
  metadata: JSON.parse(metadata) as Record<string, string>,
  count: items,
  size,
});
