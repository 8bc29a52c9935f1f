// Converts a batch to the JSON format of OpenAI's API. No side effects.

import type { BatchState } from '../../shared/wire/files.js';
import type { Batch } from '../../storage/batch-store.js';

/** The status in OpenAI's API. */
export function batchState({ phase, ending }: Batch): BatchState {
  switch (phase) {
    case 'validating':
      return 'validating';
    case 'running':
      return 'in_progress';
    case 'stopping':
    case 'finalizing':
      return ending === 'cancelled' ? 'cancelling' : 'finalizing';
    case 'ended':
      return ending ?? 'completed';
  }
}

export function shownBatch(batch: Batch): object {
  const { ending, endedAt, counts, usage, problems } = batch;
  const endedAs = (how: Batch['ending']): number | null => (ending === how ? seconds(endedAt) : null);
  return {
    id: batch.id,
    object: 'batch',
    endpoint: batch.endpoint,
    model: batch.model,
    errors: problems.length === 0 ? null : { object: 'list', data: problems },
    input_file_id: batch.inputFileId,
    completion_window: '24h',
    status: batchState(batch),
    output_file_id: batch.outputFileId,
    error_file_id: batch.errorFileId,
    created_at: seconds(batch.createdAt),
    in_progress_at: seconds(batch.inProgressAt),
    expires_at: seconds(batch.expiresAt),
    finalizing_at: seconds(batch.finalizingAt),
    completed_at: endedAs('completed'),
    failed_at: endedAs('failed'),
    expired_at: endedAs('expired'),
    cancelling_at: seconds(batch.cancellingAt),
    cancelled_at: endedAs('cancelled'),
    request_counts: {
      total: batch.total,
      completed: counts.succeeded,
      failed: counts.errored + counts.expired + counts.canceled,
    },
    usage: {
      input_tokens: usage.input,
      input_tokens_details: { cached_tokens: usage.cached },
      output_tokens: usage.output,
      output_tokens_details: { reasoning_tokens: usage.reasoning },
      total_tokens: usage.input + usage.output,
    },
    metadata: batch.metadata,
  };
}

const seconds = (ms: number | null): number | null => (ms === null ? null : Math.floor(ms / 1000));
