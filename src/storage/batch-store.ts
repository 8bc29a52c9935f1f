// Storage port for batches and their lines. Several processes may run lines of the same batch: a lease decides which
// process runs a line, and a line's result is written in the same transaction that ends the line, so it is written
// exactly once. Every write resolves when it is durable. A batch of another organization is treated as unknown.
//
//   validating ──begin──► running ──stop, expiry──► stopping
//        │                   │ last line ends          │ no open line is left
//        │ fail              ▼                         │
//        └─────► ended ◄── finalizing ◄────────────────┘
//
// Times are milliseconds since 1970.

import { apiError } from '../shared/errors.js';
import type { ApiError } from '../shared/errors.js';

/** `openai`: created from a file at /v1/batches. `messages`: created from inline requests at /v1/messages/batches. */
export type BatchKind = 'openai' | 'messages';
export type BatchPhase = 'validating' | 'running' | 'stopping' | 'finalizing' | 'ended';
/** How the batch ends, or ended. */
export type BatchEnding = 'completed' | 'failed' | 'cancelled' | 'expired';
export type LineOutcome = 'succeeded' | 'errored' | 'canceled' | 'expired';

/** A reason why the input file was refused. `line` starts at 1. */
export interface BatchProblem {
  readonly code: string;
  readonly message: string;
  readonly param: string | null;
  readonly line: number | null;
}

export interface BatchUsage {
  readonly input: number;
  readonly cached: number;
  readonly output: number;
  readonly reasoning: number;
}

/** What the client asked for, and who asked. */
export interface NewBatch {
  readonly id: string;
  readonly organizationId: string;
  /** The key that created the batch. Its lines run with this key's permissions and limits. */
  readonly keyId: string;
  readonly kind: BatchKind;
  readonly endpoint: string;
  readonly createdAt: number;
  readonly expiresAt: number;
  readonly inputFileId: string | null;
  readonly metadata: Readonly<Record<string, string>> | null;
  /** Request headers that apply to each line, by lower-case name. */
  readonly headers: Readonly<Record<string, string>>;
  /** Lifetime of the output files in seconds, if the client set it. */
  readonly outputExpiresS: number | null;
}

export interface Batch extends NewBatch {
  readonly phase: BatchPhase;
  /** Null while the batch may still end in any way. */
  readonly ending: BatchEnding | null;
  readonly inProgressAt: number | null;
  readonly cancellingAt: number | null;
  readonly finalizingAt: number | null;
  readonly endedAt: number | null;
  /** The model of all lines. Null for a `messages` batch, whose lines may name different models. */
  readonly model: string | null;
  readonly total: number;
  readonly counts: Readonly<Record<LineOutcome, number>>;
  readonly usage: BatchUsage;
  readonly outputFileId: string | null;
  readonly errorFileId: string | null;
  readonly problems: readonly BatchProblem[];
}

/** `line` starts at 1. `body` is JSON. */
export interface NewLine {
  readonly line: number;
  readonly customId: string;
  readonly body: string;
}

/** A line that this owner may run until its lease expires. */
export interface ClaimedLine extends NewLine {
  readonly batch: Batch;
  /** Differs for each claim, so that an earlier owner cannot end the line. */
  readonly token: string;
  /** Number of earlier claims that neither ended nor released the line, because their process was lost. */
  readonly lost: number;
}

/** Identifies a claim. */
export type Claim = Pick<ClaimedLine, 'line' | 'token'> & { readonly batch: Pick<Batch, 'id'> };

/** `text` is JSON; its form depends on the kind of the batch. '' for lines that did not run. */
export interface LineResult {
  readonly outcome: LineOutcome;
  readonly text: string;
  readonly usage: BatchUsage | null;
}

export interface StoredResult {
  readonly line: number;
  readonly customId: string;
  readonly outcome: LineOutcome;
  readonly text: string;
}

export interface BatchListQuery {
  /** Return batches older than this one, or newer ones with `before`. */
  readonly after?: string | null | undefined;
  readonly before?: string | null | undefined;
  readonly limit: number;
}

export interface BatchPage {
  /** The newest first. */
  readonly batches: readonly Batch[];
  readonly more: boolean;
}

export interface BatchStore {
  /**
   * Stores a batch in the phase `validating`. Throws ApiError 429 if the organization has `maxActive` batches that have
   * not ended.
   */
  create(batch: NewBatch, maxActive: number): Promise<void>;
  /** Stores lines of a batch that is being validated. A line that is already stored is replaced. */
  addLines(id: string, lines: readonly NewLine[]): Promise<void>;
  /** validating → running. The lines 1 … `total` must be stored. Returns false if the phase is another one. */
  begin(id: string, total: number, model: string | null): Promise<boolean>;
  /** validating → ended. Erases the lines. */
  fail(id: string, problems: readonly BatchProblem[]): Promise<void>;
  get(organizationId: string, id: string): Promise<Batch | null>;
  list(organizationId: string, kind: BatchKind, query: BatchListQuery): Promise<BatchPage>;
  /** Cancels a batch. Returns the batch as it is then, which has not changed if it was already ending. */
  cancel(organizationId: string, id: string): Promise<Batch | null>;
  /** Deletes an ended batch and its results. Returns false if there is no such batch or if it has not ended. */
  delete(organizationId: string, id: string): Promise<boolean>;

  /**
   * Claims up to `limit` lines of running batches, in turn by organization, then by age. `except`: IDs of organizations
   * and batches whose lines are not claimed now.
   */
  claim(owner: string, limit: number, leaseMs: number, except?: ReadonlySet<string>): Promise<ClaimedLine[]>;
  /**
   * Extends leases. Returns the claims that are still valid, each with `stop`: the batch is stopping, so the line is to
   * be ended with this outcome.
   */
  renew(claims: readonly Claim[], leaseMs: number): Promise<{ claim: Claim; stop: 'canceled' | 'expired' | null }[]>;
  /** Releases a line, which can be claimed again after `delayMs`. It does not count as lost. */
  release(claim: Claim, delayMs: number): Promise<void>;
  /** Ends a line and stores its result. Returns false, and stores nothing, if the claim is no longer valid. */
  finish(claim: Claim, result: LineResult): Promise<boolean>;
  /** Releases all claims of owners other than `owner`. Call this only if these owners are known to have ended. */
  releaseOthers(owner: string): Promise<void>;

  /** Claims a batch that needs validation, stopping or finalizing. Null if there is none. */
  claimJob(owner: string, leaseMs: number): Promise<Batch | null>;
  renewJob(id: string, owner: string, leaseMs: number): Promise<boolean>;
  releaseJob(id: string, owner: string, delayMs: number): Promise<void>;
  /** running → stopping for batches that have expired. Returns their number. */
  expire(): Promise<number>;
  /** Ends up to `limit` lines of a stopping batch that are not running. Returns the number of lines ended. */
  stopLines(id: string, limit: number): Promise<number>;
  /** finalizing → ended. Returns false if the phase is another one. */
  end(id: string, files: { outputFileId: string | null; errorFileId: string | null }): Promise<boolean>;

  /** Results in the order of their lines, after the line `after`, up to about `maxBytes` but at least one. */
  results(id: string, after: number, maxBytes: number): Promise<readonly StoredResult[]>;
  /** Erases the results of an ended batch that are also in its files. */
  dropResults(id: string): Promise<void>;
  /** Number of lines that run and that wait, of all organizations. */
  counts(): Promise<{ running: number; waiting: number }>;
  eraseOrganization(organizationId: string): Promise<void>;
  /** Erases batches that ended before the retention period. Returns their number. */
  sweep(): Promise<number>;
}

/** A line whose process was lost this often is ended, because the line may be the cause. */
export const MAX_LOST = 20;
/** A `messages` batch whose creation has not finished within this time is erased, because it was interrupted. */
export const UNBEGUN_MS = 3_600_000;
/** Number of rows that an erasure removes in one transaction. */
export const ERASED_AT_ONCE = 500;

export const NO_USAGE: BatchUsage = { input: 0, cached: 0, output: 0, reasoning: 0 };

export const newBatchRow = (batch: NewBatch): Batch => ({
  ...batch,
  phase: 'validating',
  ending: null,
  inProgressAt: null,
  cancellingAt: null,
  finalizingAt: null,
  endedAt: null,
  model: null,
  total: 0,
  counts: { succeeded: 0, errored: 0, canceled: 0, expired: 0 },
  usage: NO_USAGE,
  outputFileId: null,
  errorFileId: null,
  problems: [],
});

// The transitions of the diagram above. All stores use them. Each returns the changed batch.

export function begun(batch: Batch, total: number, model: string | null, now: number): Batch {
  return settled({ ...batch, phase: 'running', inProgressAt: now, total, model }, now);
}

export function failed(batch: Batch, problems: readonly BatchProblem[], now: number): Batch {
  return { ...batch, phase: 'ended', ending: 'failed', endedAt: now, problems };
}

/** `why`: the client cancels the batch, or it has expired. Nothing changes if the batch is already ending. */
export function stopping(batch: Batch, why: 'cancelled' | 'expired', now: number): Batch {
  if (batch.phase !== 'running' && batch.phase !== 'validating') return batch;
  const cancellingAt = why === 'cancelled' ? now : null;
  // Lines of a batch that is being validated are not counted: none of them will ever run.
  return settled({ ...batch, phase: 'stopping', ending: why, cancellingAt }, now);
}

export function lineEnded(batch: Batch, { outcome, usage }: LineResult, now: number): Batch {
  const sum = batch.usage;
  return settled(
    {
      ...batch,
      counts: { ...batch.counts, [outcome]: batch.counts[outcome] + 1 },
      usage:
        usage === null
          ? sum
          : {
              input: sum.input + usage.input,
              cached: sum.cached + usage.cached,
              output: sum.output + usage.output,
              reasoning: sum.reasoning + usage.reasoning,
            },
    },
    now,
  );
}

export function ended(
  batch: Batch,
  files: { outputFileId: string | null; errorFileId: string | null },
  now: number,
): Batch {
  return { ...batch, ...files, phase: 'ended', ending: batch.ending ?? 'completed', endedAt: now };
}

/** Number of lines that have not ended. */
export const openLines = ({ total, counts }: Pick<Batch, 'total' | 'counts'>): number =>
  total - counts.succeeded - counts.errored - counts.canceled - counts.expired;

/** Moves a batch whose lines have all ended to the phase `finalizing`. */
function settled(batch: Batch, now: number): Batch {
  if (openLines(batch) > 0) return batch;
  return { ...batch, phase: 'finalizing', ending: batch.ending ?? 'completed', finalizingAt: now };
}

/** The outcome of the lines that a stopping batch did not run. */
export const stoppedOutcome = ({ ending }: Pick<Batch, 'ending'>): 'canceled' | 'expired' =>
  ending === 'cancelled' ? 'canceled' : 'expired';

/**
 * Orders batches so that organizations take turns: first the oldest batch of each organization, then the second oldest
 * of each. `turn`: rotates the organizations.
 */
export function inTurns(batches: readonly Batch[], turn: number): Batch[] {
  const byOrganization = new Map<string, Batch[]>();
  for (const batch of batches) {
    const own = byOrganization.get(batch.organizationId);
    if (own === undefined) byOrganization.set(batch.organizationId, [batch]);
    else own.push(batch);
  }
  const queues = [...byOrganization.keys()].sort().map((id) => byOrganization.get(id) as Batch[]);
  const rotated = queues.map((_, at) => queues[(at + turn) % queues.length] as Batch[]);
  const ordered: Batch[] = [];
  for (let round = 0; ordered.length < batches.length; round++)
    for (const queue of rotated) {
      const batch = queue[round];
      if (batch !== undefined) ordered.push(batch);
    }
  return ordered;
}

export const tooManyBatches = (max: number): ApiError =>
  apiError(
    'too_many_batches',
    `The organization already has ${max} batches that have not ended (batches.per_organization).`,
    null,
    { retryAfterMs: 60_000 },
  );
