// Converts a batch to the JSON format of Anthropic's API. No side effects.

import type { Batch } from '../../storage/batch-store.js';

export function shownMessageBatch(batch: Batch): object {
  const { id, phase, ending, counts, total } = batch;
  const isOver = phase === 'ended';
  return {
    id,
    type: 'message_batch',
    processing_status: isOver ? 'ended' : ending === 'cancelled' ? 'canceling' : 'in_progress',
    // As in Anthropic's API, requests count as processing until the whole batch has ended.
    request_counts: isOver
      ? { processing: 0, ...counts }
      : { processing: total, succeeded: 0, errored: 0, canceled: 0, expired: 0 },
    ended_at: time(batch.endedAt),
    created_at: time(batch.createdAt),
    expires_at: time(batch.expiresAt),
    archived_at: null,
    cancel_initiated_at: time(batch.cancellingAt),
    // Only a path, because the server may be behind a proxy. The official clients add their base URL.
    results_url: isOver ? `/v1/messages/batches/${id}/results` : null,
  };
}

const time = (ms: number | null): string | null => (ms === null ? null : new Date(ms).toISOString());
