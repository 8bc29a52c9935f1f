// The endpoints whose requests a batch can contain.

import type { ErrorFormat } from '../../shared/errors.js';

/** Endpoints that a batch created with POST /v1/batches can use. */
export const BATCH_ENDPOINTS = ['/v1/chat/completions', '/v1/completions', '/v1/responses', '/v1/embeddings'] as const;
export type BatchEndpoint = (typeof BATCH_ENDPOINTS)[number];

/** The endpoint of all requests in a batch created with POST /v1/messages/batches. */
export const MESSAGES_ENDPOINT = '/v1/messages';

export const errorFormatOfEndpoint = (endpoint: string): ErrorFormat =>
  endpoint === MESSAGES_ENDPOINT ? 'messages' : 'chat';
