// One server: the data directory's lock, the service that handles requests, the listening socket and the shutdown. Used
// by the command line and, in-process, by tests.

import type { Actor } from '../accounts/audit.js';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Accounts } from '../accounts/accounts.js';
import type { SweptDirectory } from '../accounts/directory.js';
import { ledgerOf } from '../admission/counter-memory.js';
import type { Config } from '../config/settings.js';
import { setupUrl } from '../dashboard/api/objects.js';
import { isDeprecatedNode } from '../shared/deprecated-node.js';
import { StartError } from '../shared/errors.js';
import { logLoading } from '../engine/loading.js';
import type { Loading } from '../engine/loading.js';
import type { ModelPool } from '../engine/model-pool.js';
import type { HttpServer } from '../http/app.js';
import { isLoopback } from '../http/hosts.js';
import { checkAddresses } from '../http/listen-problem.js';
import { chooseServer } from '../http/server-choice.js';
import type { FailedModel } from './engine-status.js';
import { openLocalStatus } from './local-status.js';
import { openService } from './service.js';
import type { Service } from './service.js';
import { abortThread } from './lost-thread.js';
import { checkShared } from './shared-settings.js';
import { createSharedState } from './shared-state.js';
import type { SharedState } from './shared-state.js';
import { DisposableStack } from './disposable-stack.js';
import { lockDataDir, removeServerRecord, writeServerRecord } from '../storage/data-dir-lock.js';
import { ensureRoom } from '../storage/lmdb/lmdb-store.js';
import { createTelemetry } from '../telemetry/telemetry.js';
import type { Telemetry } from '../telemetry/types.js';
import { HeldResponses } from '../storage/held-responses.js';
import { upstreamShape } from './engine-settings.js';
import { HttpWorkers } from './workers/http-workers.js';
import { LocalBus } from '../shared/bus.js';
import { SharedCounts } from '../generation/upstream/shared-counts.js';
import { HubBus } from './workers/hub-bus.js';

// How long a drain waits beyond `drain_ms` before it gives up on a stuck engine.
const STUCK_MS = 10_000;
// Time for the kernel to accept the last bytes of responses to slow readers.
const FLUSH_MS = 100;

export interface Server {
  readonly url: string;
  readonly host: string;
  readonly port: number;
  /** Address of the operator API; null if no token is set. */
  readonly adminUrl: string | null;
  /** Names of the served models, highest tier first. */
  readonly models: readonly string[];
  /**
   * Models that failed to load although others loaded. Requests for them get a 503, and /readyz reports that the server
   * is not ready.
   */
  readonly failed: readonly FailedModel[];
  /** The secret of the first API key. Set only by the startup that creates the key. */
  readonly createdKey: string | null;
  /** Null if the dashboard is off. */
  readonly dashboardUrl: string | null;
  /** Sign-up URL for the first user, including the setup code. Null if a user exists or sign-up is open. */
  readonly setupUrl: string | null;
  readonly accounts: Accounts;
  readonly directory: SweptDirectory;
  readonly telemetry: Telemetry;
  readonly pool: ModelPool;
  readonly http: HttpServer;
  /** The HTTP workers; null if the main thread handles requests. */
  readonly threads: HttpWorkers | null;
  /**
   * Resolves with the reason when the database stops accepting writes. The process must then be drained and killed,
   * because closing it normally would write again, and LMDB would then report pages as synced that the disk may have
   * lost.
   */
  readonly lost: Promise<Error>;
  /**
   * Refuses new requests, lets running requests continue for `drain_ms`, aborts the remaining requests, then closes.
   * Idempotent.
   */
  drain(): Promise<void>;
  /** Closes immediately and aborts running requests. Idempotent. */
  close(): Promise<void>;
}

export interface StartOptions {
  /** Used instead of creating a Telemetry from the configuration. */
  telemetry?: Telemetry;
  /** Called after this server has locked the data directory. */
  onLocked?: () => void;
  /** Called periodically while models load. */
  onLoading?: (loading: Loading) => void;
}

/**
 * Rejects if no model can be served, or if the data directory or the listen address cannot be used. In that case, all
 * resources have been closed.
 */
export function startServer(config: Config, options: StartOptions = {}): Promise<Server> {
  return DisposableStack.opening((undo) => start(config, options, undo));
}

async function start(configured: Config, options: StartOptions, undo: DisposableStack): Promise<Server> {
  checkShared(configured);
  const { server, reason: withoutUws } = chooseServer(configured.http);
  const config: Config = { ...configured, http: { ...configured.http, server } };
  const telemetry =
    options.telemetry ??
    createTelemetry({
      format: config.log,
      level: config.log_level,
      metricNames: config.metrics.names,
      traces: config.telemetry.traces,
    });
  undo.add(() => telemetry.close());
  const { log } = telemetry;
  const lock = lockDataDir(config.data_dir);
  undo.add(() => lock.release());
  options.onLocked?.();
  ensureRoom(config.data_dir);
  await checkAddresses(config);
  if (withoutUws !== null)
    log.warn({ reason: withoutUws }, 'uWebSockets.js could not be loaded; using http.server "node"');
  if (isDeprecatedNode(process.versions.node))
    log.warn({ node: process.version }, 'Node.js 20 is deprecated and will not be supported by the next version');

  const hub =
    config.http.threads > 1
      ? new HubBus({
          threads: config.http.threads,
          onError: (err, topic) => log.error({ err, topic }, 'thread message failed'),
        })
      : null;
  const bus = hub ?? new LocalBus();
  undo.add(() => bus.close());
  const shared = createSharedState(config);
  const service = await openService({ config, telemetry, bus, shared, primary: true });
  undo.add(() => service.close());
  let isLost = false;
  const lost = new Promise<Error>((resolve) => {
    service.onStorageFailure((why) => {
      isLost = true;
      resolve(why);
    });
  });
  const { accounts, background, http, pool } = service;
  const loading = logLoading(pool, log, {
    onLoading: options.onLoading,
    maxContext: config.engine.max_context,
  });
  const closing = new AbortController();
  undo.add(() => closing.abort());
  const threads =
    hub === null
      ? null
      : await HttpWorkers.start({
          config,
          shared,
          bus: hub,
          http,
          log,
          onLost: (index) =>
            handleThreadLoss(index, {
              service,
              bus: hub,
              config,
              shared,
              telemetry,
              closing: closing.signal,
              others: () => threads?.size ?? 0,
            }),
        });
  undo.add(() => threads?.close());
  const port = await http.listen(config.host, config.port);
  const url = `http://${urlHost(config.host)}:${port}`;
  const commandLine: Actor = { type: 'command_line', id: null, email: null, ip: null };
  const status = await openLocalStatus(config.data_dir, {
    pool,
    url,
    log,
    promptCache: service.promptCache,
    note: (action, target) => service.directory.audit.note(null, commandLine, action, target),
  });
  undo.add(() => status.close());
  if (!isLoopback(config.host))
    log.warn(
      { host: config.host },
      'listening beyond this machine without TLS: API keys are required, but traffic is not encrypted; use a TLS proxy',
    );

  const adminPort =
    service.admin === null ? null : await service.admin.listen(config.admin.host, config.admin.port, '--admin-port');
  const adminUrl = adminPort === null ? null : `http://${urlHost(config.admin.host)}:${adminPort}`;
  if (adminUrl !== null) log.info({ url: `${adminUrl}/admin/api` }, 'operator API');

  await loading;
  const failed = service.failedModels();
  const names = pool
    .list()
    .map(({ model }) => model.id)
    .filter((name) => !failed.some((one) => one.name === name));
  if (names.length === 0) throw new StartError([...new Set(failed.map(({ reason }) => reason))].join('; '));
  const wrongAdapter = failed.find(({ isAdapter }) => isAdapter);
  if (wrongAdapter !== undefined) throw new StartError(wrongAdapter.reason);
  await threads?.loaded();
  // An invalid model file does not prevent other models from being served, but /readyz reports that the server is not
  // ready.
  for (const { name, reason } of failed) log.error({ model: name, reason }, 'model cannot be served');

  writeServerRecord(config.data_dir, { pid: process.pid, url });
  undo.add(() => removeServerRecord(config.data_dir));
  // This must be the last step: a key is shown only once, so a failed start must not create one.
  const { created } = await accounts.bootstrap(config.api_key);
  const { directory, origin } = service;
  const base = origin.fixed ?? url;
  const dashboardUrl = config.dashboard.enabled ? `${base}/dashboard` : null;
  const code = config.dashboard.enabled && !origin.isLocal ? await directory.signUps.firstCode() : null;

  const close = (): Promise<void> => undo.run();
  let drainDone: Promise<void> | null = null;
  const drain = (): Promise<void> => {
    drainDone ??= (async () => {
      service.unready();
      threads?.unready();
      if (config.http.unready_ms > 0) {
        log.info({ unready_ms: config.http.unready_ms }, 'readiness turned off, still serving for `unready_ms`');
        await sleep(config.http.unready_ms);
      }
      service.drain();
      log.info({ in_flight: http.inFlight, background: background.size, drain_ms: config.engine.drain_ms }, 'draining');
      const early = setTimeout(() => {
        log.info(
          { in_flight: http.inFlight, background: background.size },
          'drain time is over, ending running requests',
        );
        pool.drain();
      }, config.engine.drain_ms);
      // An engine that no longer runs steps cannot finish its requests. It must not keep the process alive.
      await Promise.race([
        Promise.all([service.idle(), threads?.drain()]),
        sleep(config.engine.drain_ms + STUCK_MS, undefined, { ref: false }),
      ]);
      clearTimeout(early);
      await sleep(FLUSH_MS);
      if (!isLost) await close();
    })();
    return drainDone;
  };
  return {
    url,
    host: config.host,
    port,
    adminUrl,
    models: names,
    failed,
    createdKey: created,
    dashboardUrl,
    setupUrl: code === null ? null : setupUrl(base, code),
    accounts,
    directory,
    telemetry,
    pool,
    http,
    threads,
    lost,
    drain,
    close,
  };
}

/** Releases everything held by a lost HTTP worker. `others`: number of threads that are still running. */
function handleThreadLoss(
  index: number,
  {
    service: { failUnfinished, admission },
    bus,
    config,
    shared,
    telemetry: { log },
    closing,
    others,
  }: {
    service: Service;
    bus: HubBus;
    config: Config;
    shared: SharedState;
    telemetry: Telemetry;
    closing: AbortSignal;
    others: () => number;
  },
): void {
  new SharedCounts(shared.upstreams, upstreamShape(config), 0).releaseAll(index);
  abortThread({
    index,
    admission,
    ledger: ledgerOf(shared.ledgers, index),
    held: new HeldResponses(shared.held),
    bus,
    failUnfinished,
    log,
    closing,
    others,
  });
}

function urlHost(host: string): string {
  if (host === '0.0.0.0') return '127.0.0.1';
  if (host === '::') return '[::1]';
  return host.includes(':') ? `[${host}]` : host;
}
