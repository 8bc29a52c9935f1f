// The server that a conversation uses: the one at --url, the one that uses the data directory, or one started in this
// process.

import type { Config } from '../config/settings.js';
import { UsageError } from '../config/arguments.js';
import { progressText } from '../engine/loading.js';
import { startServer } from '../server/server.js';
import type { Server } from '../server/server.js';
import { readServerRecord } from '../storage/data-dir-lock.js';
import { createTelemetry } from '../telemetry/telemetry.js';
import { accountsOf, ChatKey } from './chat-key.js';
import { unreachable } from './chat-stream.js';
import { clientKey, KEY_VARIABLE } from './client-key.js';

export interface Peer {
  url: string;
  key(): Promise<string>;
  close(): Promise<void>;
}

export interface Listed {
  id: string;
  demonstration?: boolean;
  /** The model's output type; null or absent if unknown. */
  task?: string | null;
}

const ANSWER_MS = 2_000;

const fixed = (url: string, key: string): Peer => ({
  url,
  key: () => Promise.resolve(key),
  close: () => Promise.resolve(),
});

/** A server at a URL, with the client's API key. Throws UsageError if there is no key. */
export function remotePeer(url: string, config: Config): Peer {
  const key = clientKey(config);
  if (key === null) throw new UsageError(`chat: --url needs --api-key, or ${KEY_VARIABLE}`);
  return fixed(url.replace(/\/+$/, '').replace(/\/v1$/, ''), key);
}

/** The URL of the server that uses the data directory; null if there is none or it does not respond. */
export async function runningServer(config: Config): Promise<string | null> {
  const record = readServerRecord(config.data_dir);
  return record !== null && (await responds(record.url)) ? record.url : null;
}

/** Returns the server that uses the data directory, with a temporary key unless the settings contain a key. */
export function localPeer(url: string, config: Config): Peer {
  if (config.api_key !== null) return fixed(url, config.api_key);
  const key = new ChatKey(accountsOf(config));
  return { url, key: () => key.current(), close: () => key.revoke() };
}

/** Starts a server in this process, which close() stops. */
export async function ownPeer(config: Config): Promise<{ peer: Peer; server: Server }> {
  const server: Server = await startServer(config, {
    telemetry: createTelemetry({ format: 'text', level: 'error' }),
    onLoading: ({ progress }) => {
      if (process.stderr.isTTY) process.stderr.write(`Loading … ${progressText(progress)}\u001b[K\r`);
    },
  });
  const key = new ChatKey((work) => work(server.accounts));
  const peer = {
    url: server.url,
    key: () => key.current(),
    close: async () => {
      await key.revoke();
      await server.close();
    },
  };
  return { peer, server };
}

async function responds(url: string): Promise<boolean> {
  try {
    return (await fetch(`${url}/livez`, { signal: AbortSignal.timeout(ANSWER_MS) })).ok;
  } catch {
    return false;
  }
}

/**
 * Returns the models that generate text. Throws UsageError if the server cannot be reached or does not list its models.
 */
export async function modelsOf(peer: Peer): Promise<Listed[]> {
  let response: Response;
  try {
    response = await fetch(`${peer.url}/v1/models`, { headers: { authorization: `Bearer ${await peer.key()}` } });
  } catch (error) {
    throw new UsageError(`chat: ${unreachable(peer.url, error)}`, error);
  }
  if (!response.ok) throw new UsageError(`chat: ${peer.url}/v1/models returned status ${response.status}`);
  const body = (await response.json().catch(() => null)) as { data?: Listed[] } | null;
  if (!Array.isArray(body?.data))
    throw new UsageError(`chat: ${peer.url} is not a model server: /v1/models returned no list`);
  return body.data.filter(({ task }) => (task ?? 'generation') === 'generation');
}

/** Returns the name of the model to use. Throws UsageError if the server does not have it. */
export function chosenModel(wanted: string | undefined, models: readonly Listed[]): string {
  const model = wanted ?? models[0]?.id;
  if (model !== undefined && models.some(({ id }) => id === model)) return model;
  throw new UsageError(
    `chat: ${model === undefined ? 'the server has no model' : `there is no model "${model}"`}; the server has ${namesOf(models)}`,
  );
}

const namesOf = (models: readonly Listed[]): string => models.map(({ id }) => id).join(', ');
