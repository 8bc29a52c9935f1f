// The gate in front of generation, as whoever asks sees it: limits per organization and model, and within them those of
// the key. A request reserves concurrency, one request and its tokens, in this order, of both; a refusal leaves no
// trace. At the end the reservation is settled to what was used, or refunded if nothing was produced.
//
//   local-admission.ts     one process: counted in memory that its threads share, at once
//   shared/                several processes: counted in an engine that speaks the Redis protocol

import type { WireShape } from '../shared/errors.js';
import type { Identity } from '../shared/identity.js';
import type { TokenCount } from '../shared/token-count.js';
import type { LimitState } from './headers.js';
import type { Limits } from './limits.js';

/** What the gate looks at of who asks. */
export type Limited = Pick<Identity, 'organizationId' | 'limits' | 'keyId' | 'keyLimits' | 'monthlyTokenCap'>;
/** What it looks at of an organization alone. */
export type LimitedOrganization = Pick<Limited, 'organizationId' | 'limits'>;

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

/** Where an organization's own limits stand on a model, and its requests there that are not finished. */
export interface Standing {
  state: LimitState;
  unfinished: number;
}

/** Of counters that several processes share. */
export interface CountersHealth {
  /** away: they cannot be reached; what holds then is `policy`. */
  state: 'shared' | 'away';
  /** share: each process admits its share of every limit; refuse: none admits anything. */
  policy: 'share' | 'refuse';
  /** That were there when they were last seen, this one included. */
  processes: number;
}

export interface Admission {
  /**
   * At once where everything that counts is in this process. Throws or rejects with ApiError 429, or 503 when it cannot
   * be counted; then nothing is taken.
   */
  reserve(request: ReserveRequest): Reservation | Promise<Reservation>;
  /** Where the limits stand now, as the headers of either format: the tighter of the organization's and the key's. */
  headers(identity: Limited, model: string, shape: WireShape): [string, string][] | Promise<[string, string][]>;
  standing(organization: LimitedOrganization, model: string): Standing | Promise<Standing>;
  limitsOf(organization: LimitedOrganization, model: string): Limits;
  /** One request of a key that generates nothing (limits.read_rpm). Throws ApiError 429. */
  read(identity: Pick<Limited, 'keyId'>): void;
  /** Takes one of `limit` places for a WebSocket connection. Throws ApiError 429, 503. Returns how to leave it, which works once. */
  connect(organizationId: string, limit: number): () => void;
  /** Takes back what a thread that has ended by itself had admitted. */
  leaveAll(ledger: Int32Array): void;
  /** Null: nothing is shared with another process. */
  health(): CountersHealth | null;
  close(): Promise<void>;
}
