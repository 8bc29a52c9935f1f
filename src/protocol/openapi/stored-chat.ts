// The published operations on stored chat completions. No side effects.
import { z } from 'zod';

const PATH = '/v1/chat/completions';

const paging = {
  limit: z.int().min(1).max(100).optional(),
  order: z.enum(['asc', 'desc']).optional(),
  after: z.string().optional(),
};

export const storedChatOperations = [
  {
    method: 'get',
    path: PATH,
    id: 'listChatCompletions',
    summary: 'List the chat completions that were stored with `store: true`.',
    answer: 'ChatCompletionList',
    query: { ...paging, model: z.string().optional(), 'metadata[key]': z.string().optional() },
  },
  {
    method: 'get',
    path: `${PATH}/{id}`,
    id: 'retrieveChatCompletion',
    summary: 'Get a stored chat completion.',
    answer: 'ChatCompletion',
  },
  {
    method: 'post',
    path: `${PATH}/{id}`,
    id: 'updateChatCompletion',
    summary: "Replace a stored chat completion's metadata.",
    request: 'ChatCompletionUpdateRequest',
    answer: 'ChatCompletion',
  },
  {
    method: 'delete',
    path: `${PATH}/{id}`,
    id: 'deleteChatCompletion',
    summary: 'Delete a stored chat completion.',
    answer: 'ChatCompletionDeleted',
  },
  {
    method: 'get',
    path: `${PATH}/{id}/messages`,
    id: 'listChatCompletionMessages',
    summary: 'List the request messages of a stored chat completion.',
    answer: 'ChatMessageList',
    query: paging,
  },
] as const;
