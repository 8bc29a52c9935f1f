// Takes over background responses whose process has ended. The first process to find such a response marks it as
// failed, exactly once, using its log. Event-loop thread only.

import { isUnfinished } from '../../response-store.js';
import type { Failed, LogFinalizer } from '../../response-store.js';
import type { FinishedUsage } from '../../../shared/usage-sink.js';
import type { Database, Queryable } from '../database.js';
import { ALIVE } from '../process-lease.js';
import type { ResponseReads } from './response-reads.js';
import { STORED, storedOf } from './response-rows.js';
import type { StoredRow } from './response-rows.js';
import type { ResponseWrites } from './response-writes.js';

const BATCH = 100;
const UNFINISHED = "status IN ('queued', 'in_progress')";
const ABANDONED = `(owner IS NULL OR owner NOT IN (${ALIVE}))`;

const UNFINISHED_ONES = `SELECT id, organization FROM responses WHERE ${UNFINISHED} AND NOT dead AND id > $2 AND (owner = $1 OR ${ABANDONED}) ORDER BY id LIMIT ${BATCH}`;
// After this statement, only this process writes to the response. Skips rows that another process is taking over.
const TAKE_UP = `UPDATE responses SET owner = $2 WHERE id = (
    SELECT id FROM responses WHERE id = $1 AND ${UNFINISHED} AND NOT dead AND (owner = $2 OR ${ABANDONED}) FOR UPDATE SKIP LOCKED
  ) RETURNING ${STORED}, usage`;
const ENDED_ONES = `SELECT id, organization FROM responses WHERE log_until > $1::float8 AND background AND NOT dead AND NOT ${UNFINISHED} AND id > $2 AND ${ABANDONED} ORDER BY id LIMIT ${BATCH}`;
const TAKE_LOG = `UPDATE responses SET owner = $2 WHERE id = (
    SELECT id FROM responses WHERE id = $1 AND NOT dead AND NOT ${UNFINISHED} AND (owner = $2 OR ${ABANDONED}) FOR UPDATE SKIP LOCKED
  ) RETURNING ${STORED}`;

type IsRunning = (organizationId: string, id: string) => boolean | Promise<boolean>;

export class ResponseEnds {
  constructor(
    private readonly database: Database,
    private readonly process: string,
    private readonly reads: ResponseReads,
    private readonly writes: ResponseWrites,
    private readonly now: () => number,
  ) {}

  async *failUnfinished(finalizer: LogFinalizer, isRunning: IsRunning): AsyncIterable<Failed> {
    for await (const { id, organization } of this.#each(UNFINISHED_ONES, this.process)) {
      if (await isRunning(organization, id)) continue;
      const failed = await this.database.transaction((within) => this.#fail(within, id, finalizer));
      if (failed === null) continue;
      yield failed;
      await this.#completeLog(id, finalizer);
    }
    for await (const { id, organization } of this.#each(ENDED_ONES, this.now())) {
      if (!(await isRunning(organization, id))) await this.#completeLog(id, finalizer);
    }
  }

  async *#each(text: string, first: string | number): AsyncGenerator<{ id: string; organization: string }> {
    for (let after = ''; ; ) {
      const rows = await this.database.query<{ id: string; organization: string }>(text, [first, after]);
      yield* rows;
      if (rows.length < BATCH) return;
      after = rows.at(-1)?.id ?? after;
    }
  }

  async #fail(within: Queryable, id: string, finalizer: LogFinalizer): Promise<Failed | null> {
    const [row] = await within.query<StoredRow & { usage: string | null }>(TAKE_UP, [id, this.process]);
    if (row === undefined || !isUnfinished(row.status)) return null;
    const failed = finalizer.fail(
      storedOf(row),
      (await this.reads.events(id, -1, Infinity, within)) ?? [],
      row.usage === null ? null : (JSON.parse(row.usage) as FinishedUsage),
    );
    await this.writes.end(within, failed.record);
    return failed;
  }

  async #completeLog(id: string, finalizer: LogFinalizer): Promise<void> {
    await this.database.transaction(async (within) => {
      const [row] = await within.query<StoredRow>(TAKE_LOG, [id, this.process]);
      const last = row === undefined ? null : await this.reads.lastEvent(id, within);
      if (row !== undefined && last !== null)
        await this.writes.append(id, finalizer.missing(storedOf(row), last), null, within);
    });
  }
}
