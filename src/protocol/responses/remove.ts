// DELETE /v1/responses/{id}. A background response that still runs is cancelled first.
import { isUnfinished, type ResponseHead, type ResponseStore } from '../../storage/response-store.js';
import type { BackgroundResponses } from './background.js';

/** What the client is answered; null if it was deleted meanwhile. */
export async function removeResponse(
  responses: ResponseStore,
  background: BackgroundResponses,
  { organizationId, id, status }: ResponseHead,
): Promise<object | null> {
  if (isUnfinished(status) || background.find(id) !== null) await background.cancel(id);
  return (await responses.delete(organizationId, id)) ? { id, object: 'response', deleted: true } : null;
}
