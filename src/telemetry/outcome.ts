// How a request ended. Decided here for all: plain answers, streams, WebSocket turns, background responses. The
// status line does not tell it: once it has left, what goes wrong is told within the answer.

import type { Outcome } from '../shared/request-entry.js';
import type { RequestTrace } from './request-trace.js';

export type { Outcome };

/** What a client was told went wrong, in the status line or later. */
export interface Failure {
  readonly code: string;
  readonly status: number;
}

/** One finished HTTP request, WebSocket turn or background response: a line in the log, and counted by its outcome. Made by finished(). */
export interface RequestRecord {
  requestId: string;
  clientRequestId: string | null;
  method: string; // 'WEBSOCKET' for a turn, 'BACKGROUND' for the response that a request has begun
  path: string; // route pattern, or 'unmatched'
  status: number; // of the status line; 0: there was none, the client left before
  failure: Failure | null; // what the client was told, in the status line or later
  outcome: Outcome;
  organizationId: string | null;
  keyId: string | null;
  durationMs: number;
  aborted: boolean;
  loopMs?: number | undefined; // of the thread, for reading and checking what was large
  fields: Readonly<Record<string, string | number | boolean | null>>; // from Exchange.annotate
  trace?: RequestTrace | null | undefined; // that ends with it
}

/** The record of a request that ended so: what is given becomes it. */
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

/** Of what ended with an error of this status after so many tokens. */
export const outcomeOfError = (status: number, tokens: number): Outcome =>
  status === 500 || tokens > 0 ? 'failed' : 'refused';
