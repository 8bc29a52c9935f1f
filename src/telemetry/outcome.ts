// The outcome of a request, determined in one place for plain responses, streams, WebSocket turns and background
// responses. The HTTP status is not enough, because errors that occur after it has been sent are reported within the
// response.

import type { RefusedKey } from '../shared/errors.js';
import type { Outcome, RequestClient } from '../shared/request-entry.js';
import type { RequestTrace } from './request-trace.js';

export type { Outcome };

/** The error that the client received, either as the status or later. */
export interface Failure {
  readonly code: string;
  readonly status: number;
  readonly message?: string;
  readonly param?: string | null;
  /** Set if a known API key was refused. */
  readonly keyHolder?: RefusedKey | undefined;
}

/**
 * One finished HTTP request, WebSocket turn or background response. Logged as one line and counted by outcome. Created
 * by finished().
 */
export interface RequestRecord {
  requestId: string;
  clientRequestId: string | null;
  method: string; // 'WEBSOCKET' for a turn, 'BACKGROUND' for a background response, 'BATCH' for a request of a batch
  path: string; // route pattern, or 'unmatched'
  url?: string; // the requested path, bounded, if there is no such route
  client?: RequestClient | undefined;
  status: number; // HTTP status; 0: the client disconnected before it was sent
  failure: Failure | null; // the error that the client received, either as the status or later
  outcome: Outcome;
  organizationId: string | null;
  keyId: string | null;
  durationMs: number;
  aborted: boolean;
  loopMs?: number | undefined; // event-loop time spent on large bodies
  fields: Readonly<Record<string, string | number | boolean | null>>; // from Exchange.annotate
  trace?: RequestTrace | null | undefined; // ends together with the record
}

/** Converts `end` itself to the record by adding its outcome. */
export function finished(end: Omit<RequestRecord, 'outcome'>): RequestRecord {
  const record = end as RequestRecord;
  record.outcome = outcomeOf(end);
  return record;
}

function outcomeOf({ status, failure, aborted, fields }: Omit<RequestRecord, 'outcome'>): Outcome {
  const error = failure?.status ?? status;
  if (error >= 400) return outcomeOfError(error, Number(fields['completion_tokens'] ?? 0));
  return aborted || status === 0 ? 'cancelled' : 'completed';
}

/** Returns the outcome of a request that ended with this error status after `tokens` generated tokens. */
export const outcomeOfError = (status: number, tokens: number): Outcome =>
  status === 500 || tokens > 0 ? 'failed' : 'refused';
