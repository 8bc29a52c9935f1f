// The environment variables for a client's key and server address. Guides, the dashboard and the startup message use
// the same two names.

import type { Config } from '../config/settings.js';

/**
 * The environment variable for a client's API key. It is not a setting: MONOLITH_API_KEY is a key that the server
 * accepts.
 */
export const KEY_VARIABLE = 'MONOLITH_KEY';
/** The environment variable for the server's address. */
export const URL_VARIABLE = 'MONOLITH_URL';

/**
 * The key for the server at --url, from --api-key or the client's environment variable; null if neither is set. A local
 * server's `api_key` setting is never sent to other servers.
 */
export function clientKey({ api_key, given }: Pick<Config, 'api_key' | 'given'>): string | null {
  if (given['api_key'] === '--api-key') return api_key;
  return process.env[KEY_VARIABLE] || null;
}
