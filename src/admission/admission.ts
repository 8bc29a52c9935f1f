// The gate in front of generation: limits per organization and model. A request reserves concurrency, one
// request and its tokens, in this order; a refusal gives back what was taken, so it leaves no trace. At the
// end the reservation is settled to what was used, or refunded if nothing was produced. The counters are
// shared memory; which record belongs to whom is decided by the one thread that owns this object.

import { apiError } from '../errors.js';
import type { ApiError, WireShape } from '../errors.js';
import type { Config } from '../config.js';
import { Counters } from './counters.js';
import type { Limits } from './counters.js';
import { rateLimitHeaders } from './headers.js';
import type { LimitState } from './headers.js';

export interface ReserveRequest {
  identity: { readonly organizationId: string };
  model: string;
  /** Exact prompt tokens after templating, cached ones included. */
  promptTokens: number;
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

// 32 bytes each. An organization that makes requests on a model has one for the life of the process.
const RECORDS = 65_536;
/** Of the memory that all threads count in. */
export const COUNTER_BYTES = RECORDS * 32;

export interface AdmissionOptions {
  /** Monotonic nanoseconds; tests turn the clock. */
  now?: () => bigint;
  buffer?: SharedArrayBuffer;
}

export class Admission {
  private readonly counters: Counters;
  private readonly records = new Map<string, number>();
  private readonly now: () => bigint;

  constructor(private readonly limits: Config['limits'], options: AdmissionOptions = {}) {
    this.counters = new Counters(options.buffer ?? RECORDS);
    this.now = options.now ?? process.hrtime.bigint;
  }

  /** Throws ApiError 429, then nothing is taken. */
  reserve(request: ReserveRequest): Reservation {
    const { model, promptTokens, n } = request;
    const { organizationId } = request.identity;
    const limits = this.limitsOf(organizationId, model);
    const record = this.recordOf(organizationId, model);
    const { counters } = this;
    const now = this.now();
    const refuse = (error: (headers: (shape: WireShape) => [string, string][]) => ApiError): ApiError =>
      error((shape) => this.headers(organizationId, model, shape));

    const outputEach = request.statedCap ?? Math.min(request.modelMaximum, this.limits.tpm_default_reservation);
    let reserved = promptTokens + n * outputEach;

    if (limits.concurrency !== null && n > limits.concurrency) {
      throw refuse((headers) => apiError('concurrency_limit_exceeded',
        `This request asks for ${n} choices at once; the limit is ${limits.concurrency}.`, null, { retryAfterMs: 60_000, headers }));
    }
    if (!counters.enter(record, n, limits.concurrency)) {
      throw refuse((headers) => apiError('concurrency_limit_exceeded',
        `Too many requests of this organization are unfinished on ${model}; the limit is ${limits.concurrency ?? 0}.`, null, { retryAfterMs: 1000, headers }));
    }
    if (limits.rpm !== null) {
      const wait = counters.take(record, 'rpm', 1, limits.rpm, now);
      if (wait > 0) {
        counters.leave(record, n);
        throw refuse((headers) => apiError('rpm_limit_exceeded',
          `Too many requests per minute on ${model}; the limit is ${limits.rpm ?? 0}.`, null, { retryAfterMs: wait, headers }));
      }
    }
    if (limits.tpm !== null) {
      const { tpm } = limits;
      const impossible = promptTokens > tpm;
      reserved = Math.min(reserved, tpm);
      const wait = impossible ? 1 : counters.take(record, 'tpm', reserved, tpm, now);
      if (wait > 0) {
        if (limits.rpm !== null) counters.give(record, 'rpm', 1, limits.rpm, now);
        counters.leave(record, n);
        throw refuse((headers) => (impossible
          ? apiError('request_exceeds_tpm_limit', `The prompt alone has ${promptTokens} tokens; the limit is ${tpm} tokens per minute on ${model}.`, null, { headers })
          : apiError('tpm_limit_exceeded', `Too many tokens per minute on ${model}: this request reserves ${reserved}, the limit is ${tpm}.`, null, { retryAfterMs: wait, headers })));
      }
    }

    let open = true;
    const close = (tokens: number, refundRequest: boolean): void => {
      if (!open) return;
      open = false;
      const at = this.now();
      if (limits.tpm !== null) counters.give(record, 'tpm', reserved - tokens, limits.tpm, at);
      if (refundRequest && limits.rpm !== null) counters.give(record, 'rpm', 1, limits.rpm, at);
      counters.leave(record, n);
    };
    return {
      headers: (shape) => this.headers(organizationId, model, shape),
      settle: (tokens) => close(tokens, false),
      refund: () => close(0, true),
    };
  }

  /** Where the limits stand now, as the headers of either format. */
  headers(organizationId: string, model: string, shape: WireShape): [string, string][] {
    return rateLimitHeaders(this.state(organizationId, model), shape, Date.now());
  }

  state(organizationId: string, model: string): LimitState {
    const limits = this.limitsOf(organizationId, model);
    const record = this.recordOf(organizationId, model);
    const now = this.now();
    return {
      requests: limits.rpm === null ? null : this.counters.state(record, 'rpm', limits.rpm, now),
      tokens: limits.tpm === null ? null : this.counters.state(record, 'tpm', limits.tpm, now),
      concurrency: limits.concurrency === null ? null
        : { limit: limits.concurrency, remaining: Math.max(0, limits.concurrency - this.counters.concurrency(record)) },
    };
  }

  /** The most specific override wins field by field; unset fields fall through to the general limits. */
  limitsOf(organizationId: string, model: string): Limits {
    const { overrides } = this.limits;
    const layers = [
      overrides[organizationId]?.[model], overrides[organizationId]?.['*'],
      overrides['*']?.[model], overrides['*']?.['*'],
    ];
    const pick = (field: keyof Limits): number | null => {
      for (const layer of layers) {
        const value = layer?.[field];
        if (value !== undefined) return value;
      }
      return this.limits[field];
    };
    return { rpm: pick('rpm'), tpm: pick('tpm'), concurrency: pick('concurrency') };
  }

  // `model` is a served name, so the number of records is bounded by organizations times models.
  private recordOf(organizationId: string, model: string): number {
    const key = `${organizationId} ${model}`;
    const known = this.records.get(key);
    if (known !== undefined) return known;
    if (this.records.size >= this.counters.capacity) {
      throw apiError('capacity_exhausted', 'This server counts for too many organizations at once.', null, { retryAfterMs: 60_000 });
    }
    const record = this.records.size;
    this.records.set(key, record);
    return record;
  }
}
