// The server that a load test measures, and an API key for it.

import type { Config } from '../config/settings.js';
import { apiUrl } from '../bench/load/prepare.js';
import { readServerRecord } from '../storage/data-dir-lock.js';
import { accountsOf, ChatKey } from './chat-key.js';
import { clientKey } from './client-key.js';
import { UsageError } from '../config/arguments.js';

const PROLONG_MS = 600_000;

export interface Peer {
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  close(): Promise<void>;
}

/**
 * Returns the server at `wanted.url`. If no URL is given, returns the server that uses the data directory and creates a
 * key for it, which close() revokes. `command`: the command's name, for errors.
 */
export async function findPeer(
  command: string,
  wanted: { readonly url: string | undefined; readonly headers: Readonly<Record<string, string>> },
  config: Config,
): Promise<Peer> {
  const bearer = (secret: string): Record<string, string> => ({ authorization: `Bearer ${secret}`, ...wanted.headers });
  const nothing = (): Promise<void> => Promise.resolve();
  if (wanted.url !== undefined) {
    const given = clientKey(config);
    return { url: apiUrl(wanted.url), headers: given === null ? wanted.headers : bearer(given), close: nothing };
  }
  const key = config.api_key;
  const record = readServerRecord(config.data_dir);
  if (record === null) throw new UsageError(`${command}: no server runs on ${config.data_dir}; set --url`);
  if (key !== null || wanted.headers['authorization'] !== undefined)
    return { url: apiUrl(record.url), headers: key === null ? wanted.headers : bearer(key), close: nothing };
  const own = new ChatKey(accountsOf(config), Date.now, {
    name: 'monolith bench',
    scopes: ['inference', 'models.read', 'tokens.count'],
  });
  const headers = bearer(await own.current());
  const prolonging = setInterval(() => {
    void own.current().catch(() => undefined);
  }, PROLONG_MS).unref();
  return {
    url: apiUrl(record.url),
    headers,
    close: async () => {
      clearInterval(prolonging);
      await own.revoke();
    },
  };
}
