// POST /organizations/:org/playground: calls the Chat Completions route on behalf of the organization, without an API
// key. Limits, usage and errors work as they do for API requests.

import { identityWithoutKey } from '../../accounts/accounts.js';
import { apiError } from '../../shared/errors.js';
import type { Route } from '../../http/exchange.js';
import type { Config } from '../../config/settings.js';
import type { Guard } from './guard.js';

/** Stands in for the API key ID in usage records and limits. */
export const PLAYGROUND_KEY = 'playground';

export interface PlaygroundDeps {
  guard: Guard;
  /** POST /v1/chat/completions. */
  chat: Route;
  config: Pick<Config, 'http'>;
  draining: () => boolean;
}

export function playgroundRoutes({ guard, chat, config, draining }: PlaygroundDeps): Route[] {
  return [
    guard.member('developer', {
      method: 'POST',
      path: '/organizations/:org/playground',
      maxBodyBytes: config.http.max_body_bytes,
      generates: true,
      countedAs: chat.path,
      actAs: ({ organization, user }) => ({ ...identityWithoutKey(organization, PLAYGROUND_KEY), userId: user.id }),
      handler: ({ exchange }) => {
        if (draining()) throw apiError('shutting_down', 'The server is shutting down and accepts no new requests.');
        return chat.handler(exchange);
      },
    }),
  ];
}
