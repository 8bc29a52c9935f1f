// How a request ended. Decided here for all: plain answers, streams, WebSocket turns, background responses. The
// status line does not tell it: once it has left, what goes wrong is told within the answer.

import type { RequestRecord } from './types.js';

/** refused: an error, and nothing had been generated. failed: the server's own error, or an answer that broke off. cancelled: nobody waited for the end. */
export type Outcome = 'completed' | 'refused' | 'failed' | 'cancelled';

/** What a client was told went wrong, in the status line or later. */
export interface Failure { readonly code: string; readonly status: number }

/** The record of what has ended so. */
export function finished(end: Omit<RequestRecord, 'outcome'>): RequestRecord {
  return { ...end, outcome: outcomeOf(end) };
}

function outcomeOf({ status, failure, aborted, fields }: Omit<RequestRecord, 'outcome'>): Outcome {
  const error = failure?.status ?? status;
  if (error >= 400) return error === 500 || Number(fields['completion_tokens'] ?? 0) > 0 ? 'failed' : 'refused';
  return aborted || status === 0 ? 'cancelled' : 'completed';
}
