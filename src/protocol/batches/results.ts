// Formats the results of lines for storage and for clients. No side effects.
//
// OpenAI's API: a response with status 200 is a line of the output file. Any other result is a line of the error file.
// Anthropic's API: each result is a line of GET /v1/messages/batches/{id}/results.

import { base62 } from '../../shared/ids.js';
import type { Batch, BatchUsage, LineOutcome, LineResult, StoredResult } from '../../storage/batch-store.js';
import type { LineAnswer } from './line-exchange.js';

/** Returns the result to store for a response. */
export function resultOf(batch: Pick<Batch, 'kind'>, answer: LineAnswer): LineResult {
  const outcome: LineOutcome = answer.status === 200 ? 'succeeded' : 'errored';
  const usage = usageOf(answer);
  return { outcome, usage, text: batch.kind === 'openai' ? openaiResponse(answer) : messagesResult(answer) };
}

// The response body is already JSON, so the functions below insert it into the result without parsing it.

function openaiResponse({ status, requestId, text, ignored }: LineAnswer): string {
  const headers = Object.keys(ignored).length === 0 ? '' : `,"headers":${JSON.stringify(ignored)}`;
  return `{"status_code":${status},"request_id":${JSON.stringify(requestId)},"body":${text}${headers}}`;
}

function messagesResult({ status, text, ignored }: LineAnswer): string {
  const headers = Object.keys(ignored).length === 0 ? '' : `,"headers":${JSON.stringify(ignored)}`;
  return status === 200
    ? `{"type":"succeeded","message":${text}${headers}}`
    : `{"type":"errored","error":${text}${headers}}`;
}

function usageOf({ fields, reasoningTokens }: LineAnswer): BatchUsage {
  const count = (name: string): number => Number(fields[name] ?? 0);
  return {
    // A request that was refused before its admission has used no tokens.
    input: fields['admitted'] === true ? count('prompt_tokens') : 0,
    cached: count('cached_tokens'),
    output: count('completion_tokens'),
    reasoning: reasoningTokens,
  };
}

const NOT_RUN: Readonly<Record<'canceled' | 'expired', { code: string; message: string }>> = {
  canceled: { code: 'batch_cancelled', message: 'This request was not run because the batch was cancelled.' },
  expired: {
    code: 'batch_expired',
    message: 'This request could not be executed before the completion window expired.',
  },
};

/** Returns one line of an output or error file, without the line break. */
export function openaiLine({ customId, outcome, text }: StoredResult): string {
  const error = outcome === 'canceled' || outcome === 'expired' ? JSON.stringify(NOT_RUN[outcome]) : 'null';
  const response = text === '' ? 'null' : text;
  return `{"id":"batch_req_${base62(24)}","custom_id":${JSON.stringify(customId)},"response":${response},"error":${error}}`;
}

/** Returns one line of the results of a batch in Anthropic's API, without the line break. */
export function messagesLine({ customId, outcome, text }: StoredResult): string {
  return `{"custom_id":${JSON.stringify(customId)},"result":${text === '' ? `{"type":"${outcome}"}` : text}}`;
}
