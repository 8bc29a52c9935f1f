// Implements ResponseStore on PostgreSQL, shared by several processes: data saved by one process is immediately visible
// to the others. When a save resolves, it is on the database's disk. Owns the tables of stored responses, including
// this process's holds and background responses; event-loop thread only.

import { isResponseId } from '../../../shared/ids.js';
import type { StoredEvent } from '../../../shared/stored-event.js';
import type { FinishedUsage } from '../../../shared/usage-sink.js';
import type {
  Failed,
  HeldChain,
  ItemPage,
  ItemPageQuery,
  LogFinalizer,
  ResponseHead,
  ResponsePage,
  ResponseRecord,
  ResponseStore,
  StoredItem,
  StoredResponse,
} from '../../response-store.js';
import { OPEN_GATE } from '../../erase-gate.js';
import type { EraseGate } from '../../erase-gate.js';
import type { Database } from '../database.js';
import type { ProcessLease } from '../process-lease.js';
import { ResponseEnds } from './response-ends.js';
import { ResponseErasure } from './response-erasure.js';
import { ResponseHolds } from './response-holds.js';
import { ResponseItems } from './response-items.js';
import { ResponseReads } from './response-reads.js';
import { ResponseWrites } from './response-writes.js';

const DAY_S = 86_400;
const SWEEP_MS = 3_600_000;

export interface PostgresResponsesOptions {
  /** Seconds since the Unix epoch; tests replace the clock. */
  now?: () => number;
  /** Whether sweeps may erase. */
  gate?: EraseGate;
  /** Called when a sweep has failed. The next sweep retries. */
  onError?: (error: unknown) => void;
  /** Whether this instance sweeps, now and every hour. Several instances can do so concurrently. */
  sweeps?: boolean;
}

export function openPostgresResponses(
  database: Database,
  lease: ProcessLease,
  settings: { retention_days: number },
  options: PostgresResponsesOptions = {},
): ResponseStore {
  return new PostgresResponses(database, lease, settings.retention_days * DAY_S, options);
}

class PostgresResponses implements ResponseStore {
  readonly #process: string;
  readonly #reads: ResponseReads;
  readonly #items: ResponseItems;
  readonly #writes: ResponseWrites;
  readonly #erasure: ResponseErasure;
  readonly #holds: ResponseHolds;
  readonly #ends: ResponseEnds;
  readonly #timer: NodeJS.Timeout | null = null;
  readonly #stopListening: () => void = () => undefined;
  #sweeping: Promise<unknown> = Promise.resolve();

  constructor(
    database: Database,
    lease: ProcessLease,
    retentionS: number,
    {
      now = () => Date.now() / 1000,
      onError = () => undefined,
      gate = OPEN_GATE,
      sweeps = true,
    }: PostgresResponsesOptions,
  ) {
    this.#process = lease.id;
    this.#reads = new ResponseReads(database, now, retentionS);
    this.#items = new ResponseItems(database, this.#reads);
    this.#writes = new ResponseWrites(database, lease.id, now);
    this.#erasure = new ResponseErasure(database, now, retentionS, gate);
    this.#holds = new ResponseHolds(database, lease.id, (id) => this.#erasure.erase([id]));
    this.#ends = new ResponseEnds(database, lease.id, this.#reads, this.#writes, now);
    if (!sweeps) return;
    const sweep = (): Promise<unknown> => this.#erasure.sweep().catch(onError);
    this.#sweeping = sweep();
    const sweepNext = (): void => {
      this.#sweeping = this.#sweeping.then(sweep);
    };
    this.#timer = setInterval(sweepNext, SWEEP_MS).unref();
    this.#stopListening = gate.onAllowed(sweepNext);
  }

  save(record: ResponseRecord): Promise<void> {
    return this.#writes.save(record);
  }

  async head(organizationId: string, id: string): Promise<ResponseHead | null> {
    return isResponseId(id) ? this.#reads.head(organizationId, id) : null;
  }

  async size(organizationId: string, id: string): Promise<number> {
    return isResponseId(id) ? this.#reads.size(organizationId, id) : 0;
  }

  async get(organizationId: string, id: string): Promise<StoredResponse | null> {
    return isResponseId(id) ? this.#reads.get(organizationId, id) : null;
  }

  async chain(organizationId: string, id: string): Promise<HeldChain | null> {
    if (!isResponseId(id)) return null;
    const release = await this.#holds.begin(id);
    try {
      const responses = await this.#reads.chain(organizationId, id, this.#process);
      if (responses !== null && responses.length > 0) return { responses, release };
    } catch (error) {
      release();
      throw error;
    }
    release();
    return null;
  }

  async inputItems(
    organizationId: string,
    id: string,
    page: ItemPageQuery,
  ): Promise<ItemPage | 'no response' | 'no item'> {
    return isResponseId(id) ? this.#items.inputItems(organizationId, id, page) : 'no response';
  }

  items(organizationId: string, ids: Iterable<string>, maxSize: number): Promise<ReadonlyMap<string, StoredItem>> {
    return this.#items.items(organizationId, ids, maxSize);
  }

  list(organizationId: string, limit: number, after: string | null): Promise<ResponsePage | null> {
    return this.#reads.list(organizationId, limit, after);
  }

  eraseOrganization(organizationId: string): Promise<number> {
    return this.#erasure.eraseOrganization(organizationId);
  }

  async delete(organizationId: string, id: string): Promise<boolean> {
    return isResponseId(id) && this.#erasure.delete(organizationId, id);
  }

  appendEvents(id: string, events: readonly StoredEvent[], usage: FinishedUsage | null = null): Promise<void> {
    return this.#writes.append(id, events, usage);
  }

  async events(id: string, after: number, atLeast = Infinity): Promise<readonly StoredEvent[] | null> {
    return isResponseId(id) ? this.#reads.events(id, after, atLeast) : null;
  }

  async lastEvent(id: string): Promise<StoredEvent | null> {
    return isResponseId(id) ? this.#reads.lastEvent(id) : null;
  }

  /** Includes only responses of this process and of processes that have ended. */
  failUnfinished(
    finalizer: LogFinalizer,
    isRunning: (organizationId: string, id: string) => boolean | Promise<boolean> = () => false,
  ): AsyncIterable<Failed> {
    return this.#ends.failUnfinished(finalizer, isRunning);
  }

  async sweep(): Promise<number> {
    await Promise.all([this.#holds.settled(), this.#sweeping]);
    const done = this.#erasure.sweep();
    this.#sweeping = done.catch(() => undefined);
    return done;
  }

  async close(): Promise<void> {
    if (this.#timer !== null) clearInterval(this.#timer);
    this.#stopListening();
    this.#erasure.close();
    await Promise.allSettled([this.#sweeping, this.#writes.settled(), this.#holds.settled()]);
  }
}
