// The complete service of one request-handling thread, used by server.ts and by the HTTP workers. With several HTTP
// workers, each opens its own service. The services share state through the engine (each attaches to the engine that
// has its model file loaded), LMDB, `shared` and the bus. Everything that exists only once per server is in server.ts.
// app.ts lists the modules of a service.

import type { Accounts } from '../accounts/accounts.js';
import type { SweptDirectory } from '../accounts/directory.js';
import type { Admission } from '../admission/admission.js';
import type { Config } from '../config/settings.js';
import type { DashboardOrigin } from '../dashboard/origin.js';
import type { ModelPool } from '../engine/model-pool.js';
import type { PromptCache } from './prompt-cache/prompt-cache.js';
import type { ServedModels } from '../generation/served-models.js';
import type { HttpServer } from '../http/app.js';
import type { BackgroundResponses } from '../protocol/responses/background.js';
import type { ThreadBus } from '../shared/bus.js';
import type { ResponseStore } from '../storage/response-store.js';
import type { Telemetry } from '../telemetry/types.js';
import { openApp } from './app.js';
import { DisposableStack } from './disposable-stack.js';
import type { FailedModel } from './engine-status.js';
import type { IsRunning } from './lost-thread.js';
import type { ShutdownState } from './module.js';
import type { SharedState } from './shared-state.js';

export interface ServiceOptions {
  config: Config;
  telemetry: Telemetry;
  bus: ThreadBus;
  shared: SharedState;
  /**
   * The primary thread does everything that is done once per server: sweeps, ending unfinished responses, and creating
   * the key set by the operator.
   */
  primary: boolean;
}

export interface Service {
  readonly accounts: Accounts;
  readonly directory: SweptDirectory;
  readonly origin: DashboardOrigin;
  readonly admission: Admission;
  readonly responses: ResponseStore;
  readonly pool: ModelPool;
  readonly promptCache: PromptCache;
  readonly models: ServedModels;
  readonly background: BackgroundResponses;
  readonly http: HttpServer;
  /**
   * The separate listener for the operator API. Null if no operator token is set, and on all threads except the primary
   * one.
   */
  readonly admin: HttpServer | null;
  /**
   * Ends background responses that no thread generates any longer (see ResponseStore): counts their tokens and notifies
   * the clients that follow them.
   */
  failUnfinished(isRunning?: IsRunning): Promise<void>;
  /** Calls `listener` once if the data directory's database no longer accepts writes. Only a restart recovers it. */
  onStorageFailure(listener: (why: Error) => void): void;
  /**
   * Makes /readyz report that the server is about to shut down, so that load balancers stop sending it requests.
   * Requests are still served.
   */
  unready(): void;
  /** Refuses new requests; running requests continue. */
  drain(): void;
  /** Resolves when no request is running. */
  idle(): Promise<void>;
  /**
   * Returns the models that cannot be served. Must be called after loading has finished. Throws StartError if the chat
   * templates cannot be checked.
   */
  failedModels(): readonly FailedModel[];
  close(): Promise<void>;
}

/**
 * Opens everything except the listening socket. Models may still be loading when this resolves. If it rejects, all
 * resources have been closed.
 */
export function openService(options: ServiceOptions): Promise<Service> {
  return DisposableStack.opening((undo) => open(options, undo));
}

async function open(
  { config, telemetry, bus, shared, primary }: ServiceOptions,
  undo: DisposableStack,
): Promise<Service> {
  const shutdown: ShutdownState = { unready: false, draining: false };
  const app = await openApp({ config, telemetry, shared, primary, shutdown }, bus, undo);
  const { http } = app.http;
  const { background } = app.background;
  return {
    accounts: app.authentication.accounts,
    directory: app.storage.directory,
    origin: app.mail.origin,
    admission: app.limits.admission,
    responses: app.storage.responses,
    pool: app.engines.pool,
    promptCache: app.promptCache.promptCache,
    models: app.models.models,
    background,
    http,
    admin: app.operator.admin,
    failUnfinished: (isRunning) => app.recovery.failUnfinished(isRunning),
    onStorageFailure: (listener) => app.storage.onFailure(listener),
    unready: () => {
      shutdown.unready = true;
    },
    drain: () => {
      shutdown.unready = true;
      shutdown.draining = true;
      http.draining = true;
      app.batches.drain();
      app.live.live.drain();
      const last = setTimeout(() => app.models.upstreams.drain(), config.engine.drain_ms);
      last.unref();
      undo.add(() => clearTimeout(last));
      app.operator.tunings.drain();
    },
    idle: async () => {
      await Promise.all([http.idle(), background.idle()]);
    },
    failedModels: () => app.models.failedModels(),
    close: () => undo.run(),
  };
}
