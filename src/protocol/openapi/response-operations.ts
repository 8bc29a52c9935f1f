// The operations on responses in the OpenAPI document. No side effects.
import { z } from 'zod';
import { include, itemPaging } from './item-paging.js';

const replay = { stream: z.boolean().optional(), starting_after: z.int().min(0).optional(), ...include };

/** Entries of `operations` in document.ts. */
export const responseOperations = [
  {
    method: 'post',
    path: '/v1/responses',
    id: 'createResponse',
    summary: 'Create a response. It is stored unless `store` is false.',
    request: 'ResponseRequest',
    answer: 'Response',
    stream: 'ResponseEvent',
  },
  {
    method: 'get',
    path: '/v1/responses/{id}',
    id: 'retrieveResponse',
    summary: 'Get a stored response, or replay its events.',
    answer: 'Response',
    stream: 'ResponseEvent',
    query: replay,
  },
  {
    method: 'delete',
    path: '/v1/responses/{id}',
    id: 'deleteResponse',
    summary: 'Delete a stored response.',
    answer: 'ResponseDeleted',
  },
  {
    method: 'post',
    path: '/v1/responses/{id}/cancel',
    id: 'cancelResponse',
    summary: 'Cancel a background response.',
    answer: 'Response',
  },
  {
    method: 'get',
    path: '/v1/responses/{id}/input_items',
    id: 'listResponseInputItems',
    summary: 'List the input items of a response, including the conversation that it continues.',
    answer: 'ResponseItemList',
    query: itemPaging,
  },
  {
    method: 'post',
    path: '/v1/responses/input_tokens',
    id: 'countResponseInputTokens',
    summary: 'Count the input tokens of a request.',
    request: 'ResponseInputTokensRequest',
    answer: 'ResponseInputTokens',
  },
  {
    method: 'post',
    path: '/v1/responses/compact',
    id: 'compactResponse',
    summary: 'Compact a conversation to its user messages and an encrypted summary.',
    request: 'CompactRequest',
    answer: 'Compaction',
  },
] as const;
