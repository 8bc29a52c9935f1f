// The admission interface: limits per organization and model, and additional limits per API key. A request reserves
// concurrency, one request and its tokens, in this order, under both sets of limits. A rejected request reserves
// nothing. At the end, the reservation is settled to the tokens used, or refunded if nothing was generated.
//
//   local-admission.ts     one process: synchronous counting in memory shared by its threads
//   shared/                several processes: counting in Redis or Valkey

import type { ErrorFormat } from '../shared/errors.js';
import type { Identity } from '../shared/identity.js';
import type { TokenCount } from '../shared/token-count.js';
import type { LimitState } from './headers.js';
import type { Limits } from './limits.js';

/** The identity fields that admission reads. */
export type Limited = Pick<Identity, 'organizationId' | 'limits' | 'keyId' | 'keyLimits' | 'monthlyTokenCap'>;
/** The fields that admission reads for an organization without a key. */
export type LimitedOrganization = Pick<Limited, 'organizationId' | 'limits'>;

export interface ReserveRequest {
  identity: Limited;
  model: string;
  /**
   * Tokens after templating, including cached ones. An estimate is reserved like an exact count; settle() then receives
   * the exact count.
   */
  promptTokens: TokenCount;
  /** The client's output cap for one choice after clamping. Null if the request has none. */
  statedCap: number | null;
  /** The model's own maximum of output tokens. */
  modelMaximum: number;
  n: number;
}

export interface Reservation {
  /** Rate-limit headers with the values after the reservation. */
  headers(format: ErrorFormat): [string, string][];
  /** Ends a request that ran. `tokens`: prompt plus all generated tokens. Later calls have no effect. */
  settle(tokens: number): void;
  /** Ends a request that failed before its first token, which then does not count. Later calls have no effect. */
  refund(): void;
}

/** An organization's own limits on a model, and its unfinished requests there. */
export interface Standing {
  state: LimitState;
  unfinished: number;
}

/** State of the counters that several processes share. */
export interface CountersHealth {
  /** away: Redis is unreachable and `policy` applies. */
  state: 'shared' | 'away';
  /** share: each process enforces its share of every limit. refuse: every request is rejected. */
  policy: 'share' | 'refuse';
  /** Number of processes when they were last seen, including this one. */
  processes: number;
}

export interface Admission {
  /**
   * Synchronous if all counters are in this process. Throws or rejects with ApiError 429, or 503 if the request cannot
   * be counted. Nothing is reserved then.
   */
  reserve(request: ReserveRequest): Reservation | Promise<Reservation>;
  /**
   * The current limits as headers in either format. For each limit, the tighter one of the organization's and the
   * key's.
   */
  headers(identity: Limited, model: string, format: ErrorFormat): [string, string][] | Promise<[string, string][]>;
  standing(organization: LimitedOrganization, model: string): Standing | Promise<Standing>;
  limitsOf(organization: LimitedOrganization, model: string): Limits;
  /** Counts a request of a key that generates nothing (limits.read_rpm). Throws ApiError 429. */
  read(identity: Pick<Limited, 'keyId'>): void;
  /**
   * Takes one of `limit` WebSocket connection slots. Throws ApiError 429, 503. Returns a function that frees the slot;
   * later calls of it have no effect.
   */
  connect(organizationId: string, limit: number): () => void;
  /** Releases all reservations of a thread that has terminated unexpectedly. */
  leaveAll(ledger: Int32Array): void;
  /** Null if the counters are not shared with other processes. */
  health(): CountersHealth | null;
  close(): Promise<void>;
}
