// How a generation ends.
import type { EndReason } from '../generation/types.js';
import type { ApiError } from '../shared/errors.js';

export type RunEnd =
  | { status: 'completed'; reason: EndReason } // end reason of the choice that ended last
  | { status: 'cancelled' } // the client no longer needs the output
  | { status: 'failed'; error: ApiError }
  | { status: 'refused'; error: ApiError } // the provider rejected the request
  | { status: 'abandoned' }; // never started, because the consumer failed
