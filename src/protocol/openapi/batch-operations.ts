// The operations of both batch APIs in the OpenAPI document.

import { z } from 'zod';

const paging = { limit: z.int().min(1).max(100).optional(), after: z.string().optional() };
const messagePaging = {
  limit: z.int().min(1).max(1000).optional(),
  after_id: z.string().optional(),
  before_id: z.string().optional(),
};

/** Entries of `operations` in document.ts. */
export const batchOperations = [
  {
    method: 'post',
    path: '/v1/batches',
    id: 'createBatch',
    summary: 'Create a batch from an uploaded file of requests (OpenAI format).',
    request: 'BatchRequest',
    answer: 'Batch',
  },
  {
    method: 'get',
    path: '/v1/batches',
    id: 'listBatches',
    summary: 'List batches, the newest first.',
    answer: 'BatchList',
    query: paging,
  },
  {
    method: 'get',
    path: '/v1/batches/{id}',
    id: 'retrieveBatch',
    summary: 'Get a batch.',
    answer: 'Batch',
  },
  {
    method: 'post',
    path: '/v1/batches/{id}/cancel',
    id: 'cancelBatch',
    summary: 'Cancel a batch. Its remaining requests are not run.',
    answer: 'Batch',
  },
  {
    method: 'post',
    path: '/v1/messages/batches',
    id: 'createMessageBatch',
    summary: 'Create a batch of messages (Anthropic format).',
    request: 'MessageBatchRequest',
    answer: 'MessageBatch',
  },
  {
    method: 'get',
    path: '/v1/messages/batches',
    id: 'listMessageBatches',
    summary: 'List batches of messages, the newest first.',
    answer: 'MessageBatchList',
    query: messagePaging,
  },
  {
    method: 'get',
    path: '/v1/messages/batches/{id}',
    id: 'retrieveMessageBatch',
    summary: 'Get a batch of messages.',
    answer: 'MessageBatch',
  },
  {
    method: 'delete',
    path: '/v1/messages/batches/{id}',
    id: 'deleteMessageBatch',
    summary: 'Delete a finished batch of messages and its results.',
    answer: 'MessageBatchDeleted',
  },
  {
    method: 'post',
    path: '/v1/messages/batches/{id}/cancel',
    id: 'cancelMessageBatch',
    summary: 'Cancel a batch of messages. Its remaining requests are not run.',
    answer: 'MessageBatch',
  },
  {
    method: 'get',
    path: '/v1/messages/batches/{id}/results',
    id: 'streamMessageBatchResults',
    summary: 'Get the results of a finished batch of messages, as JSON lines.',
    answer: 'MessageBatchResult',
    lines: 'MessageBatchResult',
  },
] as const;
