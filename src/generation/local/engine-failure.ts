// Converts errors that the engine throws or rejects with to ApiErrors. Pure.
import { apiError } from '../../shared/errors.js';

/** `promptParam`: the field that an error about the length of the prompt names. */
export function submitFailure(error: unknown, promptParam: string, queueDrainMs: () => number): unknown {
  switch (codeOf(error)) {
    case 'queue_full':
      return apiError('capacity_exhausted', "The model's queue is full.", null, { retryAfterMs: queueDrainMs() });
    case 'too_long':
      return apiError('context_length_exceeded', messageOf(error), promptParam);
    case 'closed':
      return goingAway();
    // If the engine rejects a value that has passed validation, the request is still at fault.
    case 'invalid_argument':
      return apiError('invalid_value', `Invalid request: ${messageOf(error)}.`, null);
    default:
      return error instanceof TypeError ? apiError('invalid_value', `Invalid request: ${error.message}.`, null) : error;
  }
}

/** The engine does not know why it was closed. A retry a few seconds later gets the precise error. */
export const goingAway = (): Error =>
  apiError('shutting_down', 'The model is being unloaded, or the server is shutting down.', null);

export function codeOf(error: unknown): unknown {
  return error instanceof Error && 'code' in error ? error.code : undefined;
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
