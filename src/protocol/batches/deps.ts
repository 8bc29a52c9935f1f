// Dependencies, helper functions and errors that the routes of both batch APIs share.

import type { Exchange } from '../../http/exchange.js';
import type { ApiError } from '../../shared/errors.js';
import { apiError } from '../../shared/errors.js';
import type { Batch, BatchStore } from '../../storage/batch-store.js';
import type { FileStore } from '../../storage/file-store.js';

export interface BatchSettings {
  readonly per_organization: number;
  readonly max_lines: number;
  readonly hours: number;
}

export interface BatchDeps {
  readonly batches: BatchStore;
  readonly files: FileStore;
  readonly settings: BatchSettings;
  /** Returns milliseconds since 1970, from the clock that decides when batches expire. */
  readonly now: () => number;
  /** Records that webhooks must report the end of this batch. Called before the client receives the batch's ID. */
  readonly expectEnd: (organizationId: string, id: string) => Promise<void>;
  /** Notifies the batch runner that there may be work. Called after a batch was created or cancelled. */
  readonly wake: () => void;
}

const HOUR_MS = 3_600_000;

export const expiryOf = (now: number, { hours }: BatchSettings): number => now + hours * HOUR_MS;

export const idOf = (exchange: Exchange): [organizationId: string, id: string] => [
  exchange.identity.organizationId,
  exchange.params['id'] ?? '',
];

/** Returns the batch. Throws ApiError 404 if it is null or belongs to the other API (`kind`). */
export function foundBatch(exchange: Exchange, kind: Batch['kind'], batch: Batch | null): Batch {
  if (batch === null || batch.kind !== kind) throw batchNotFound(idOf(exchange)[1]);
  return batch;
}

export const batchNotFound = (id: string): ApiError =>
  apiError('batch_not_found', `No batch found with id ${JSON.stringify(id.slice(0, 64))}.`, 'batch_id');

/** Reads the page size from the query parameter `limit`. Throws ApiError 400 or 422. */
export function limitOf(query: URLSearchParams, max: number): number {
  const text = query.get('limit');
  if (text === null) return DEFAULT_LIMIT;
  if (!/^-?\d{1,9}$/.test(text)) throw apiError('invalid_query_parameter', 'limit must be an integer.', 'limit');
  const limit = Number(text);
  if (limit < 1 || limit > max) throw apiError('value_out_of_range', `limit must be between 1 and ${max}.`, 'limit');
  return limit;
}

const DEFAULT_LIMIT = 20;

/** Cancels a batch. Throws ApiError 404 if the batch is unknown and 422 if it has ended. */
export async function cancelBatch(deps: BatchDeps, exchange: Exchange, kind: Batch['kind']): Promise<Batch> {
  const [organizationId, id] = idOf(exchange);
  foundBatch(exchange, kind, await deps.batches.get(organizationId, id));
  const batch = foundBatch(exchange, kind, await deps.batches.cancel(organizationId, id));
  if (batch.phase === 'ended') throw apiError('batch_not_cancellable', 'The batch has already finished.', 'batch_id');
  deps.wake();
  return batch;
}
