// Checks the list of requests in the body of POST /v1/messages/batches. The `params` of each request are validated only
// when the request runs. No side effects.

import { apiError } from '../../shared/errors.js';
import { isRecord } from '../entry-limits.js';
import { CUSTOM_ID } from './schema.js';

export interface MessageRequest {
  readonly customId: string;
  readonly params: object;
}

/** Checks and returns the requests. `ignored`: the members that have no effect. Throws ApiError 400 or 422. */
export function checkRequests(
  requests: unknown,
  max: number,
): { requests: readonly MessageRequest[]; ignored: string[] } {
  if (requests == null) throw apiError('missing_required_parameter', 'requests is required.', 'requests');
  if (!Array.isArray(requests)) throw apiError('invalid_type', 'requests must be an array.', 'requests');
  if (requests.length === 0)
    throw apiError('missing_required_parameter', 'requests must have at least one request.', 'requests');
  if (requests.length > max)
    throw apiError('array_too_long', `requests may have at most ${max} requests (batches.max_lines).`, 'requests');
  const ids = new Set<string>();
  const ignored = new Set<string>();
  const checked = (requests as unknown[]).map((request, at): MessageRequest => {
    const path = `requests.${at}`;
    if (!isRecord(request)) throw apiError('invalid_type', `${path} must be an object.`, path);
    const { custom_id: customId, params, ...others } = request;
    if (customId == null)
      throw apiError('missing_required_parameter', `${path}.custom_id is required.`, `${path}.custom_id`);
    if (typeof customId !== 'string' || !CUSTOM_ID.test(customId))
      throw apiError(
        'invalid_value',
        `${path}.custom_id must be 1 to 64 letters, digits, _ or -.`,
        `${path}.custom_id`,
      );
    if (ids.has(customId))
      throw apiError('invalid_value', `${path}.custom_id must be unique within the batch.`, `${path}.custom_id`);
    ids.add(customId);
    if (params == null) throw apiError('missing_required_parameter', `${path}.params is required.`, `${path}.params`);
    if (!isRecord(params)) throw apiError('invalid_type', `${path}.params must be an object.`, `${path}.params`);
    for (const name of Object.keys(others)) ignored.add(`requests.${name}`);
    return { customId, params };
  });
  return { requests: checked, ignored: [...ignored] };
}
