// Converts errors that the engine throws or rejects with to ApiErrors. Pure.
import type { AdapterInfo } from '../../engine/addon-types.js';
import { apiError } from '../../shared/errors.js';

/**
 * Converts an error that occurred when a request was submitted to the engine. `promptParam`: the request field to
 * report if the prompt is too long.
 */
export function submitFailure(error: unknown, promptParam: string, queueDrainMs: () => number): unknown {
  switch (codeOf(error)) {
    case 'queue_full':
      return apiError('capacity_exhausted', "The model's queue is full.", null, { retryAfterMs: queueDrainMs() });
    case 'too_long':
      return apiError('context_length_exceeded', messageOf(error), promptParam);
    case 'closed':
      return goingAway();
    // The engine rejects a value that passed the server's validation. The client is responsible for the value, so the
    // error is a 4xx.
    case 'invalid_argument':
      return apiError('invalid_value', `Invalid request: ${messageOf(error)}.`, null);
    default:
      return error instanceof TypeError ? apiError('invalid_value', `Invalid request: ${error.message}.`, null) : error;
  }
}

/**
 * The error if the engine was closed. It is general, because the engine does not report the cause. A client that
 * retries a few seconds later gets a more precise error.
 */
export const goingAway = (): Error =>
  apiError('shutting_down', 'The model is being unloaded, or the server is shutting down.', null);

/** Throws ApiError 404 if the adapter was unloaded while the request was being prepared. */
export function checkAdapter(
  engine: { adapters(): readonly AdapterInfo[] },
  adapter: AdapterInfo | null,
  name: string,
): void {
  if (adapter !== null && !engine.adapters().some(({ id }) => id === adapter.id))
    throw apiError('model_not_found', `The LoRA adapter "${name}" has been unloaded.`, 'model');
}

export function codeOf(error: unknown): unknown {
  return error instanceof Error && 'code' in error ? error.code : undefined;
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
