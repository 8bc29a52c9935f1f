// POST /v1/responses/{id}/cancel: stops a background response and keeps what there is of it.
import { apiError, type ApiError } from '../../shared/errors.js';
import { isUnfinished, type ResponseStore, type StoredResponse } from '../../storage/response-store.js';
import { endNotStored, type BackgroundResponses } from './background.js';

export function notCancellable(): ApiError {
  return apiError(
    'response_not_cancellable',
    'Only background responses can be cancelled; any other ends when its connection is closed.',
    'response_id',
  );
}

/** The response as it ended, now or before; null if its time was over meanwhile, or it was deleted. Throws ApiError 422 response_not_cancellable, or 503 if its end cannot be stored now. */
export async function cancelResponse(
  responses: ResponseStore,
  background: BackgroundResponses,
  record: StoredResponse,
): Promise<StoredResponse | null> {
  if (!isUnfinished(record.status)) return record;
  const stopped = await background.cancel(record.id);
  // As it is stored, on whichever thread it ran: while its end waited for the disk it may have been deleted.
  const now = await responses.get(record.organizationId, record.id);
  if (now === null || !isUnfinished(now.status)) return now;
  throw stopped ? endNotStored() : notCancellable();
}
