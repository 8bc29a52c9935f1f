// Admission within one process. All counters are in shared memory; each thread accesses them through its own
// LocalAdmission. Nearly all calls are synchronous. If one set of limits rejects the request, everything reserved in
// the other set is returned.

import { apiError } from '../shared/errors.js';
import type { ErrorFormat } from '../shared/errors.js';
import type { Config } from '../config/settings.js';
import type { Admission, Limited, LimitedOrganization, Reservation, ReserveRequest, Standing } from './admission.js';
import { COUNTER_BYTES } from './counter-memory.js';
import { Counters } from './counters.js';
import { LimitScopes } from './limit-scopes.js';
import type { LimitScope } from './limit-scopes.js';
import { rateLimitHeaders, tighter } from './headers.js';
import type { LimitState } from './headers.js';
import type { Limits } from './limits.js';
import { monthNumber, MonthUse } from './month-use.js';
import type { StoredMonth } from './month-use.js';
import { recordKey } from './record-key.js';
import { FULL, OVER, RecordTable } from './record-table.js';
import {
  capUsed,
  countsFull,
  nextSlotMs,
  noSlot,
  promptTooLong,
  tooManyChoices,
  tooManyRequests,
  tooManyTokens,
} from './refusals.js';

export interface LocalOptions {
  /** Returns monotonic time in nanoseconds. Tests replace this clock. */
  now?: () => bigint;
  /** Milliseconds since the Unix epoch, which determine the month. */
  wall?: () => number;
  buffer?: SharedArrayBuffer;
  /** This thread's ledger; see ledgerOf(). */
  ledger?: Int32Array;
  /** Reads the tokens stored as used in a month. A monthly cap's counter starts from this value. */
  storedMonth?: StoredMonth;
  /** Returns this process's share of the limits if several processes share them. If absent, the full limits apply. */
  part?: (limits: Limits) => Limits;
}

/** A limit scope that has counted the request. `tokens`: the number of tokens reserved in it. */
interface Taken {
  readonly record: number;
  readonly limits: Limits;
  request: boolean;
  tokens: number;
}

export class LocalAdmission implements Admission {
  private readonly table: RecordTable;
  private readonly counters: Counters;
  private readonly months: MonthUse;
  private readonly scopes: LimitScopes;
  private readonly now: () => bigint;
  private readonly wall: () => number;

  constructor(
    private readonly limits: Config['limits'],
    options: LocalOptions = {},
  ) {
    this.now = options.now ?? process.hrtime.bigint;
    this.wall = options.wall ?? Date.now;
    this.table = new RecordTable(options.buffer ?? new SharedArrayBuffer(COUNTER_BYTES), {
      now: this.now,
      month: () => monthNumber(this.wall()),
      ledger: options.ledger,
    });
    this.counters = new Counters(this.table);
    this.scopes = new LimitScopes(limits, options.part);
    this.months = new MonthUse(this.table, options.storedMonth ?? (() => Promise.resolve(0)), this.wall);
  }

  /** Synchronous, except that the first request under a monthly cap has to read the stored usage. */
  reserve(request: ReserveRequest): Reservation | Promise<Reservation> {
    const { identity, model, promptTokens, n } = request;
    const counted = this.checkCap(identity, model);
    if (counted !== null) return counted.then(() => this.reserve(request));
    const outputEach = request.statedCap ?? Math.min(request.modelMaximum, this.limits.tpm_default_reservation);
    const wanted = promptTokens.tokens + n * outputEach;
    const scopes = this.scopes.of(identity, model);
    const taken: Taken[] = [];
    const now = this.now();
    try {
      for (const scope of scopes) taken.push(this.enter(scope, identity, model, n));
      for (const [at, one] of taken.entries())
        this.takeRequest(scopes[at] as LimitScope, { one, taken, request, wanted, now });
      for (const [at, one] of taken.entries())
        this.takeTokens(scopes[at] as LimitScope, { one, taken, request, wanted, now });
    } catch (error) {
      this.giveBack(taken, 0, n, now);
      throw error;
    }

    let open = true;
    const close = (tokens: number, refunded: boolean): void => {
      if (!open) return;
      open = false;
      const at = this.now();
      if (!refunded) {
        for (const one of taken) {
          one.request = false; // stays counted after the request ends
          this.table.took(one.record, Number(at - now) / 1e6);
        }
        this.months.add(identity.organizationId, tokens, identity.monthlyTokenCap !== null);
      }
      this.giveBack(taken, tokens, n, at);
    };
    return {
      headers: (format) => this.headers(identity, model, format),
      settle: (tokens) => close(tokens, false),
      refund: () => close(0, true),
    };
  }

  headers(identity: Limited, model: string, format: ErrorFormat): [string, string][] {
    const [organization, key] = this.scopes.of(identity, model).map((scope) => this.stateOf(scope));
    return rateLimitHeaders(
      key === undefined ? (organization as LimitState) : tighter(organization as LimitState, key),
      format,
      this.wall(),
    );
  }

  standing(organization: LimitedOrganization, model: string): Standing {
    const scope = this.scopes.organization(organization, model);
    return { state: this.stateOf(scope), unfinished: this.countOf(scope.key) };
  }

  leaveAll(ledger: Int32Array): void {
    this.table.leaveAll(ledger);
  }

  /** Total number of unfinished requests. Walks the whole table. */
  unfinished(): number {
    return this.table.unfinished();
  }

  limitsOf(organization: LimitedOrganization, model: string): Limits {
    return this.scopes.limitsOf(organization, model);
  }

  health(): null {
    return null;
  }

  close(): Promise<void> {
    return Promise.resolve();
  }

  read(identity: Pick<Limited, 'keyId'>): void {
    const limit = this.limits.read_rpm;
    if (limit === null) return;
    const record = this.table.enter(recordKey('reads', identity.keyId), 1, null);
    if (record < 0) throw countsFull();
    const wait = this.counters.take(record, 'rpm', 1, limit, this.now());
    this.table.leave(record, 1);
    if (wait > 0) {
      throw apiError(
        'rpm_limit_exceeded',
        `Too many model, token-count and stored-response requests per minute for this API key; the limit is ${limit}.`,
        null,
        { retryAfterMs: wait },
      );
    }
  }

  connect(organizationId: string, limit: number): () => void {
    const record = this.table.enter(recordKey('sockets', organizationId), 1, limit);
    if (record === OVER) {
      throw apiError(
        'concurrency_limit_exceeded',
        `This organization has reached its limit of ${limit} open WebSocket connections.`,
        null,
        { retryAfterMs: 1000 },
      );
    }
    if (record < 0) throw countsFull();
    let open = true;
    return () => {
      if (open) this.table.leave(record, 1);
      open = false;
    };
  }

  /** Returns a promise if the cap cannot be checked yet; the caller repeats the check after it resolves. */
  private checkCap(identity: Limited, model: string): Promise<void> | null {
    const { monthlyTokenCap: cap, organizationId } = identity;
    if (cap === null) return null;
    const used = this.months.used(organizationId);
    if (used === null) throw countsFull();
    if (typeof used !== 'number') return used;
    if (used < cap) return null;
    throw capUsed(cap, monthNumber(this.wall()), (format) => this.headers(identity, model, format));
  }

  private enter({ owner, key, limits }: LimitScope, identity: Limited, model: string, n: number): Taken {
    const limit = limits.concurrency;
    const headers = (format: ErrorFormat): [string, string][] => this.headers(identity, model, format);
    if (limit !== null && n > limit) throw tooManyChoices(owner, n, limit, headers);
    const record = this.table.enter(key, n, limit);
    if (record === OVER) throw noSlot(owner, model, limit ?? 0, this.nextFinish(key), headers);
    if (record === FULL) throw countsFull();
    return { record, limits, request: false, tokens: 0 };
  }

  private nextFinish(key: Int32Array): number {
    const record = this.table.find(key);
    return record < 0 ? 1000 : nextSlotMs(this.table.meanMs(record), this.table.count(record));
  }

  private countOf(key: Int32Array): number {
    const record = this.table.find(key);
    return record < 0 ? 0 : this.table.count(record);
  }

  private takeRequest(
    { owner, limits }: LimitScope,
    {
      one,
      taken,
      request,
      wanted,
      now,
    }: { one: Taken; taken: readonly Taken[]; request: ReserveRequest; wanted: number; now: bigint },
  ): void {
    if (limits.rpm === null) return;
    one.request = this.counters.take(one.record, 'rpm', 1, limits.rpm, now) === 0;
    if (one.request) return;
    throw tooManyRequests(owner, request.model, limits.rpm, this.waitMs(taken, wanted, now), this.headersFor(request));
  }

  private takeTokens(
    { owner, limits }: LimitScope,
    {
      one,
      taken,
      request,
      wanted,
      now,
    }: { one: Taken; taken: readonly Taken[]; request: ReserveRequest; wanted: number; now: bigint },
  ): void {
    const { tpm } = limits;
    if (tpm === null) return;
    const { promptTokens, model } = request;
    // A permanent rejection requires an exact token count. With an estimate, the request reserves the whole bucket
    // instead.
    if (promptTokens.exact && promptTokens.tokens > tpm)
      throw promptTooLong(owner, model, promptTokens.tokens, tpm, this.headersFor(request));
    const reserved = Math.min(wanted, tpm);
    if (this.counters.take(one.record, 'tpm', reserved, tpm, now) === 0) {
      one.tokens = reserved;
      return;
    }
    const wait = this.waitMs(taken, wanted, now);
    throw tooManyTokens(owner, model, { reserved, limit: tpm }, wait, this.headersFor(request));
  }

  private headersFor({ identity, model }: ReserveRequest): (format: ErrorFormat) => [string, string][] {
    return (format) => this.headers(identity, model, format);
  }

  /** Returns the time until every bucket has enough for the request, not only the bucket that rejected it first. */
  private waitMs(taken: readonly Taken[], wanted: number, now: bigint): number {
    let wait = 1;
    for (const {
      record,
      limits: { rpm, tpm },
      request,
      tokens,
    } of taken) {
      // Skips buckets that this request has already taken from, because that amount will be returned.
      if (rpm !== null && !request) wait = Math.max(wait, this.counters.wait(record, 'rpm', 1, rpm, now));
      if (tpm !== null && tokens === 0)
        wait = Math.max(wait, this.counters.wait(record, 'tpm', Math.min(wanted, tpm), tpm, now));
    }
    return wait;
  }

  /**
   * Returns everything in `taken` to the limits, except `used` tokens. Frees the concurrency slots last, because they
   * pin the records.
   */
  private giveBack(taken: readonly Taken[], used: number, n: number, now: bigint): void {
    for (const { record, limits, request, tokens } of taken) {
      if (limits.tpm !== null) this.counters.give(record, 'tpm', tokens - used, limits.tpm, now);
      if (limits.rpm !== null && request) this.counters.give(record, 'rpm', 1, limits.rpm, now);
      this.table.leave(record, n);
    }
  }

  private stateOf({ key, limits }: LimitScope): LimitState {
    const record = this.table.find(key);
    const now = this.now();
    return {
      requests: limits.rpm === null ? null : this.counters.state(record, 'rpm', limits.rpm, now),
      tokens: limits.tpm === null ? null : this.counters.state(record, 'tpm', limits.tpm, now),
      concurrency:
        limits.concurrency === null
          ? null
          : {
              limit: limits.concurrency,
              remaining: Math.max(0, limits.concurrency - (record < 0 ? 0 : this.table.count(record))),
            },
    };
  }
}
