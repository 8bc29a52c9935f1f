// Selects the error format of a request: by path or, if the path does not determine the format, by client.

import type { ErrorFormat } from '../shared/errors.js';

/** `header` returns '' for an absent header. */
export function errorFormatOf(path: string, header: (name: string) => string): ErrorFormat {
  if (under(path, '/v1/messages')) return 'messages';
  if (under(path, '/api')) return 'ollama';
  if (
    path === '/v1/completions' ||
    path === '/v1/embeddings' ||
    path === '/v1/decisions' ||
    path === '/infill' ||
    /^(\/v[12])?\/(rerank|score)$/.test(path) ||
    path.startsWith('/v1/chat/') ||
    under(path, '/v1/responses') ||
    under(path, '/v1/conversations') ||
    under(path, '/v1/batches') ||
    path.startsWith('/dashboard/api/') ||
    path.startsWith('/admin/api/')
  )
    return 'chat';
  const messagesClient =
    header('anthropic-version') !== '' ||
    header('compat-version') !== '' ||
    header('x-api-key') !== '' ||
    header('user-agent').startsWith('Anthropic/');
  return messagesClient ? 'messages' : 'chat';
}

function under(path: string, root: string): boolean {
  return path.startsWith(root) && (path.length === root.length || path[root.length] === '/');
}

/** Whether a path belongs to one of the API formats, rather than to the dashboard or to operators. */
export const isApiPath = (path: string): boolean => path.startsWith('/v1/') || path.startsWith('/api/');
