// What one thread that answers requests consists of: storage, accounts, limits, the models it talks to, and
// the routes on one HTTP app. With several HTTP threads each opens one; what they share goes through the
// engine (attached to by file), LMDB, `shared` and the bus. server.ts is what there is once per server.

import type { Config } from './config.js';
import { Accounts } from './accounts/accounts.js';
import { Admission } from './admission/admission.js';
import type { LoadOptions } from './engine/addon-types.js';
import { modelOfFile, readCatalog, withOverrides } from './engine/catalog.js';
import type { CatalogModel } from './engine/catalog.js';
import { ModelPool } from './engine/model-pool.js';
import { StartError } from './errors.js';
import { createImageLoader } from './generation/images/load-images.js';
import { ServedModels } from './generation/served-models.js';
import { HttpServer } from './http/app.js';
import { healthRoutes } from './http/health-routes.js';
import type { Health } from './http/health-routes.js';
import { modelsRoutes } from './http/models-routes.js';
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
import { openStore } from './storage/lmdb-store.js';
import { openResponseStore } from './storage/open-response-store.js';
import type { ResponseStore } from './storage/response-store.js';
import type { Store } from './storage/store.js';
import type { EngineGauges, Telemetry } from './telemetry/types.js';
import type { ThreadBus } from './threads/bus.js';

/** Memory that all threads count in. */
export interface SharedState { counters: SharedArrayBuffer }

export interface ServiceOptions {
  config: Config;
  telemetry: Telemetry;
  bus: ThreadBus;
  shared: SharedState;
  /** The one that does what is done once per server: sweeps, unfinished responses, keys chosen by the operator. */
  primary: boolean;
}

export interface FailedModel {
  name: string;
  /** Names the file and what is wrong with it. */
  reason: string;
}

export interface Service {
  readonly store: Store;
  readonly accounts: Accounts;
  readonly admission: Admission;
  readonly responses: ResponseStore;
  readonly pool: ModelPool;
  readonly models: ServedModels;
  readonly background: BackgroundResponses;
  readonly http: HttpServer;
  /** New requests are refused, what runs goes on. */
  drain(): void;
  /** Resolves when nothing runs. */
  idle(): Promise<void>;
  /** What cannot be served once nothing loads any more. Throws StartError if that cannot be told. */
  failedModels(): readonly FailedModel[];
  close(): Promise<void>;
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

/** Opens everything but the listening socket; models load on. Rejects with nothing left open. */
export async function openService(options: ServiceOptions): Promise<Service> {
  const undo: (() => void | Promise<void>)[] = [];
  try {
    return await open(options, undo);
  } catch (error) {
    for (const step of undo.reverse()) await step();
    throw error;
  }
}

async function open({ config, telemetry, shared, primary }: ServiceOptions, undo: (() => void | Promise<void>)[]): Promise<Service> {
  const { log } = telemetry;
  const catalog = configuredModels(config);

  const store = await openStore(config.data_dir);
  undo.push(() => store.close());
  const responses = openResponseStore(store, config.responses, {
    onError: (err) => log.error({ err }, 'sweeping stored responses failed'),
    onWriteFailure: (err) => log.error({ err }, 'responses cannot be stored'),
  });
  undo.push(() => responses.close());
  if (primary) await responses.failUnfinished();
  const accounts = new Accounts(store);
  undo.push(() => accounts.close());

  const pool = new ModelPool(loadOptions(config));
  undo.push(() => pool.close());
  for (const model of catalog) pool.add(model);
  const models = new ServedModels(pool, { queueWaitMs: config.engine.queue_wait_ms, maxGenerationMs: config.engine.max_generation_ms });

  const admission = new Admission(config.limits, { buffer: shared.counters });
  telemetry.observeEngines(() => engineGauges(pool));
  // While models load, requests are answered already (503 model_loading): with a chosen key, from the first one on.
  if (primary && config.api_key !== null) await accounts.bootstrap(config.api_key);
  const sealer = await openSealer(store, config.secrets.signing_keys, catalog.map(({ id }) => id));
  const generation: GenerationDeps = {
    models, admission, telemetry, images: createImageLoader(config.images), limits: { maxN: config.limits.max_n },
  };
  const background = new BackgroundResponses(responses, telemetry);
  const responsesDeps: ResponsesDeps = { ...generation, sealer, responses, settings: config.responses, background, running: new RunningResponses() };

  let draining = false;
  let failed: readonly FailedModel[] = [];
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

  return {
    store, accounts, admission, responses, pool, models, background, http,
    drain: () => {
      draining = true;
      http.draining = true;
    },
    idle: async () => { await Promise.all([http.idle(), background.idle()]); },
    failedModels: () => {
      failed = failedModels(pool, models);
      return failed;
    },
    close: async () => {
      http.close();
      await pool.close();
      await accounts.close();
      background.close();
      await responses.close();
      await store.close();
    },
  };
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
