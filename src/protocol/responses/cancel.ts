// POST /v1/responses/{id}/cancel: stops a background response and keeps its output so far.
import { apiError, type ApiError } from '../../shared/errors.js';
import { isUnfinished, type ResponseStore, type StoredResponse } from '../../storage/response-store.js';
import { endNotStored, type BackgroundResponses } from './background.js';

export function notCancellable(): ApiError {
  return apiError(
    'response_not_cancellable',
    'Only background responses can be cancelled; to cancel any other response, close its connection.',
    'response_id',
  );
}

/**
 * Returns the ended response, or null if the response expired or was deleted in the meantime. Throws ApiError 422
 * response_not_cancellable, or 503 if the response's final state cannot be stored now.
 */
export async function cancelResponse(
  responses: ResponseStore,
  background: BackgroundResponses,
  record: StoredResponse,
): Promise<StoredResponse | null> {
  if (!isUnfinished(record.status)) return record;
  const stopped = await background.cancel(record.id);
  // The response is read from storage regardless of which thread ran it, because it may have been deleted while its
  // final state was being written.
  const now = await responses.get(record.organizationId, record.id);
  if (now === null || !isUnfinished(now.status)) return now;
  throw stopped ? endNotStored() : notCancellable();
}
