// Implements BatchStore in LMDB. Tables, keys and values (- = no value, only the key is used):
//
//   batches                  id                        the batch and its job lease
//   batches-by-organization  [organization, kind, id]  -; sorted by age, because IDs start with the time
//   batch-lines              [id, line]                custom ID and body of a line that has not ended
//   batch-queue              [id, line]                the lease of an unfinished line
//   batch-results            [id, line]                the result of a line that has ended
//   batch-times              ['active', id]            -; the batch has not ended
//                            ['ended', ms, id]         -; the time at which the batch ended
//                            ['erase', 0, id]          -; rows of the batch are still to be erased
//
// To delete a batch, a transaction first removes it from `batches`, so that it can no longer be found. Its lines and
// results are then erased in short transactions. After a crash, the sweep continues the erasure.

import { base62, isBatchId } from '../../../shared/ids.js';
import {
  begun,
  CLAIMED_CHARACTERS,
  ended,
  ERASED_AT_ONCE,
  failed,
  inTurns,
  lineEnded,
  newBatchRow,
  openLines,
  stoppedOutcome,
  stopping,
  tooManyBatches,
  UNBEGUN_MS,
} from '../../batch-store.js';
import type {
  Batch,
  BatchKind,
  BatchListQuery,
  BatchPage,
  BatchProblem,
  BatchStore,
  Claim,
  ClaimedLine,
  LineResult,
  NewBatch,
  NewLine,
  StoredResult,
} from '../../batch-store.js';
import { OPEN_GATE } from '../../erase-gate.js';
import type { EraseGate } from '../../erase-gate.js';
import type { Key, Store, Table } from '../../store.js';

const DAY_MS = 86_400_000;
// Upper bound of key ranges: sorts after every number and string that occurs in keys.
const AFTER_ALL = '\u{10ffff}';

interface Row {
  readonly batch: Batch;
  /** The job lease: the process that validates, stops or finalizes the batch, and when its lease expires. */
  readonly job: { readonly owner: string; readonly until: number };
}

/** The lease on a line. If `owner` is '', the line is not claimed, and can be claimed from the time `until`. */
interface Lease {
  readonly owner: string;
  readonly token: string;
  readonly until: number;
  readonly lost: number;
}

type Line = Pick<NewLine, 'customId' | 'body'>;
type Result = Omit<StoredResult, 'line'>;

const NO_JOB: Row['job'] = { owner: '', until: 0 };
const WAITING: Lease = { owner: '', token: '', until: 0, lost: 0 };

export interface BatchStoreOptions {
  /** Returns milliseconds since 1970. Tests replace this clock. */
  now?: () => number;
  gate?: EraseGate;
}

export class LmdbBatchStore implements BatchStore {
  readonly #batches: Table<Row>;
  readonly #owned: Table<[]>;
  readonly #lines: Table<Line>;
  readonly #queue: Table<Lease>;
  readonly #results: Table<Result>;
  readonly #times: Table<[]>;
  readonly #retentionMs: number;
  readonly #now: () => number;
  readonly #gate: EraseGate;
  #turn = 0;

  constructor(
    private readonly store: Store,
    settings: { retention_days: number },
    { now = Date.now, gate = OPEN_GATE }: BatchStoreOptions = {},
  ) {
    this.#batches = store.table('batches');
    this.#owned = store.table('batches-by-organization');
    this.#lines = store.table('batch-lines');
    this.#queue = store.table('batch-queue');
    this.#results = store.table('batch-results');
    this.#times = store.table('batch-times');
    this.#retentionMs = settings.retention_days * DAY_MS;
    this.#now = now;
    this.#gate = gate;
  }

  create(batch: NewBatch, maxActive: number): Promise<void> {
    return this.store.transaction(() => {
      const own = this.#active().filter(({ organizationId }) => organizationId === batch.organizationId);
      if (own.length >= maxActive) throw tooManyBatches(maxActive);
      void this.#batches.put(batch.id, { batch: newBatchRow(batch), job: NO_JOB });
      void this.#owned.put([batch.organizationId, batch.kind, batch.id], []);
      void this.#times.put(['active', batch.id], []);
    });
  }

  addLines(id: string, lines: readonly NewLine[]): Promise<void> {
    return this.store.transaction(() => {
      if (this.#batches.get(id)?.batch.phase !== 'validating') return;
      for (const { line, customId, body } of lines) {
        void this.#lines.put([id, line], { customId, body });
        void this.#queue.put([id, line], WAITING);
      }
    });
  }

  begin(id: string, total: number, model: string | null): Promise<boolean> {
    return this.store.transaction(() => {
      const row = this.#batches.get(id);
      if (row?.batch.phase !== 'validating') return false;
      this.#put(begun(row.batch, total, model, this.#now()));
      return true;
    });
  }

  async fail(id: string, problems: readonly BatchProblem[]): Promise<void> {
    const isDone = await this.store.transaction(() => {
      const row = this.#batches.get(id);
      if (row?.batch.phase !== 'validating') return false;
      this.#put(failed(row.batch, problems, this.#now()));
      void this.#times.put(['erase', 0, id], []);
      return true;
    });
    if (isDone) await this.#eraseRows(id, [this.#lines, this.#queue]);
  }

  async get(organizationId: string, id: string): Promise<Batch | null> {
    this.store.refresh();
    return this.#readable(organizationId, id);
  }

  async list(organizationId: string, kind: BatchKind, { after, before, limit }: BatchListQuery): Promise<BatchPage> {
    this.store.refresh();
    const isNewer = before != null;
    const found: Batch[] = [];
    const range = isNewer
      ? { from: [organizationId, kind, `${before}\0`], to: [organizationId, kind, AFTER_ALL] }
      : {
          from: [organizationId, kind, after ?? AFTER_ALL],
          to: [organizationId, kind],
          reverse: true,
        };
    for (const key of this.#owned.keys(range)) {
      const id = (key as [string, string, string])[2];
      if (id === after) continue;
      const batch = this.#readable(organizationId, id);
      if (batch === null) continue;
      found.push(batch);
      if (found.length > limit) break;
    }
    const batches = found.slice(0, limit);
    return { batches: isNewer ? batches.reverse() : batches, more: found.length > limit };
  }

  cancel(organizationId: string, id: string): Promise<Batch | null> {
    return this.store.transaction(() => {
      const batch = this.#readable(organizationId, id);
      if (batch === null) return null;
      const changed = stopping(batch, 'cancelled', this.#now());
      if (changed !== batch) this.#put(changed, NO_JOB);
      return changed;
    });
  }

  async delete(organizationId: string, id: string): Promise<boolean> {
    const isFound = await this.store.transaction(() => {
      const batch = this.#readable(organizationId, id);
      if (batch?.phase !== 'ended') return false;
      this.#forget(batch);
      return true;
    });
    if (isFound) await this.#eraseRows(id);
    return isFound;
  }

  async claim(
    owner: string,
    limit: number,
    leaseMs: number,
    except: ReadonlySet<string> = new Set(),
  ): Promise<ClaimedLine[]> {
    if (!this.#isAnyActive()) return [];
    return this.store.transaction(() => {
      const now = this.#now();
      const running = inTurns(
        this.#active().filter(
          ({ id, phase, organizationId }) => phase === 'running' && !except.has(organizationId) && !except.has(id),
        ),
        this.#turn++,
      );
      const queues = running.map((batch) => ({ batch, lines: this.#waiting(batch.id, now) }));
      const claimed: ClaimedLine[] = [];
      let characters = 0;
      const isFull = (): boolean => claimed.length >= limit || characters >= CLAIMED_CHARACTERS;
      for (let isAny = true; isAny && !isFull(); ) {
        isAny = false;
        for (const { batch, lines } of queues) {
          if (isFull()) break;
          const next = lines.next();
          if (next.done === true) continue;
          isAny = true;
          const line = this.#claim(batch, next.value, owner, now + leaseMs);
          claimed.push(line);
          characters += line.body.length;
        }
      }
      return claimed;
    });
  }

  renew(claims: readonly Claim[], leaseMs: number): Promise<{ claim: Claim; stop: 'canceled' | 'expired' | null }[]> {
    return this.store.transaction(() => {
      const until = this.#now() + leaseMs;
      return claims.flatMap((claim) => {
        const lease = this.#held(claim);
        const batch = this.#batches.get(claim.batch.id)?.batch;
        if (lease === null || batch === undefined) return [];
        void this.#queue.put([batch.id, claim.line], { ...lease, until });
        return [{ claim, stop: batch.phase === 'stopping' ? stoppedOutcome(batch) : null }];
      });
    });
  }

  release(claim: Claim, delayMs: number): Promise<void> {
    return this.store.transaction(() => {
      const lease = this.#held(claim);
      if (lease === null) return;
      const until = delayMs === 0 ? 0 : this.#now() + delayMs;
      void this.#queue.put([claim.batch.id, claim.line], { ...WAITING, until, lost: lease.lost });
    });
  }

  finish(claim: Claim, result: LineResult): Promise<boolean> {
    return this.store.transaction(() => {
      const row = this.#batches.get(claim.batch.id);
      if (row === undefined || this.#held(claim) === null) return false;
      this.#end(row, [claim.line], result);
      return true;
    });
  }

  async releaseOthers(owner: string): Promise<void> {
    for (const { id } of this.#active())
      await this.store.transaction(() => {
        const row = this.#batches.get(id);
        if (row !== undefined && row.job.owner !== owner) this.#put(row.batch, NO_JOB);
        for (const { key, value } of this.#queue.range(below(id)))
          if (value.owner !== owner && value.owner !== '')
            void this.#queue.put(key, { ...WAITING, lost: value.lost + 1 });
      });
  }

  async claimJob(owner: string, leaseMs: number): Promise<Batch | null> {
    if (!this.#isAnyActive()) return null;
    return this.store.transaction(() => {
      const now = this.#now();
      for (const { id, phase, kind } of this.#active()) {
        const row = this.#batches.get(id);
        if (row === undefined || row.job.until > now || phase === 'running') continue;
        if (phase === 'validating' && kind === 'messages') continue;
        this.#put(row.batch, { owner, until: now + leaseMs });
        return row.batch;
      }
      return null;
    });
  }

  renewJob(id: string, owner: string, leaseMs: number): Promise<boolean> {
    return this.store.transaction(() => {
      const row = this.#batches.get(id);
      if (row?.job.owner !== owner) return false;
      this.#put(row.batch, { owner, until: this.#now() + leaseMs });
      return true;
    });
  }

  releaseJob(id: string, owner: string, delayMs: number): Promise<void> {
    return this.store.transaction(() => {
      const row = this.#batches.get(id);
      if (row?.job.owner === owner) this.#put(row.batch, { owner: '', until: this.#now() + delayMs });
    });
  }

  async expire(): Promise<number> {
    const now = this.#now();
    this.store.refresh();
    const over = this.#active().filter(
      ({ phase, expiresAt }) => (phase === 'running' || phase === 'validating') && expiresAt <= now,
    );
    for (const { id } of over)
      await this.store.transaction(() => {
        const row = this.#batches.get(id);
        if (row !== undefined) this.#put(stopping(row.batch, 'expired', now), NO_JOB);
      });
    return over.length;
  }

  stopLines(id: string, limit: number): Promise<number> {
    return this.store.transaction(() => {
      const row = this.#batches.get(id);
      if (row?.batch.phase !== 'stopping') return 0;
      const now = this.#now();
      const lines: number[] = [];
      for (const { key, value } of this.#queue.range(below(id))) {
        if (lines.length === limit) break;
        if (value.owner === '' || value.until <= now) lines.push(lineOf(key));
      }
      this.#end(row, lines, { outcome: stoppedOutcome(row.batch), text: '', usage: null });
      return lines.length;
    });
  }

  async end(id: string, files: { outputFileId: string | null; errorFileId: string | null }): Promise<boolean> {
    const isDone = await this.store.transaction(() => {
      const row = this.#batches.get(id);
      if (row?.batch.phase !== 'finalizing') return false;
      this.#put(ended(row.batch, files, this.#now()));
      void this.#times.put(['erase', 0, id], []);
      return true;
    });
    // A batch that was cancelled or expired during validation may still have lines, which are not part of `total`.
    if (isDone) await this.#eraseRows(id, [this.#lines, this.#queue]);
    return isDone;
  }

  async results(id: string, after: number, maxBytes: number): Promise<readonly StoredResult[]> {
    this.store.refresh();
    const found: StoredResult[] = [];
    let bytes = 0;
    for (const { key, value } of this.#results.range({ from: [id, after + 1], to: [id, AFTER_ALL] })) {
      found.push({ line: lineOf(key), ...value });
      bytes += value.text.length;
      if (bytes >= maxBytes || found.length === ERASED_AT_ONCE) break;
    }
    return found;
  }

  async dropResults(id: string): Promise<void> {
    await this.#times.put(['erase', 0, id], []);
    await this.#eraseRows(id, [this.#results]);
  }

  async counts(): Promise<{ running: number; waiting: number }> {
    this.store.refresh();
    const now = this.#now();
    let running = 0;
    let open = 0;
    for (const batch of this.#active()) {
      if (batch.phase !== 'running') continue;
      open += openLines(batch);
      // Lines are claimed in order, so running lines are near the start. The scan stops after many waiting lines.
      let waiting = 0;
      for (const { value } of this.#queue.range(below(batch.id))) {
        if (value.owner !== '' && value.until > now) running++;
        else if (++waiting >= ERASED_AT_ONCE) break;
      }
    }
    return { running, waiting: open - running };
  }

  async eraseOrganization(organizationId: string): Promise<void> {
    const ids = [...this.#owned.keys({ from: [organizationId], to: [organizationId, AFTER_ALL] })].map(
      (key) => (key as [string, string, string])[2],
    );
    for (const id of ids) {
      await this.store.transaction(() => {
        const row = this.#batches.get(id);
        if (row !== undefined) this.#forget(row.batch);
      });
      await this.#eraseRows(id);
    }
  }

  async sweep(): Promise<number> {
    const interrupted = [...this.#times.keys(below('erase'))].map((key) => (key as [string, number, string])[2]);
    for (const id of interrupted) {
      const batch = this.#batches.get(id)?.batch;
      if (batch === undefined) await this.#eraseRows(id);
      else if (batch.phase === 'ended')
        await this.#eraseRows(id, [this.#lines, this.#queue, ...(batch.kind === 'openai' ? [this.#results] : [])]);
    }
    const now = this.#now();
    const until = now - this.#retentionMs;
    const over = [...this.#times.keys({ from: ['ended'], to: ['ended', until, AFTER_ALL] })].map(
      (key) => (key as [string, number, string])[2],
    );
    const unbegun = this.#active()
      .filter(
        ({ phase, kind, createdAt }) => phase === 'validating' && kind === 'messages' && createdAt + UNBEGUN_MS <= now,
      )
      .map(({ id }) => id);
    let erased = 0;
    for (const id of [...over, ...unbegun]) {
      if (!this.#gate.allows()) break;
      await this.store.transaction(() => {
        const row = this.#batches.get(id);
        if (row !== undefined) this.#forget(row.batch);
      });
      await this.#eraseRows(id);
      erased++;
    }
    return erased;
  }

  /** Returns the unfinished batches, from the oldest to the newest. */
  #active(): Batch[] {
    return [...this.#times.keys(below('active'))].flatMap((key) => {
      const row = this.#batches.get((key as [string, string])[1]);
      return row === undefined ? [] : [row.batch];
    });
  }

  /**
   * Whether any batch has not ended. If there is none, a write transaction, and thus the writer lock, can be
   * avoided.
   */
  #isAnyActive(): boolean {
    this.store.refresh();
    for (const _ of this.#times.keys({ ...below('active'), limit: 1 })) return true;
    return false;
  }

  #readable(organizationId: string, id: string): Batch | null {
    const batch = isBatchId(id) ? this.#batches.get(id)?.batch : undefined;
    if (batch === undefined || batch.organizationId !== organizationId) return null;
    return batch.endedAt !== null && batch.endedAt + this.#retentionMs <= this.#now() ? null : batch;
  }

  /** Yields the lines that can be claimed now, with their leases. */
  *#waiting(id: string, now: number): Generator<{ line: number; lease: Lease }> {
    for (const { key, value } of this.#queue.range(below(id)))
      if (value.until <= now) yield { line: lineOf(key), lease: value };
  }

  /** Claims a line until the time `until`. Must be called within a transaction. */
  #claim(batch: Batch, { line, lease }: { line: number; lease: Lease }, owner: string, until: number): ClaimedLine {
    const lost = lease.owner === '' ? lease.lost : lease.lost + 1;
    const token = base62(12);
    void this.#queue.put([batch.id, line], { owner, token, until, lost });
    const { customId, body } = this.#lines.get([batch.id, line]) as Line;
    return { batch, line, customId, body, token, lost };
  }

  /** Returns the lease of a valid claim, otherwise null. An expired lease is valid until the line is claimed again. */
  #held({ batch: { id }, line, token }: Claim): Lease | null {
    const lease = this.#queue.get([id, line]);
    return lease === undefined || lease.token !== token || token === '' ? null : lease;
  }

  /** Stores the same result for several lines of a batch, which completes them. Must be called within a transaction. */
  #end({ batch, job }: Row, lines: readonly number[], result: LineResult): void {
    let changed = batch;
    const now = this.#now();
    for (const line of lines) {
      const { customId } = this.#lines.get([batch.id, line]) as Line;
      void this.#results.put([batch.id, line], { customId, outcome: result.outcome, text: result.text });
      void this.#queue.remove([batch.id, line]);
      void this.#lines.remove([batch.id, line]);
      changed = lineEnded(changed, result, now);
    }
    if (lines.length > 0) this.#put(changed, changed.phase === batch.phase ? job : NO_JOB);
  }

  /**
   * Stores a changed batch. If `job` is not set, the job lease does not change. Must be called within a
   * transaction.
   */
  #put(batch: Batch, job?: Row['job']): void {
    const before = this.#batches.get(batch.id);
    void this.#batches.put(batch.id, { batch, job: job ?? before?.job ?? NO_JOB });
    if (batch.endedAt === null || before?.batch.endedAt !== null) return;
    void this.#times.remove(['active', batch.id]);
    void this.#times.put(['ended', batch.endedAt, batch.id], []);
  }

  /**
   * Removes a batch so that it cannot be found. Must be called within a transaction, followed by #eraseRows() to
   * erase the other rows.
   */
  #forget({ id, organizationId, kind, endedAt }: Batch): void {
    void this.#batches.remove(id);
    void this.#owned.remove([organizationId, kind, id]);
    void this.#times.remove(['active', id]);
    if (endedAt !== null) void this.#times.remove(['ended', endedAt, id]);
    void this.#times.put(['erase', 0, id], []);
  }

  /** Erases the rows of a batch from `tables` in short transactions, then removes its 'erase' key. */
  async #eraseRows(
    id: string,
    tables: readonly Table<never>[] | readonly Table<unknown>[] = [
      this.#lines,
      this.#queue,
      this.#results,
    ] as Table<unknown>[],
  ): Promise<void> {
    const first = { ...below(id), limit: ERASED_AT_ONCE };
    for (const table of tables as Table<unknown>[])
      for (let keys = [...table.keys(first)]; keys.length > 0; keys = [...table.keys(first)])
        await this.store.transaction(() => {
          for (const key of keys) void table.remove(key);
        });
    await this.#times.remove(['erase', 0, id]);
  }
}

const lineOf = (key: Key): number => (key as [string, number])[1];

const below = (start: string): { from: Key; to: Key } => ({ from: [start], to: [start, AFTER_ALL] });
