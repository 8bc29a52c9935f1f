// Helpers for tests of admission limits.
import { ApiError } from '../../src/shared/errors.js';

/**
 * Returns the ApiError that `work` throws. Rethrows any other exception, and throws an error if `work` throws nothing.
 */
export function refusal(work: () => unknown): ApiError {
  try {
    work();
  } catch (error) {
    if (error instanceof ApiError) return error;
    throw error;
  }
  throw new Error('expected an ApiError, but the request was admitted');
}

/** Returns a value that must be available synchronously. */
export function atOnce<T>(value: T | Promise<T>): T {
  if (value instanceof Promise) throw new Error('the value is not available synchronously');
  return value;
}

/**
 * Start value, in nanoseconds, of the clocks that tests control: MONOLITH_TEST_CLOCK_NS if it is set, otherwise
 * `usual`. test/admission/clocks.test.ts runs the tests with other start values.
 */
export const clockStart = (usual: bigint): bigint => BigInt(process.env['MONOLITH_TEST_CLOCK_NS'] ?? usual);
