// Interface for storing batches and their lines. A line is one request of a batch. Several processes may run lines of
// the same batch; a lease determines which process runs a line. The transaction that completes a line also stores its
// result, so each line gets exactly one result. Every write resolves when it is durable. A batch of another
// organization is treated as unknown. The diagram shows the phases of a batch:
//
//   validating ──begin──► running ─cancel or expire─► stopping
//        │                   │ last line ends            │ last line ends
//        │ fail              ▼                           │
//        └─────► ended ◄── finalizing ◄──────────────────┘
//
// A batch can also be cancelled or expire while it is being validated. Times are milliseconds since 1970.

import { apiError } from '../shared/errors.js';
import type { ApiError } from '../shared/errors.js';

/** `openai`: created from a file at /v1/batches. `messages`: created from inline requests at /v1/messages/batches. */
export type BatchKind = 'openai' | 'messages';
export type BatchPhase = 'validating' | 'running' | 'stopping' | 'finalizing' | 'ended';
/** The final status of a batch. */
export type BatchEnding = 'completed' | 'failed' | 'cancelled' | 'expired';
export type LineOutcome = 'succeeded' | 'errored' | 'canceled' | 'expired';

/** A reason why the input file is invalid. `line` is counted from 1, with empty lines; null = the whole file. */
export interface BatchProblem {
  readonly code: string;
  readonly message: string;
  readonly param: string | null;
  readonly line: number | null;
}

/** Token counts. `cached` is part of `input`, and `reasoning` is part of `output`. */
export interface BatchUsage {
  readonly input: number;
  readonly cached: number;
  readonly output: number;
  readonly reasoning: number;
}

/** A new batch's owner and the client's parameters for it. */
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
  /** Request headers that each line runs with, by lower-case name. */
  readonly headers: Readonly<Record<string, string>>;
  /** Lifetime of the output files in seconds; null = the default. */
  readonly outputExpiresS: number | null;
}

export interface Batch extends NewBatch {
  readonly phase: BatchPhase;
  /** Null until it is known how the batch ends. */
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

/** A request of a batch. `line` is counted from 1, without empty lines. `body` is JSON. */
export interface NewLine {
  readonly line: number;
  readonly customId: string;
  readonly body: string;
}

/** A line that the claiming process may run until its lease expires. */
export interface ClaimedLine extends NewLine {
  readonly batch: Batch;
  /** Changes with each claim, so that a process that has lost its lease cannot end the line. */
  readonly token: string;
  /** Number of earlier claims that were lost with their process before the line was ended or released. */
  readonly lost: number;
}

/** Identifies a claimed line and the lease on it. */
export type Claim = Pick<ClaimedLine, 'line' | 'token'> & { readonly batch: Pick<Batch, 'id'> };

/** `text` is JSON in the format of the batch's kind (see results.ts), or '' for a line that did not run. */
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
  /** Batch IDs: selects batches that are older than `after` or newer than `before`. */
  readonly after?: string | null | undefined;
  readonly before?: string | null | undefined;
  readonly limit: number;
}

export interface BatchPage {
  /** Newest first. */
  readonly batches: readonly Batch[];
  readonly more: boolean;
}

export interface BatchStore {
  /**
   * Stores a batch in the phase `validating`. Rejects with ApiError 429 if the organization already has `maxActive`
   * unfinished batches.
   */
  create(batch: NewBatch, maxActive: number): Promise<void>;
  /** Stores lines of a batch in the phase `validating`. Replaces lines that are already stored. */
  addLines(id: string, lines: readonly NewLine[]): Promise<void>;
  /** validating → running. Lines 1 to `total` must be stored. Resolves to false in any other phase. */
  begin(id: string, total: number, model: string | null): Promise<boolean>;
  /** validating → ended. Erases the lines. Does nothing in any other phase. */
  fail(id: string, problems: readonly BatchProblem[]): Promise<void>;
  get(organizationId: string, id: string): Promise<Batch | null>;
  list(organizationId: string, kind: BatchKind, query: BatchListQuery): Promise<BatchPage>;
  /**
   * Cancels a batch and returns it, or null if the batch is unknown. A batch that is already ending does not
   * change.
   */
  cancel(organizationId: string, id: string): Promise<Batch | null>;
  /** Deletes a finished batch and its results. Resolves to false if the batch is unknown or unfinished. */
  delete(organizationId: string, id: string): Promise<boolean>;

  /**
   * Claims up to `limit` lines of running batches. Claims fewer if their bodies exceed CLAIMED_CHARACTERS.
   * Organizations take turns; within an organization, older batches come first. `except` contains the IDs of
   * organizations and batches whose lines must not be claimed.
   */
  claim(owner: string, limit: number, leaseMs: number, except?: ReadonlySet<string>): Promise<ClaimedLine[]>;
  /**
   * Renews leases. Returns the claims that are still valid. If `stop` is not null, the batch is stopping and the caller
   * must end the line with this outcome.
   */
  renew(claims: readonly Claim[], leaseMs: number): Promise<{ claim: Claim; stop: 'canceled' | 'expired' | null }[]>;
  /** Releases a line, which can be claimed again after `delayMs`. Does not increase `lost`. */
  release(claim: Claim, delayMs: number): Promise<void>;
  /** Ends a line and stores its result. If the claim is no longer valid, stores nothing and resolves to false. */
  finish(claim: Claim, result: LineResult): Promise<boolean>;
  /** With LMDB, releases all claims of other owners, which must be earlier processes that have ended. */
  releaseOthers(owner: string): Promise<void>;

  /** Claims the job of a batch that must be validated, stopped or finalized. Returns null if there is none. */
  claimJob(owner: string, leaseMs: number): Promise<Batch | null>;
  /** Renews the lease on a job. Resolves to false if `owner` no longer holds it. */
  renewJob(id: string, owner: string, leaseMs: number): Promise<boolean>;
  /** Ends the lease on a job, which can be claimed again after `delayMs`. */
  releaseJob(id: string, owner: string, delayMs: number): Promise<void>;
  /** Stops all running and validating batches whose `expiresAt` has passed. Returns their number. */
  expire(): Promise<number>;
  /**
   * Ends up to `limit` lines of a stopping batch, skipping lines that a process is running. Returns the number of
   * ended lines.
   */
  stopLines(id: string, limit: number): Promise<number>;
  /** finalizing → ended. Resolves to false in any other phase. */
  end(id: string, files: { outputFileId: string | null; errorFileId: string | null }): Promise<boolean>;

  /** Returns results after line `after`, in line order, until their size reaches `maxBytes` characters. */
  results(id: string, after: number, maxBytes: number): Promise<readonly StoredResult[]>;
  /** Erases a finished batch's stored results after they have been written to its output files. */
  dropResults(id: string): Promise<void>;
  /** Returns the numbers of running and waiting lines of all organizations. */
  counts(): Promise<{ running: number; waiting: number }>;
  eraseOrganization(organizationId: string): Promise<void>;
  /** Erases batches whose retention period has passed. Continues interrupted erasures. Returns the number erased. */
  sweep(): Promise<number>;
}

/** A line whose process was lost this many times fails instead of running again, because it may be the cause. */
export const MAX_LOST = 20;
/** Age in ms at which a `messages` batch that is still in `validating` is erased: its creation was interrupted. */
export const UNBEGUN_MS = 3_600_000;
/** A claim ends after the line that brings its bodies to this many characters. */
export const CLAIMED_CHARACTERS = 4_194_304;
/** Maximum number of rows that are erased in one transaction. */
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

// The functions below implement the transitions in the diagram above. All stores use them. Each returns the changed
// batch.

export function begun(batch: Batch, total: number, model: string | null, now: number): Batch {
  return settled({ ...batch, phase: 'running', inProgressAt: now, total, model }, now);
}

export function failed(batch: Batch, problems: readonly BatchProblem[], now: number): Batch {
  return { ...batch, phase: 'ended', ending: 'failed', endedAt: now, problems };
}

/** Stops a batch that was cancelled or has expired. Returns the same object if the batch is already ending. */
export function stopping(batch: Batch, why: 'cancelled' | 'expired', now: number): Batch {
  if (batch.phase !== 'running' && batch.phase !== 'validating') return batch;
  const cancellingAt = why === 'cancelled' ? now : null;
  // `total` is still 0 if the batch was being validated, so it goes to `finalizing` immediately.
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

/** Number of unfinished lines. */
export const openLines = ({ total, counts }: Pick<Batch, 'total' | 'counts'>): number =>
  total - counts.succeeded - counts.errored - counts.canceled - counts.expired;

/** Changes the phase to `finalizing` if all lines have ended. */
function settled(batch: Batch, now: number): Batch {
  if (openLines(batch) > 0) return batch;
  return { ...batch, phase: 'finalizing', ending: batch.ending ?? 'completed', finalizingAt: now };
}

/** Returns the outcome of the lines that a stopping batch has not run. */
export const stoppedOutcome = ({ ending }: Pick<Batch, 'ending'>): 'canceled' | 'expired' =>
  ending === 'cancelled' ? 'canceled' : 'expired';

/**
 * Orders batches so that organizations take turns: first the oldest batch of each organization, then the second oldest
 * of each. The batches of an organization must be ordered by age. `turn` selects the organization that comes first; it
 * must be increased with each call.
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
    `The organization already has ${max} unfinished batches (batches.per_organization).`,
    null,
    { retryAfterMs: 60_000 },
  );
