// POST /organizations/:org/playground: the chat-completions route, called as the organization instead of with a
// key, so that limits, usage and errors are those of the API.

import { identityWithoutKey } from '../../accounts/accounts.js';
import { apiError } from '../../shared/errors.js';
import type { Route } from '../../http/exchange.js';
import type { DashboardDeps } from './deps.js';

/** Stands where usage and limits have the key's id. */
export const PLAYGROUND_KEY = 'playground';

export function playgroundRoutes({
  guard,
  chat,
  config,
  draining,
}: Pick<DashboardDeps, 'guard' | 'chat' | 'config' | 'draining'>): Route[] {
  return [
    guard.member('developer', {
      method: 'POST',
      path: '/organizations/:org/playground',
      maxBodyBytes: config.http.max_body_bytes,
      generates: true,
      countedAs: chat.path,
      actAs: ({ organization }) => identityWithoutKey(organization, PLAYGROUND_KEY),
      serve: ({ exchange }) => {
        if (draining()) throw apiError('shutting_down', 'The server is shutting down and takes no new requests.');
        return chat.serve(exchange);
      },
    }),
  ];
}
