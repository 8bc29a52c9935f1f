// The gate in front of generation: limits per organization and model, and within them those of the key. A
// request reserves concurrency, one request and its tokens, in this order, of both; a refusal gives back what
// was taken, so it leaves no trace. At the end the reservation is settled to what was used, or refunded if
// nothing was produced. All counting is in shared memory: any number of threads, each with an Admission on it.

import { apiError } from '../errors.js';
import type { ApiError, ErrorCode, WireShape } from '../errors.js';
import type { Config } from '../config/settings.js';
import type { Identity } from '../identity/identity.js';
import type { TokenCount } from '../shared/token-count.js';
import { Counters } from './counters.js';
import { rateLimitHeaders, tighter } from './headers.js';
import type { LimitState } from './headers.js';
import { keyLimits, organizationLimits } from './limits.js';
import type { Limits } from './limits.js';
import { monthName, monthNumber, MonthUse } from './month-use.js';
import type { StoredMonth } from './month-use.js';
import { recordKey } from './record-key.js';
import { FULL, OVER, RecordTable, tableBytes } from './record-table.js';

/** What the gate looks at of who asks. */
export type Limited = Pick<Identity, 'organizationId' | 'limits' | 'keyId' | 'keyLimits' | 'monthlyTokenCap'>;

export interface ReserveRequest {
  identity: Limited;
  model: string;
  /** After templating, cached ones included. An estimate is reserved like a true number; settle() is told the truth. */
  promptTokens: TokenCount;
  /** The client's output cap for one choice after clamping; null if it stated none. */
  statedCap: number | null;
  /** The model's own output maximum. */
  modelMaximum: number;
  n: number;
}

export interface Reservation {
  /** Rate-limit headers with values after the reservation. */
  headers(shape: WireShape): [string, string][];
  /** The end of a request that ran: `tokens` = prompt plus everything generated. Later calls do nothing. */
  settle(tokens: number): void;
  /** The request failed before its first token: it never counted. Later calls do nothing. */
  refund(): void;
}

const RECORDS = 131_072;
/** Of the memory that all threads count in. Untouched parts of it cost nothing. */
export const COUNTER_BYTES = tableBytes(RECORDS);
/** Of the memory in which each of `threads` threads writes down what it has admitted. */
export const ledgerBytes = (threads: number): number => threads * RECORDS * Int32Array.BYTES_PER_ELEMENT;
/** What thread `index` (1 and up) has admitted and not finished: to be taken back if it ends by itself. */
export const ledgerOf = (buffer: SharedArrayBuffer, index: number): Int32Array =>
  new Int32Array(buffer, (index - 1) * RECORDS * Int32Array.BYTES_PER_ELEMENT, RECORDS);

export interface AdmissionOptions {
  /** Monotonic nanoseconds; tests turn the clock. */
  now?: () => bigint;
  /** Milliseconds since 1970: which month it is. */
  wall?: () => number;
  buffer?: SharedArrayBuffer;
  /** Of this thread, see ledgerOf(). */
  ledger?: Int32Array;
  /** Tokens stored of a month, where a cap's counting begins. */
  storedMonth?: StoredMonth;
}

/** One of the two that must both admit. */
interface Gate { readonly whose: 'organization' | 'API key'; readonly key: Int32Array; readonly limits: Limits }
/** A gate that the request is in; `tokens`: reserved there. */
interface Taken { readonly record: number; readonly limits: Limits; request: boolean; tokens: number }

export class Admission {
  private readonly table: RecordTable;
  private readonly counters: Counters;
  private readonly months: MonthUse;
  private readonly now: () => bigint;
  private readonly wall: () => number;

  constructor(private readonly limits: Config['limits'], options: AdmissionOptions = {}) {
    this.now = options.now ?? process.hrtime.bigint;
    this.wall = options.wall ?? Date.now;
    this.table = new RecordTable(options.buffer ?? new SharedArrayBuffer(COUNTER_BYTES), { now: this.now, month: () => monthNumber(this.wall()), ledger: options.ledger });
    this.counters = new Counters(this.table);
    this.months = new MonthUse(this.table, options.storedMonth ?? (() => Promise.resolve(0)), this.wall);
  }

  /**
   * At once, but with the first request under a monthly cap: what was used before it has to be looked up. Throws or
   * rejects with ApiError 429, or 503 when too many are counted for; then nothing is taken.
   */
  reserve(request: ReserveRequest): Reservation | Promise<Reservation> {
    const { identity, model, promptTokens, n } = request;
    const counted = this.checkCap(identity, model);
    if (counted !== null) return counted.then(() => this.reserve(request));
    const outputEach = request.statedCap ?? Math.min(request.modelMaximum, this.limits.tpm_default_reservation);
    const wanted = promptTokens.tokens + n * outputEach;
    const gates = this.gates(identity, model);
    const taken: Taken[] = [];
    const now = this.now();
    try {
      for (const gate of gates) taken.push(this.enter(gate, identity, model, n));
      for (const [at, one] of taken.entries()) this.takeRequest(gates[at] as Gate, one, taken, request, wanted, now);
      for (const [at, one] of taken.entries()) this.takeTokens(gates[at] as Gate, one, taken, request, wanted, now);
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
          one.request = false;   // stays counted
          this.table.took(one.record, Number(at - now) / 1e6);
        }
        this.months.add(identity.organizationId, tokens, identity.monthlyTokenCap !== null);
      }
      this.giveBack(taken, tokens, n, at);
    };
    return {
      headers: (shape) => this.headers(identity, model, shape),
      settle: (tokens) => close(tokens, false),
      refund: () => close(0, true),
    };
  }

  /** Where the limits stand now, as the headers of either format: the tighter of the organization's and the key's. */
  headers(identity: Limited, model: string, shape: WireShape): [string, string][] {
    const [organization, key] = this.gates(identity, model).map((gate) => this.stateOf(gate));
    return rateLimitHeaders(key === undefined ? organization as LimitState : tighter(organization as LimitState, key), shape, this.wall());
  }

  /** Where an organization's own limits stand on a model. */
  state(organization: Pick<Limited, 'organizationId' | 'limits'>, model: string): LimitState {
    return this.stateOf(this.organizationGate(organization, model));
  }

  /** Takes back what a thread that has ended by itself had admitted. */
  leaveAll(ledger: Int32Array): void {
    this.table.leaveAll(ledger);
  }

  /** Requests of the organization on the model that are not finished. */
  unfinishedOn(organizationId: string, model: string): number {
    const record = this.table.find(recordKey('organization', organizationId, model));
    return record < 0 ? 0 : this.table.count(record);
  }

  /** Of everything there is a count of; walks all memory. */
  unfinished(): number {
    return this.table.unfinished();
  }

  limitsOf(organization: Pick<Limited, 'organizationId' | 'limits'>, model: string): Limits {
    return organizationLimits(this.limits, organization.organizationId, organization.limits, model);
  }

  /** One request of a key that generates nothing (limits.read_rpm). Throws ApiError 429. */
  read(identity: Pick<Limited, 'keyId'>): void {
    const limit = this.limits.read_rpm;
    if (limit === null) return;
    const record = this.table.enter(recordKey('reads', identity.keyId), 1, null);
    if (record < 0) throw full();
    const wait = this.counters.take(record, 'rpm', 1, limit, this.now());
    this.table.leave(record, 1);
    if (wait > 0) {
      throw apiError('rpm_limit_exceeded', `Too many requests per minute of this API key for models, counts and stored responses; the limit is ${limit}.`, null, { retryAfterMs: wait });
    }
  }

  /** Takes one of `limit` places for a WebSocket connection. Throws ApiError 429, 503. Returns how to leave it, which works once. */
  connect(organizationId: string, limit: number): () => void {
    const record = this.table.enter(recordKey('sockets', organizationId), 1, limit);
    if (record === OVER) {
      throw apiError('concurrency_limit_exceeded', `This organization has ${limit} WebSocket connections open, the most it may have.`, null, { retryAfterMs: 1000 });
    }
    if (record < 0) throw full();
    let open = true;
    return () => {
      if (open) this.table.leave(record, 1);
      open = false;
    };
  }

  /** A promise: of the time when it can be checked. */
  private checkCap(identity: Limited, model: string): Promise<void> | null {
    const { monthlyTokenCap: cap, organizationId } = identity;
    if (cap === null) return null;
    const used = this.months.used(organizationId);
    if (used === null) throw full();
    if (typeof used !== 'number') return used;
    if (used < cap) return null;
    const month = monthName(monthNumber(this.wall()));
    throw apiError('insufficient_quota', `This organization has used its ${cap} tokens of ${month}.`, null, { headers: (shape) => this.headers(identity, model, shape) });
  }

  private gates(identity: Limited, model: string): Gate[] {
    const own = keyLimits(identity.keyLimits, model);
    const organization = this.organizationGate(identity, model);
    return own === null ? [organization] : [organization, { whose: 'API key', key: recordKey('key', identity.keyId, model), limits: own }];
  }

  private organizationGate(organization: Pick<Limited, 'organizationId' | 'limits'>, model: string): Gate {
    return { whose: 'organization', key: recordKey('organization', organization.organizationId, model), limits: this.limitsOf(organization, model) };
  }

  private enter({ whose, key, limits }: Gate, identity: Limited, model: string, n: number): Taken {
    const limit = limits.concurrency;
    const refuse = (message: string, retryAfterMs: number): ApiError =>
      apiError('concurrency_limit_exceeded', message, null, { retryAfterMs, headers: (shape) => this.headers(identity, model, shape) });
    if (limit !== null && n > limit) throw refuse(`This request asks for ${n} choices at once; the limit of the ${whose} is ${limit}.`, 60_000);
    const record = this.table.enter(key, n, limit);
    if (record === OVER) throw refuse(`Too many requests of this ${whose} are unfinished on ${model}; the limit is ${limit ?? 0}.`, this.nextFinish(key));
    if (record === FULL) throw full();
    return { record, limits, request: false, tokens: 0 };
  }

  /** Requests that take `mean` and are all at some point of it: the nearest of `count` ends after about mean / (count + 1). */
  private nextFinish(key: Int32Array): number {
    const record = this.table.find(key);
    if (record < 0) return 1000;
    return Math.max(1000, this.table.meanMs(record) / (this.table.count(record) + 1));
  }

  private takeRequest({ whose, limits }: Gate, one: Taken, taken: readonly Taken[], request: ReserveRequest, wanted: number, now: bigint): void {
    if (limits.rpm === null) return;
    one.request = this.counters.take(one.record, 'rpm', 1, limits.rpm, now) === 0;
    if (one.request) return;
    throw this.overRate('rpm_limit_exceeded', `Too many requests per minute of this ${whose} on ${request.model}; the limit is ${limits.rpm}.`, taken, request, wanted, now);
  }

  private takeTokens({ whose, limits }: Gate, one: Taken, taken: readonly Taken[], request: ReserveRequest, wanted: number, now: bigint): void {
    const { tpm } = limits;
    if (tpm === null) return;
    const { promptTokens, model, identity } = request;
    // For good, so not on an estimate: that takes the whole bucket.
    if (promptTokens.exact && promptTokens.tokens > tpm) {
      throw apiError('request_exceeds_tpm_limit', `The prompt alone has ${promptTokens.tokens} tokens; the limit of the ${whose} is ${tpm} tokens per minute on ${model}.`, null,
        { headers: (shape) => this.headers(identity, model, shape) });
    }
    const reserved = Math.min(wanted, tpm);
    if (this.counters.take(one.record, 'tpm', reserved, tpm, now) === 0) {
      one.tokens = reserved;
      return;
    }
    throw this.overRate('tpm_limit_exceeded', `Too many tokens per minute of this ${whose} on ${model}: this request reserves ${reserved}, the limit is ${tpm}.`, taken, request, wanted, now);
  }

  /** The wait is until all buckets hold the request, not only the one that refused it first. */
  private overRate(code: ErrorCode, message: string, taken: readonly Taken[], { identity, model }: ReserveRequest, wanted: number, now: bigint): ApiError {
    let retryAfterMs = 1;
    for (const { record, limits: { rpm, tpm }, request, tokens } of taken) {
      // What this request has taken already it will give back.
      if (rpm !== null && !request) retryAfterMs = Math.max(retryAfterMs, this.counters.wait(record, 'rpm', 1, rpm, now));
      if (tpm !== null && tokens === 0) retryAfterMs = Math.max(retryAfterMs, this.counters.wait(record, 'tpm', Math.min(wanted, tpm), tpm, now));
    }
    return apiError(code, message, null, { retryAfterMs, headers: (shape) => this.headers(identity, model, shape) });
  }

  /** All that `taken` has but `used` tokens. The places last: they pin the records. */
  private giveBack(taken: readonly Taken[], used: number, n: number, now: bigint): void {
    for (const { record, limits, request, tokens } of taken) {
      if (limits.tpm !== null) this.counters.give(record, 'tpm', tokens - used, limits.tpm, now);
      if (limits.rpm !== null && request) this.counters.give(record, 'rpm', 1, limits.rpm, now);
      this.table.leave(record, n);
    }
  }

  private stateOf({ key, limits }: Gate): LimitState {
    const record = this.table.find(key);
    const now = this.now();
    return {
      requests: limits.rpm === null ? null : this.counters.state(record, 'rpm', limits.rpm, now),
      tokens: limits.tpm === null ? null : this.counters.state(record, 'tpm', limits.tpm, now),
      concurrency: limits.concurrency === null ? null
        : { limit: limits.concurrency, remaining: Math.max(0, limits.concurrency - (record < 0 ? 0 : this.table.count(record))) },
    };
  }
}

const full = (): ApiError => apiError('capacity_exhausted', 'This server counts for too many organizations at once.', null, { retryAfterMs: 60_000 });
