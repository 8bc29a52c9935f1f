// Serves `monolith` commands on the same machine and data directory over a socket: the server's status (monolith ps, rm
// and run) and the prompt cache (monolith cache). The socket's file permissions control which users may connect, so no
// API key is needed.

import { chmodSync, rmSync } from 'node:fs';
import { createServer } from 'node:http';
import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import { planBytes } from '../engine/file-facts.js';
import type { ModelPool, PooledEngine } from '../engine/model-pool.js';
import { MAX_PINNED_CHARACTERS, type PromptCacheCommand } from '../shared/wire/prompt-cache.js';
import type { LocalModel, LocalStatus } from '../shared/wire/local-status.js';
import { VERSION } from '../shared/version.js';
import { statusSocketPath, withStatusSocket } from '../storage/status-socket-path.js';
import type { Log } from '../telemetry/types.js';
import { answerOf, type PromptCache } from './prompt-cache/prompt-cache.js';

const MAX_CONNECTIONS = 16;

export interface LocalStatusDeps {
  readonly pool: Pick<ModelPool, 'engines' | 'list'>;
  readonly url: string;
  readonly log: Log;
  readonly promptCache: PromptCache;
  /** Adds an entry to the server's audit log. */
  note(action: string, target: string): Promise<void>;
}

/**
 * Listens until close() is called. If the socket cannot be created, the error is logged and startup continues, because
 * the server works without it.
 */
export async function openLocalStatus(dataDir: string, deps: LocalStatusDeps): Promise<{ close(): Promise<void> }> {
  const server = createServer({ requestTimeout: 5_000, headersTimeout: 5_000 }, (request, response) => {
    const isStatus = request.method === 'GET' && request.url === '/status';
    response.setHeader('connection', 'close');
    if (request.method === 'POST' && request.url === '/prompt-cache') {
      void answerCommand(request, response, deps);
      return;
    }
    request.resume();
    if (!isStatus) {
      response.writeHead(404).end();
      return;
    }
    response.setHeader('content-type', 'application/json');
    response.end(JSON.stringify(localStatus(deps)));
  });
  server.maxConnections = MAX_CONNECTIONS;
  // Accepting a connection failed, for example because the process has run out of file descriptors.
  server.on('error', () => undefined);
  server.unref();
  try {
    // The caller holds the lock of the data directory, so an existing socket is left over from a killed server.
    rmSync(statusSocketPath(dataDir), { force: true });
    await withStatusSocket(dataDir, (path) => listen(server, path));
    chmodSync(statusSocketPath(dataDir), 0o600);
  } catch (error) {
    deps.log.warn({ err: error }, 'no status socket: monolith ps cannot show this server');
  }
  return {
    close: async () => {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
      rmSync(statusSocketPath(dataDir), { force: true });
    },
  };
}

/** Maximum size of a command in bytes. JSON takes at most six bytes per character of a prompt. */
const MAX_COMMAND_BYTES = 6 * MAX_PINNED_CHARACTERS + 4_096;

/** Runs the PromptCacheCommand in the request body and responds with a PromptCacheAnswer. */
async function answerCommand(request: IncomingMessage, response: ServerResponse, deps: LocalStatusDeps): Promise<void> {
  try {
    const chunks: Buffer[] = [];
    let bytes = 0;
    for await (const chunk of request as AsyncIterable<Buffer>) {
      bytes += chunk.length;
      if (bytes > MAX_COMMAND_BYTES) {
        response.writeHead(413).end();
        return;
      }
      chunks.push(chunk);
    }
    const command = JSON.parse(Buffer.concat(chunks).toString('utf8')) as PromptCacheCommand;
    const answer = await answerOf(deps.promptCache, command);
    if (answer.ok && command.type !== 'state') await deps.note(`prompt_cache.${DONE[command.type]}`, targetOf(command));
    response.setHeader('content-type', 'application/json');
    response.end(JSON.stringify(answer));
  } catch (err) {
    deps.log.warn({ err }, 'a command for the prompt cache failed');
    response.destroy();
  }
}

const DONE = { clear: 'cleared', warm: 'pinned', unpin: 'unpinned' } as const;

const targetOf = (command: PromptCacheCommand): string =>
  command.type === 'clear'
    ? `${command.model ?? 'all models'}, ${command.organization ?? 'all organizations'}`
    : command.type === 'warm'
      ? command.model
      : command.type === 'unpin'
        ? command.id
        : '';

function listen(server: Server, path: string): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once('error', reject);
    server.listen(path, () => {
      server.off('error', reject);
      resolve();
    });
  });
}

function localStatus({ pool, url }: LocalStatusDeps): LocalStatus {
  const elsewhere = pool.list().filter(({ status }) => status.state === 'elsewhere');
  return {
    pid: process.pid,
    version: VERSION,
    url,
    uptime_s: Math.round(process.uptime()),
    models: [...pool.engines().map(localModel), ...elsewhere.map(({ model }) => upstreamModel(model.id))],
  };
}

function localModel({ names, adapterNames, file, status }: PooledEngine): LocalModel {
  const base = {
    names,
    adapters: adapterNames,
    file,
    state: status.state,
    progress: status.state === 'loading' ? status.progress : null,
    problem: status.state === 'failed' ? status.error.message : null,
  };
  if (status.state !== 'ready') return { ...base, ...NOTHING_LOADED };
  const { plan, backend, maxContext } = status.engine;
  const { running, waiting, maxSequences, kvUsedBytes } = status.engine.stats();
  const most = planBytes(plan);
  return {
    ...base,
    memory_bytes: most - plan.kvBytes + kvUsedBytes,
    max_memory_bytes: most,
    device: backend.name,
    context: maxContext,
    running,
    max_running: maxSequences,
    waiting,
  };
}

const NOTHING_LOADED = {
  memory_bytes: null,
  max_memory_bytes: null,
  device: null,
  context: null,
  running: 0,
  max_running: null,
  waiting: 0,
} as const;

const upstreamModel = (name: string): LocalModel => ({
  names: [name],
  adapters: [],
  file: null,
  state: 'elsewhere',
  progress: null,
  problem: null,
  ...NOTHING_LOADED,
});
