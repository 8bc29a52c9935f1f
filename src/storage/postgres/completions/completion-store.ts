// Implements CompletionStore on the PostgreSQL tables `chat_completions` and `chat_completion_messages`.

import { isStoredCompletionId } from '../../../shared/ids.js';
import { isListed, MAX_PAGE_SIZE } from '../../completion-store.js';
import type {
  CompletionHead,
  CompletionPage,
  CompletionQuery,
  CompletionStore,
  MessagePage,
  MessageQuery,
  NewCompletion,
  StoredCompletion,
} from '../../completion-store.js';
import { OPEN_GATE } from '../../erase-gate.js';
import type { EraseGate } from '../../erase-gate.js';
import type { Database } from '../database.js';

const DAY_S = 86_400;
const ERASED_AT_ONCE = 100;
/** Maximum number of heads that one statement reads. */
const READ_AT_ONCE = 1_000;

interface HeadRow {
  id: string;
  organization: string;
  model: string;
  created_at: number;
  metadata: string;
  size: number;
  messages: number;
}

export interface PostgresCompletionOptions {
  /** Returns the time in seconds since 1970 on the database's clock. */
  now?: () => number;
  gate?: EraseGate;
}

const HEAD = 'id, organization, model, created_at, metadata, size, messages';

export class PostgresCompletionStore implements CompletionStore {
  readonly #retentionS: number;
  readonly #now: () => number;
  readonly #gate: EraseGate;

  constructor(
    private readonly database: Database,
    settings: { retention_days: number },
    { now = () => Date.now() / 1000, gate = OPEN_GATE }: PostgresCompletionOptions = {},
  ) {
    this.#retentionS = settings.retention_days * DAY_S;
    this.#now = () => Math.floor(now());
    this.#gate = gate;
  }

  async save({ id, organizationId, model, createdAt, metadata, body, messages }: NewCompletion): Promise<void> {
    await this.database.execute(
      `WITH completion AS (
         INSERT INTO chat_completions (id, organization, model, created_at, metadata, body, size, messages)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8) RETURNING id
       )
       INSERT INTO chat_completion_messages (completion_id, index, message)
       SELECT completion.id, u.at - 1, u.message
       FROM completion, unnest($9::text[]) WITH ORDINALITY AS u (message, at)`,
      [id, organizationId, model, createdAt, JSON.stringify(metadata), body, body.length, messages.length, messages],
    );
  }

  async head(organizationId: string, id: string): Promise<CompletionHead | null> {
    const row = await this.#find<HeadRow>(HEAD, organizationId, id);
    return row === null ? null : headOf(row);
  }

  async get(organizationId: string, id: string): Promise<StoredCompletion | null> {
    const row = await this.#find<HeadRow & { body: string }>(`${HEAD}, body`, organizationId, id);
    return row === null ? null : { ...headOf(row), body: row.body };
  }

  async setMetadata(
    organizationId: string,
    id: string,
    metadata: Readonly<Record<string, string>>,
  ): Promise<StoredCompletion | null> {
    if (!isStoredCompletionId(id)) return null;
    const [row] = await this.database.query<HeadRow & { body: string }>(
      `UPDATE chat_completions SET metadata = $4 WHERE id = $1 AND organization = $2 AND created_at > $3
       RETURNING ${HEAD}, body`,
      [id, organizationId, this.#expired(), JSON.stringify(metadata)],
    );
    return row === undefined ? null : { ...headOf(row), body: row.body };
  }

  async list(organizationId: string, query: CompletionQuery): Promise<CompletionPage> {
    const found: CompletionHead[] = [];
    let more = false;
    let size = 0;
    for (let last = query.after, isEnd = false; !isEnd && !more; ) {
      const slice = await this.database.query<HeadRow>(
        `SELECT ${HEAD} FROM chat_completions
         WHERE organization = $1 AND created_at > $2 AND ($3::text IS NULL OR model = $3)
           AND ($4::text IS NULL OR id ${query.newestFirst ? '<' : '>'} $4)
         ORDER BY id ${query.newestFirst ? 'DESC' : ''} LIMIT $5`,
        [organizationId, this.#expired(), query.model, last, READ_AT_ONCE],
      );
      for (const head of slice.map(headOf)) {
        if (!isListed(head, query)) continue;
        size += head.size;
        more = found.length === query.limit || (found.length > 0 && size > MAX_PAGE_SIZE);
        if (more) break;
        found.push(head);
      }
      last = slice.at(-1)?.id ?? last;
      isEnd = slice.length < READ_AT_ONCE;
    }
    const bodies = await this.database.query<{ id: string; body: string }>(
      'SELECT id, body FROM chat_completions WHERE id = ANY ($1::text[])',
      [found.map(({ id }) => id)],
    );
    const bodyOf = new Map(bodies.map(({ id, body }) => [id, body]));
    // Omits completions that were deleted between the two statements.
    return {
      data: found.flatMap((head) => {
        const body = bodyOf.get(head.id);
        return body === undefined ? [] : [{ ...head, body }];
      }),
      more,
    };
  }

  async messages(
    organizationId: string,
    id: string,
    { newestFirst, after, limit }: MessageQuery,
  ): Promise<MessagePage | null> {
    if ((await this.head(organizationId, id)) === null) return null;
    const rows = await this.database.query<{ index: number; message: string | null }>(
      `SELECT index, CASE WHEN before <= $4 OR number = 1 THEN message END AS message FROM (
         SELECT index, message, row_number() OVER page AS number, sum(length(message)) OVER page AS before FROM (
           SELECT index, message FROM chat_completion_messages
           WHERE completion_id = $1 AND ($2::int IS NULL OR index ${newestFirst ? '<' : '>'} $2)
           ORDER BY index ${newestFirst ? 'DESC' : ''} LIMIT $3
         ) AS chosen WINDOW page AS (ORDER BY index ${newestFirst ? 'DESC' : ''})
       ) AS sized ORDER BY number`,
      [id, after, limit + 1, MAX_PAGE_SIZE],
    );
    const end = rows.findIndex(({ message }, at) => message === null || at === limit);
    const data = rows.slice(0, end === -1 ? rows.length : end);
    return { data: data.map(({ index, message }) => ({ index, message: message ?? '' })), more: end !== -1 };
  }

  async delete(organizationId: string, id: string): Promise<boolean> {
    if (!isStoredCompletionId(id)) return false;
    return (
      (await this.database.execute(
        'DELETE FROM chat_completions WHERE id = $1 AND organization = $2 AND created_at > $3',
        [id, organizationId, this.#expired()],
      )) > 0
    );
  }

  async eraseOrganization(organizationId: string): Promise<void> {
    while (
      (await this.database.execute(
        'DELETE FROM chat_completions WHERE id IN (SELECT id FROM chat_completions WHERE organization = $1 LIMIT $2)',
        [organizationId, ERASED_AT_ONCE],
      )) > 0
    );
  }

  async sweep(): Promise<number> {
    let erased = 0;
    while (this.#gate.allows()) {
      const some = await this.database.execute(
        'DELETE FROM chat_completions WHERE id IN (SELECT id FROM chat_completions WHERE created_at <= $1 LIMIT $2)',
        [this.#expired(), ERASED_AT_ONCE],
      );
      if (some === 0) break;
      erased += some;
    }
    return erased;
  }

  /** Returns the expiry threshold: completions that were created at this time or earlier have expired. */
  #expired(): number {
    return this.#now() - this.#retentionS;
  }

  async #find<Row>(columns: string, organizationId: string, id: string): Promise<Row | null> {
    if (!isStoredCompletionId(id)) return null;
    const [row] = await this.database.query<Row & object>(
      `SELECT ${columns} FROM chat_completions WHERE id = $1 AND organization = $2 AND created_at > $3`,
      [id, organizationId, this.#expired()],
    );
    return row ?? null;
  }
}

const headOf = ({ id, organization, model, created_at, metadata, size, messages }: HeadRow): CompletionHead => ({
  id,
  organizationId: organization,
  model,
  createdAt: created_at,
  metadata: JSON.parse(metadata) as Record<string, string>,
  size,
  messages,
});
