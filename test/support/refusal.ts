import { ApiError } from '../../src/shared/errors.js';

/** The ApiError that `work` throws; anything else it throws goes on, and nothing thrown is an error. */
export function refusal(work: () => unknown): ApiError {
  try {
    work();
  } catch (error) {
    if (error instanceof ApiError) return error;
    throw error;
  }
  throw new Error('was admitted');
}
