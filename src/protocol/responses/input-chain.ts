// The chain a request continues. Pure but for the store's synchronous reads.
import { apiError, type ApiError } from '../../errors.js';
import type { ResponseRecord, ResponseStore } from '../../storage/response-store.js';

const PARAM = 'previous_response_id';

/**
 * The chain that ends with `id`, root first; [] without an id. Throws ApiError: previous_response_not_found,
 * response_not_usable.
 */
export function findChain(responses: Pick<ResponseStore, 'chain'>, organizationId: string, id: string | null): readonly ResponseRecord[] {
  if (id === null) return [];
  const chain = responses.chain(organizationId, id);
  const last = chain?.at(-1);
  if (chain === null || last === undefined) {
    throw previousNotFound(id);
  }
  if (last.status !== 'completed' && last.status !== 'incomplete') {
    throw apiError('response_not_usable', `The previous response is ${last.status.replace('_', ' ')}; only completed and incomplete ones can be continued.`, PARAM);
  }
  return chain;
}

export function previousNotFound(id: string): ApiError {
  return apiError('previous_response_not_found', `Previous response with id ${JSON.stringify(id.slice(0, 64))} not found.`, PARAM);
}

/** The model to use: the one asked for, else that of the response continued. Throws ApiError 400 without either. */
export function modelOf(asked: string | null, chain: readonly ResponseRecord[]): string {
  const model = asked ?? chain.at(-1)?.model;
  if (model === undefined) throw apiError('missing_required_parameter', 'model is required unless previous_response_id is given.', 'model');
  return model;
}
