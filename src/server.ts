// Wires one server together: storage, accounts, limits, models, telemetry and routes on one HTTP app.
// Used by the command line and, in-process, by tests.

import { performance } from 'node:perf_hooks';
import { setTimeout as sleep } from 'node:timers/promises';
import { Accounts } from './accounts/accounts.js';
import { Admission } from './admission/admission.js';
import type { Config } from './config.js';
import { StartError } from './errors.js';
import type { LoadOptions } from './engine/addon-types.js';
import { modelOfFile, readCatalog, withOverrides } from './engine/catalog.js';
import type { CatalogModel } from './engine/catalog.js';
import { ModelPool } from './engine/model-pool.js';
import { ServedModels } from './generation/served-models.js';
import { HttpServer } from './http/app.js';
import { healthRoutes } from './http/health-routes.js';
import type { Health } from './http/health-routes.js';
import { isLoopback } from './http/hosts.js';
import { modelsRoutes } from './http/models-routes.js';
import { createImageLoader } from './generation/images/load-images.js';
import { openApiRoute } from './openapi/route.js';
import { chatCompletionsRoute } from './protocol/chat-completions/route.js';
import type { GenerationDeps } from './protocol/generation-run.js';
import { messagesRoutes } from './protocol/messages/routes.js';
import { BackgroundResponses } from './protocol/responses/background.js';
import { responsesRoutes } from './protocol/responses/routes.js';
import type { ResponsesDeps } from './protocol/responses/routes.js';
import { responsesSocket } from './protocol/responses/socket.js';
import { RunningResponses } from './protocol/responses/stored-running.js';
import { openSealer } from './sealing/open-sealer.js';
import { lockDataDir, removeServerRecord, writeServerRecord } from './storage/data-dir-lock.js';
import { openStore } from './storage/lmdb-store.js';
import { openResponseStore } from './storage/open-response-store.js';
import { createTelemetry } from './telemetry/telemetry.js';
import type { EngineGauges, Telemetry } from './telemetry/types.js';

// What a drain waits for after everything should have ended.
const STUCK_MS = 10_000;
// The last bytes of an answer are with the kernel at once, or within this for a reader that is slow.
const FLUSH_MS = 100;

export interface Server {
  readonly url: string;
  readonly host: string;
  readonly port: number;
  /** Names served, highest tier first. */
  readonly models: readonly string[];
  /** Models that could not be loaded, while others could: they answer 503, and the server is not ready. */
  readonly failed: readonly FailedModel[];
  /** The secret of the first key, on the start that created it. */
  readonly createdKey: string | null;
  readonly accounts: Accounts;
  readonly telemetry: Telemetry;
  readonly pool: ModelPool;
  readonly http: HttpServer;
  /** Refuses new requests, gives running ones `drain_ms`, ends them early, then closes. Idempotent. */
  drain(): Promise<void>;
  /** Closes at once; running requests are aborted. Idempotent. */
  close(): Promise<void>;
}

export interface FailedModel {
  name: string;
  /** Names the file and what is wrong with it. */
  reason: string;
}

export interface StartOptions {
  /** Used instead of one made from the settings. */
  telemetry?: Telemetry;
}

/** What `load` of the addon takes, from the settings. */
export function loadOptions(config: Config): LoadOptions {
  const { engine } = config;
  return {
    threads: engine.threads, isa: engine.isa, arithmetic: engine.arithmetic, kvType: engine.kv_type,
    maxContext: engine.max_context, kvBytes: engine.kv_bytes, maxBatchTokens: engine.max_batch_tokens,
    maxSequences: engine.max_sequences, stepMs: engine.step_ms, queueMax: engine.queue_max, prefixCache: engine.prefix_cache,
  };
}

/** The models the settings ask for. Throws CatalogError. */
export function configuredModels(config: Config): CatalogModel[] {
  const models = config.model.length > 0 ? config.model.map(({ name, path }) => modelOfFile(name, path)) : readCatalog();
  return withOverrides(models, config.models);
}

/** Rejects if no model, or the data folder or the address, can be used; nothing is left open then. */
export async function startServer(config: Config, options: StartOptions = {}): Promise<Server> {
  const undo: (() => void | Promise<void>)[] = [];
  try {
    return await start(config, options, undo);
  } catch (error) {
    for (const step of undo.reverse()) await step();
    throw error;
  }
}

async function start(config: Config, options: StartOptions, undo: (() => void | Promise<void>)[]): Promise<Server> {
  const telemetry = options.telemetry ?? createTelemetry({ format: config.log, level: config.log_level });
  undo.push(() => telemetry.close());
  const { log } = telemetry;
  const catalog = configuredModels(config);

  const lock = await lockDataDir(config.data_dir);
  undo.push(() => lock.release());
  const store = await openStore(config.data_dir);
  undo.push(() => store.close());
  const responses = openResponseStore(store, config.responses, {
    onError: (err) => log.error({ err }, 'sweeping stored responses failed'),
    onWriteFailure: (err) => log.error({ err }, 'responses cannot be stored'),
  });
  undo.push(() => responses.close());
  await responses.failUnfinished();
  const accounts = new Accounts(store);
  undo.push(() => accounts.close());

  const pool = new ModelPool(loadOptions(config));
  undo.push(() => pool.close());
  for (const model of catalog) pool.add(model);
  const models = new ServedModels(pool, { queueWaitMs: config.engine.queue_wait_ms, maxGenerationMs: config.engine.max_generation_ms });

  const admission = new Admission(config.limits);
  telemetry.observeEngines(() => engineGauges(pool));
  let draining = false;
  let failed: readonly FailedModel[] = [];
  // While models load, requests are answered already (503 model_loading): with a chosen key, from the first one on.
  if (config.api_key !== null) await accounts.bootstrap(config.api_key);
  const sealer = await openSealer(store, config.secrets.signing_keys, catalog.map(({ id }) => id));
  const generation: GenerationDeps = {
    models, admission, telemetry, images: createImageLoader(config.images), limits: { maxN: config.limits.max_n },
  };
  const background = new BackgroundResponses(responses, telemetry);
  const responsesDeps: ResponsesDeps = { ...generation, sealer, responses, settings: config.responses, background, running: new RunningResponses() };
  const http = new HttpServer({
    config,
    telemetry,
    authenticate: (key) => accounts.authenticate(key),
    routes: [
      ...healthRoutes({ health: () => poolHealth(pool, failed, draining), telemetry, stallMs: config.engine.stall_ms, metricsPublic: config.metrics.public }),
      ...modelsRoutes({ list: () => models.describe() }),
      openApiRoute(),
      chatCompletionsRoute(generation),
      ...messagesRoutes({ ...generation, sealer, foreignThinking: config.messages.foreign_thinking }),
      ...responsesRoutes(responsesDeps),
    ],
    sockets: [responsesSocket({ ...responsesDeps, maxAgeS: config.ws.max_age_s, maxMessageBytes: config.http.max_body_bytes })],
  });
  undo.push(() => http.close());
  const port = await http.listen(config.host, config.port);
  const url = `http://${urlHost(config.host)}:${port}`;
  if (!isLoopback(config.host)) log.warn({ host: config.host }, 'listening beyond this machine: every request needs an API key, but nothing is encrypted; put a TLS proxy in front');

  await watchLoading(pool, telemetry);
  failed = failedModels(pool, models);
  const names = catalog.map(({ id }) => id).filter((name) => !failed.some((one) => one.name === name));
  if (names.length === 0) throw new StartError([...new Set(failed.map(({ reason }) => reason))].join('; '));
  // One bad file does not take the others' models down; that the server is not whole shows in /readyz.
  for (const { name, reason } of failed) log.error({ model: name, reason }, 'model cannot be served; the others can');

  writeServerRecord(config.data_dir, { pid: process.pid, url });
  undo.push(() => removeServerRecord(config.data_dir));
  // Last: a key is shown once, so it must not be created by a start that fails.
  const { created } = await accounts.bootstrap(config.api_key);

  let closing: Promise<void> | null = null;
  const close = (): Promise<void> => {
    closing ??= (async () => {
      removeServerRecord(config.data_dir);
      http.close();
      await pool.close();
      await accounts.close();
      background.close();
      await responses.close();
      await store.close();
      await lock.release();
      telemetry.close();
    })();
    return closing;
  };
  let drainDone: Promise<void> | null = null;
  const drain = (): Promise<void> => {
    drainDone ??= (async () => {
      draining = true;
      http.draining = true;
      log.info({ in_flight: http.inFlight, background: background.size, drain_ms: config.engine.drain_ms }, 'draining');
      const early = setTimeout(() => {
        log.info({ in_flight: http.inFlight, background: background.size }, 'ending what still runs');
        pool.drain();
      }, config.engine.drain_ms);
      // An engine that has stopped making steps cannot end anything: it does not get to keep the process.
      await Promise.race([Promise.all([http.idle(), background.idle()]), sleep(config.engine.drain_ms + STUCK_MS, undefined, { ref: false })]);
      clearTimeout(early);
      await sleep(FLUSH_MS);
      await close();
    })();
    return drainDone;
  };
  return { url, host: config.host, port, models: names, failed, createdKey: created, accounts, telemetry, pool, http, drain, close };
}

/** Logs what has been loaded; resolves when nothing loads any more. */
async function watchLoading(pool: ModelPool, telemetry: Telemetry): Promise<void> {
  const begun = performance.now();
  await pool.settled();
  for (const { file, names, status } of pool.engines()) {
    const fields = { file, models: names.join(','), ms: performance.now() - begun };
    if (status.state === 'ready') {
      const { backend, plan, maxContext } = status.engine;
      telemetry.log.info({ ...fields, backend: backend.name, isa: backend.isa, threads: backend.threads, context: maxContext, weight_bytes: plan.weightBytes, kv_bytes: plan.kvBytes }, 'model loaded');
    }
  }
}

/** What cannot be served of what is loaded or not: bad files, bad chat templates. Compiles the templates. */
function failedModels(pool: ModelPool, models: ServedModels): FailedModel[] {
  let unusable: ReadonlyMap<string, string>;
  try {
    unusable = new Map(models.problems().map(({ model, message }) => [model, message]));
  } catch (error) {
    throw new StartError(error instanceof Error ? error.message : String(error), error);
  }
  return pool.list().flatMap(({ model, status }) => {
    const reason = status.state === 'failed' ? status.error.message : unusable.get(model.id);
    if (reason === undefined) return [];
    return [{ name: model.id, reason: reason.includes(model.file) ? reason : `${model.file}: ${reason}` }];
  });
}

function poolHealth(pool: ModelPool, failedAtStart: readonly FailedModel[], draining: boolean): Health {
  return {
    draining,
    models: pool.list().map(({ model, status }) => {
      const stats = status.state === 'ready' ? status.engine.stats() : null;
      const reason = failedAtStart.find(({ name }) => name === model.id)?.reason
        ?? (status.state === 'failed' ? status.error.message : stats?.failed === true ? 'the engine has stopped on an internal error' : null);
      return {
        name: model.id,
        state: reason === null ? status.state : 'failed',
        progress: status.state === 'loading' ? status.progress : reason === null ? 1 : 0,
        error: reason,
        running: stats?.running ?? 0,
        waiting: stats?.waiting ?? 0,
        lastStepAgeMs: stats?.lastStepAgeMs ?? 0,
      };
    }),
  };
}

// Models that share a file share an engine: its numbers are shown once, under the first of its names.
function engineGauges(pool: ModelPool): EngineGauges[] {
  return pool.engines().flatMap(({ names, status }) => (status.state === 'ready' ? [{ model: names[0] ?? '', ...status.engine.stats() }] : []));
}

function urlHost(host: string): string {
  if (host === '0.0.0.0') return '127.0.0.1';
  if (host === '::') return '[::1]';
  return host.includes(':') ? `[${host}]` : host;
}
