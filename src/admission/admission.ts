// The admission interface: limits per organization and model, and additional limits per API key. In each applicable set
// of limits, a request reserves concurrency slots, one request, and its tokens, in this order. A rejected request
// reserves nothing. When the request ends, the reservation is settled to the tokens actually used, or refunded if
// nothing was generated.
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
/** The identity fields that admission reads for an organization without a key. */
export type LimitedOrganization = Pick<Limited, 'organizationId' | 'limits'>;

export interface ReserveRequest {
  identity: Limited;
  model: string;
  /**
   * Number of prompt tokens after the chat template has been applied, including cached tokens. An estimate is reserved
   * like an exact count; settle() later receives the exact count.
   */
  promptTokens: TokenCount;
  /** The client's output limit per choice, after clamping. Null if the request sets no limit. */
  statedCap: number | null;
  /** The model's own maximum number of output tokens. */
  modelMaximum: number;
  n: number;
}

export interface Reservation {
  /** Rate-limit headers with the values after the reservation. */
  headers(format: ErrorFormat): [string, string][];
  /** Settles a request that ran. `tokens`: prompt tokens plus all generated tokens. Later calls have no effect. */
  settle(tokens: number): void;
  /** Refunds a request that failed before its first token. Later calls have no effect. */
  refund(): void;
}

/**
 * The state of an organization's limits for a model, and the number of the organization's unfinished requests for that
 * model.
 */
export interface Standing {
  state: LimitState;
  unfinished: number;
}

/** State of the counters shared by several processes. */
export interface CountersHealth {
  /** away: Redis is unreachable and `policy` applies. */
  state: 'shared' | 'away';
  /** share: each process enforces its share of every limit. refuse: every request is rejected. */
  policy: 'share' | 'refuse';
  /** Number of processes that share the counters, as last seen. Includes this process. */
  processes: number;
}

export interface Admission {
  /**
   * Synchronous if all counters are in this process. Throws or rejects with ApiError 429, or with 503 if the request
   * cannot be counted; nothing is reserved in either case.
   */
  reserve(request: ReserveRequest): Reservation | Promise<Reservation>;
  /**
   * The current limits as headers in either format. For each kind of limit, the headers show the tighter of the
   * organization's and the key's limit.
   */
  headers(identity: Limited, model: string, format: ErrorFormat): [string, string][] | Promise<[string, string][]>;
  standing(organization: LimitedOrganization, model: string): Standing | Promise<Standing>;
  limitsOf(organization: LimitedOrganization, model: string): Limits;
  /** Counts a request that generates no output toward the key's limits.read_rpm. Throws ApiError 429. */
  read(identity: Pick<Limited, 'keyId'>): void;
  /**
   * Takes one of the organization's `limit` WebSocket connection slots. Throws ApiError 429 or 503. Returns a function
   * that frees the slot; calling it again has no effect.
   */
  connect(organizationId: string, limit: number): () => void;
  /** Releases all reservations of a thread that terminated unexpectedly. */
  leaveAll(ledger: Int32Array): void;
  /** Null if the counters are not shared with other processes. */
  health(): CountersHealth | null;
  close(): Promise<void>;
}
