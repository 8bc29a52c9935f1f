// DELETE /v1/responses/{id}. A background response that is still running is cancelled first.
import { isUnfinished, type ResponseHead, type ResponseStore } from '../../storage/response-store.js';
import type { BackgroundResponses } from './background.js';

/** Returns the response body, or null if the response was deleted in the meantime. */
export async function removeResponse(
  responses: ResponseStore,
  background: BackgroundResponses,
  { organizationId, id, status }: ResponseHead,
): Promise<object | null> {
  if (isUnfinished(status) || background.find(id) !== null) await background.cancel(id);
  return (await responses.delete(organizationId, id)) ? { id, object: 'response', deleted: true } : null;
}
