import { ApiError } from '../../src/shared/errors.js';

/** Returns the ApiError that `work` throws. Any other exception is rethrown; if nothing is thrown, the call fails. */
export function refusal(work: () => unknown): ApiError {
  try {
    work();
  } catch (error) {
    if (error instanceof ApiError) return error;
    throw error;
  }
  throw new Error('expected an ApiError, but the request was admitted');
}
