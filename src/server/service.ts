// Everything that one request-handling thread consists of: storage, accounts, limits, models, and the routes of one
// HTTP app. With several HTTP workers, each opens its own service. Workers share state through the engine (attached to
// by file), LMDB, `shared` and the bus. Things that exist once per server are in server.ts.

import type { Config } from '../config/settings.js';
import { Accounts } from '../accounts/accounts.js';
import { AccountChanges } from '../accounts/changes.js';
import { SecondFactorCodes } from '../accounts/second-factor-codes.js';
import { MfaChallenges } from '../accounts/mfa-challenges.js';
import { finishDeletions } from '../accounts/delete-organization.js';
import type { OrganizationDataOwner } from '../accounts/delete-organization.js';
import type { SweptDirectory } from '../accounts/directory.js';
import type { OrganizationView } from '../accounts/organizations.js';
import { ServerReaders } from '../accounts/server-readers.js';
import { UnknownKeys } from '../accounts/unknown-keys.js';
import type { Admission } from '../admission/admission.js';
import { ledgerOf } from '../admission/counter-memory.js';
import { openAdmission } from '../admission/open-admission.js';
import { dashboardRoutes } from '../dashboard/api/routes.js';
import type { DashboardRouteDeps } from '../dashboard/api/routes.js';
import { SessionGuard } from '../dashboard/api/session-guard.js';
import { AccountMailer } from '../dashboard/api/account-mailer.js';
import { DashboardOrigin } from '../dashboard/origin.js';
import { pageRoutes } from '../dashboard/pages/routes.js';
import { checkedAliases, checkedDrafts } from '../engine/catalog.js';
import { EngineNotes } from '../engine/engine-notes.js';
import { monthName, monthNumber } from '../admission/month-use.js';
import { ModelPool } from '../engine/model-pool.js';
import { FileFacts } from '../engine/file-facts.js';
import { Hub } from '../hub/hub.js';
import { Pulls } from '../dashboard/admin/pulls.js';
import { Tunings } from '../dashboard/admin/tunings.js';
import { ModelLifecycle } from '../engine/model-lifecycle.js';
import { StartError } from '../shared/errors.js';
import { createImageLoader } from '../generation/images/load-images.js';
import { ServedModels } from '../generation/served-models.js';
import { SharedCounts } from '../generation/upstream/shared-counts.js';
import { Upstreams } from '../generation/upstream/upstreams.js';
import { HttpServer } from '../http/app.js';
import type { Route } from '../http/exchange.js';
import { healthRoutes } from '../http/health-routes.js';
import { modelsRoutes } from '../protocol/models/routes.js';
import { stateRoutes } from '../protocol/models/state-routes.js';
import { openApiRoute } from '../protocol/openapi/routes.js';
import { chatCompletionsRoute } from '../protocol/chat-completions/routes.js';
import { completionsRoute } from '../protocol/completions/routes.js';
import { tokenRoutes } from '../protocol/tokens/routes.js';
import { DynamicModels } from '../dashboard/admin/dynamic-models.js';
import { ModelSettings } from '../dashboard/admin/model-settings.js';
import { sessionOperators, tokenOperators } from '../dashboard/admin/operator-guard.js';
import type { OperatorRouteDeps } from '../dashboard/admin/routes.js';
import { operatorRoutes } from '../dashboard/admin/routes.js';
import type { GenerationDeps } from '../protocol/admit.js';
import { Affinity } from '../protocol/affinity.js';
import { RunningGenerations } from '../protocol/running-generations.js';
import { messagesRoutes } from '../protocol/messages/routes.js';
import { BackgroundResponses } from '../protocol/responses/background.js';
import { responsesRoutes } from '../protocol/responses/routes.js';
import { responsesSocket } from '../protocol/responses/socket.js';
import { RunningResponses } from '../protocol/responses/stored-running.js';
import { OidcProvider } from '../accounts/oidc/provider.js';
import { openMailer } from '../accounts/mail/mailer.js';
import { openKeyRing, openSealer } from '../accounts/sealing/open-sealer.js';
import { SecretBox } from '../accounts/sealing/secret-box.js';
import { EngineTuning } from '../dashboard/admin/engine-tuning.js';
import { LiveRecorder } from '../dashboard/admin/live-recorder.js';
import { LiveView } from '../dashboard/admin/live-view.js';
import { readServerRecord } from '../storage/data-dir-lock.js';
import { LmdbClockRecords } from '../storage/lmdb/clock-record.js';
import { openStore } from '../storage/lmdb/lmdb-store.js';
import { PostgresClockRecords } from '../storage/postgres/clock-record.js';
import { openSharedDatabase } from '../storage/postgres/shared-database.js';
import type { ResponseStore } from '../storage/response-store.js';
import type { Telemetry } from '../telemetry/types.js';
import type { ThreadBus } from '../shared/bus.js';
import { rejectionOf } from '../usage/rejections.js';
import { BudgetWatch } from '../usage/budget-watch.js';
import { UsageRecorder } from '../usage/usage-recorder.js';
import { UsageSweep } from '../usage/usage-sweep.js';
import { RequestRecorder } from '../usage/requests/request-recorder.js';
import { RequestSweep } from '../usage/requests/request-sweep.js';
import { unadmittedEntry } from '../usage/requests/unadmitted.js';
import { ErasureHold } from '../shared/erasure-hold.js';
import { ThreadStates } from '../shared/thread-states.js';
import type { LimitValues } from '../shared/wire/dashboard.js';
import { openClockGuard } from './clock-guard.js';
import { logCountersEvent } from './counters-log.js';
import { logUpstreamEvent } from './upstream-log.js';
import { logModelEvent } from './model-log.js';
import { configuredModels, generationLimits, loadOptions, upstreamOptions, upstreamShape } from './engine-settings.js';
import { engineGauges, failedModels, modelStates, tokenizerInfo, notedEngines, poolHealth } from './engine-status.js';
import type { FailedModel } from './engine-status.js';
import { folderStores, ownStores } from './lmdb-stores.js';
import { databaseStores } from './postgres-stores.js';
import { folderResponses } from './lmdb-responses.js';
import { databaseResponses } from './response-stores.js';
import { reportStorageFailure } from './lmdb-failure.js';
import { endUnfinished } from './lost-thread.js';
import { DisposableStack } from './disposable-stack.js';

/** Memory shared by all threads. */
export interface SharedState {
  /** Identifies this process among those that share the limits. */
  process: string;
  /** Counters of the limits: src/admission. */
  counters: SharedArrayBuffer;
  /** Per HTTP worker, the requests it has admitted and not finished: ledgerOf() in src/admission. */
  ledgers: SharedArrayBuffer;
  /** Unknown API keys by address: src/accounts/unknown-keys.ts. */
  unknownKeys: SharedArrayBuffer;
  /** Counters of the upstream servers: src/generation/upstream/shared-counts.ts. */
  upstreams: SharedArrayBuffer;
  /** Stored responses that must not be erased: src/storage/held-responses.ts. */
  held: SharedArrayBuffer;
  /** Whether erasing is suspended: src/shared/erasure-hold.ts. */
  erasure: SharedArrayBuffer;
  /** States of the HTTP workers: src/shared/thread-states.ts. Empty if there is only one thread. */
  threads: SharedArrayBuffer;
}

export interface ServiceOptions {
  config: Config;
  telemetry: Telemetry;
  bus: ThreadBus;
  shared: SharedState;
  /**
   * The primary thread does what is done once per server: sweeps, ending unfinished responses, keys set by the
   * operator.
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
  readonly models: ServedModels;
  readonly background: BackgroundResponses;
  readonly http: HttpServer;
  /** The operator API on its own listener. Null without its token, and on all threads except the primary one. */
  readonly admin: HttpServer | null;
  /**
   * Ends background responses that no thread generates any more (see ResponseStore): counts their tokens and notifies
   * clients that follow them.
   */
  failUnfinished(isRunning?: (organizationId: string, id: string) => boolean | Promise<boolean>): Promise<void>;
  /** Calls `listener` once if the data folder's database no longer accepts writes. Only a restart recovers it. */
  onStorageFailure(listener: (why: Error) => void): void;
  /**
   * Makes /readyz report that the server is about to end, so that load balancers stop sending requests. Requests are
   * still served.
   */
  unready(): void;
  /** Refuses new requests; running requests continue. */
  drain(): void;
  /** Resolves when no request is running. */
  idle(): Promise<void>;
  /**
   * Models that cannot be served; call it after loading has finished. Throws StartError if the chat templates cannot be
   * checked.
   */
  failedModels(): readonly FailedModel[];
  close(): Promise<void>;
}

/**
 * Opens everything except the listening socket. Models continue to load after it resolves. If it rejects, nothing is
 * left open.
 */
export function openService(options: ServiceOptions): Promise<Service> {
  return DisposableStack.opening((undo) => open(options, undo));
}

// Closing runs in reverse order of opening, so writers are closed before the stores they write to, and connections
// first of all.
async function open(
  { config, telemetry, bus: threads, shared, primary }: ServiceOptions,
  undo: DisposableStack,
): Promise<Service> {
  const { log } = telemetry;
  const catalog = configuredModels(config);
  const drafts = checkedDrafts(catalog);

  const store = await openStore(config.data_dir);
  undo.add(() => store.close());
  undo.add(reportStorageFailure(store, threads, log));
  const database =
    config.database.url === null
      ? null
      : await openSharedDatabase({ ...config.database, url: config.database.url }, primary, log);
  undo.add(() => database?.close());
  const hold = new ErasureHold(shared.erasure);
  const gate = await openClockGuard({
    records:
      database === null ? new LmdbClockRecords(store) : new PostgresClockRecords(database.database, database.clock),
    hold,
    primary,
    log,
    undo,
  });
  const opening = { gate, bus: threads, settings: config.responses, primary, log, undo };
  const { responses, bus, watch, skew } =
    database === null ? folderResponses(store, shared.held, opening) : await databaseResponses(database, opening);
  const changes = new AccountChanges(bus);
  undo.add(() => changes.close());
  const stores =
    database === null
      ? folderStores(store, changes, undo)
      : await databaseStores(database, config.database, changes, log, undo);
  const { directory, prices, budgets, saved, usage: usageStore, requests: requestLog, sealer: sealerState } = stores;
  const { holds, tuneRuns, history } = ownStores(store, gate);
  const usage = new UsageRecorder(usageStore, log);
  undo.add(() => usage.close());
  const usageSweep = primary
    ? new UsageSweep(
        usageStore,
        config.usage,
        (err) => log.error({ err }, 'sweeping usage failed'),
        gate,
        directory.now,
      )
    : null;
  undo.add(() => usageSweep?.close());
  const requests = new RequestRecorder(requestLog, config.requests, log);
  undo.add(() => requests.close());
  const requestSweep = primary
    ? new RequestSweep(
        requestLog,
        config.requests,
        (err) => log.error({ err }, 'sweeping the request log failed'),
        gate,
        directory.now,
      )
    : null;
  undo.add(() => requestSweep?.close());
  const background = new BackgroundResponses(responses, telemetry, bus);
  undo.add(() => background.close());
  const origin = new DashboardOrigin(config);
  if (config.mail.smtp_url !== null && origin.fixed === null) {
    throw new StartError(
      'mail.smtp_url requires dashboard.url: links in e-mails must not depend on the address of a request.',
    );
  }
  const mailer = openMailer(config.mail, log);
  undo.add(() => mailer.close());
  const accounts = new Accounts(
    directory,
    changes,
    stores.keyCachePolicy,
    new UnknownKeys(shared.unknownKeys, shared.process),
  );
  undo.add(() => accounts.close());

  const pool = new ModelPool(loadOptions(config), undefined, async (pooled, engine) => {
    engine.onDelivered = (delayMs) => telemetry.delivered(delayMs);
    if (primary) await tuning.apply(pooled, engine);
  });
  const tuning = new EngineTuning(stores.engineSettings, holds, pool, config, log);
  undo.add(() => tuning.close());
  if (primary) {
    await tuning.forgetGiven();
    await tuning.watchHolds();
  }
  undo.add(() => pool.close());
  const modelSettings = await ModelSettings.open(stores.modelSettings, bus, (err) =>
    log.error({ err }, 'cannot read model settings'),
  );
  undo.add(() => modelSettings.close());
  for (const model of catalog)
    pool.add(model, modelSettings.row(model.id).unloaded !== true, drafts.get(model.id) ?? null);
  modelSettings.onChanged(() => {
    for (const {
      model: { id },
    } of pool.list())
      pool.setLoaded(id, modelSettings.row(id).unloaded !== true, config.engine.drain_ms);
  });
  const aliases = checkedAliases(catalog, config.models.aliases);
  const lifecycle = new ModelLifecycle({
    pool,
    report: (news) => {
      logModelEvent(news, log);
      if (news.type === 'loading' || news.type === 'unloaded')
        bus.publish('model.lifecycle', { model: news.model, unloaded: news.type === 'unloaded' });
    },
  });
  undo.add(() => lifecycle.close());
  undo.add(bus.on('model.lifecycle', (message) => lifecycle.follow(message)));
  const upstreams = new Upstreams(catalog, {
    ...upstreamOptions(config),
    counts: new SharedCounts(shared.upstreams, upstreamShape(config), bus.index),
    meter: (labels) => telemetry.upstream(labels),
    report: (news) => logUpstreamEvent(news, log),
    other: async (name, signal) => {
      const other = models.find(name);
      await other.ensureLoaded({ signal });
      return other.ready();
    },
  });
  undo.add(() => upstreams.close());
  if (primary) upstreams.look();
  const models: ServedModels = new ServedModels(
    pool,
    generationLimits(config),
    {
      aliases,
      declared: (model) => modelSettings.declared(model),
    },
    lifecycle,
    upstreams,
  );

  const failUnfinished: Service['failUnfinished'] = (isRunning) => endUnfinished(responses, usage, bus, isRunning);
  if (primary) {
    await failUnfinished();
    watch(() => failUnfinished((_, id) => background.find(id) !== null));
  }
  const admission = await openAdmission(config, {
    process: shared.process,
    thread: bus.index,
    report: (news) => logCountersEvent(news, log),
    called: (call, outcome, seconds) => telemetry.countersCalled(call, outcome, seconds),
    storedMonth: async (organizationId, month) => (await usageStore.monthTokens([organizationId], month))[0] ?? 0,
    buffer: shared.counters,
    ...(bus.index > 0 ? { ledger: ledgerOf(shared.ledgers, bus.index) } : {}),
  });
  undo.add(() => admission.close());
  telemetry.observeCounters(() => admission.health());
  telemetry.observeEngines(() => engineGauges(pool));
  const notes = primary ? new EngineNotes(() => notedEngines(pool), log) : null;
  undo.add(() => notes?.close());
  telemetry.shareWith(bus);
  // Requests are accepted while models load (503 model_loading). A key set in the settings must work from the first
  // request on.
  if (primary && config.api_key !== null) await accounts.bootstrap(config.api_key);
  const named = new Set([...catalog.map(({ id }) => id), ...aliases.keys()]);
  const sealer = await openSealer(sealerState, config.secrets.signing_keys, [...named]);
  const hub = new Hub(config);
  const served = await DynamicModels.open({
    store: stores.served,
    pool,
    hub,
    bus,
    log,
    taken: named,
    graceMs: config.engine.max_generation_ms,
    isUnloaded: (name) => modelSettings.row(name).unloaded === true,
    onServed: (name) => {
      sealer.know(name);
      if (primary)
        sealerState
          .knownModels([name])
          .catch((err: unknown) => log.error({ err, model: name }, 'cannot store the model name'));
    },
  });
  undo.add(() => served.close());
  const keys = await openKeyRing(sealerState, config.secrets.signing_keys);
  const box = new SecretBox(keys);
  const codes = new SecondFactorCodes(directory.secondFactors, directory.attempts, box, directory.now);
  if (primary)
    await codes.reseal((user) =>
      log.error({ user }, 'cannot decrypt a second factor: its encryption key is not in secrets.signing_keys'),
    );
  const generations = new RunningGenerations(accounts, (err) =>
    log.error({ err }, 'cannot look up organizations and keys of running generations'),
  );
  undo.add(() => generations.close());
  const generation: GenerationDeps = {
    models,
    admission,
    telemetry,
    usage,
    requests,
    images: createImageLoader(config.images),
    limits: { maxN: config.limits.max_n },
    generations,
    affinity: config.redis.url === null ? undefined : new Affinity(keys.current.affinity),
  };
  const responsesDeps = {
    ...generation,
    sealer,
    responses,
    settings: config.responses,
    background,
    running: new RunningResponses(bus, background),
  };

  const chat = chatCompletionsRoute(generation);
  const budgetWatch = primary
    ? new BudgetWatch({
        budgets,
        prices,
        usage: usageStore,
        organizations: directory.organizations,
        members: directory.members,
        mailer,
        base: origin.fixed,
        webhooks: config.webhooks,
        log,
      })
    : null;
  undo.add(() => budgetWatch?.close());
  const stored: OrganizationDataOwner = {
    eraseOrganization: (id) =>
      Promise.all([
        responses.eraseOrganization(id),
        saved.eraseOrganization(id),
        requestLog.eraseOrganization(id),
        budgets.set(id, null, null),
      ]),
  };

  if (primary)
    directory.keepSwept(
      async () => {
        await finishDeletions(directory.organizations, stored, config.usage.row_days, directory.now());
        await saved.sweep(async (id) => (await directory.users.get(id)) !== null);
      },
      (err) => log.error({ err }, 'sweeping accounts failed'),
      gate,
    );
  const liveRecorder = primary
    ? new LiveRecorder(history, (err) => log.error({ err }, 'cannot write the live view history'))
    : null;
  undo.add(() => liveRecorder?.close());
  const live = new LiveView({
    pool,
    telemetry,
    bus,
    primary,
    ...(liveRecorder === null ? {} : { history: liveRecorder }),
  });
  undo.add(() => live.close());
  const states = new ThreadStates(shared.threads);
  let draining = false;
  let failed: readonly FailedModel[] = [];
  const organizationLimits = ({ id, settings: { limits } }: OrganizationView): Record<string, LimitValues> =>
    Object.fromEntries(
      pool.list().map(({ model }) => [model.id, admission.limitsOf({ organizationId: id, limits }, model.id)]),
    );
  const monthTokens = (organizationIds: readonly string[]): Promise<number[]> =>
    usageStore.monthTokens(organizationIds, monthName(monthNumber(Date.now())));
  const guard = new SessionGuard(directory, origin, config.accounts.operator_second_factor === 'required');
  const accountMailer = new AccountMailer(directory.signIns, mailer, origin.fixed, (err) =>
    log.error({ err }, 'cannot compose an e-mail'),
  );
  const { signIns, signUps, users, organizations, members, invites, identities } = directory;
  const { ownAccount, secondFactors, apiKeys, attempts, audit, now } = directory;
  const dashboard: DashboardRouteDeps = {
    config,
    guard,
    origin,
    usage: usageStore,
    prices,
    budgets,
    saved,
    requestLog,
    stored,
    signIns,
    signUps,
    users,
    organizations,
    members,
    invites,
    identities,
    ownAccount,
    secondFactors,
    apiKeys,
    attempts,
    audit,
    now,
    admission,
    responses,
    background,
    pool,
    models,
    log,
    chat,
    mailer: accountMailer,
    codes,
    box,
    oidc: OidcProvider.of(config),
    tickets: new MfaChallenges(box, directory.users, directory.now),
    organizationLimits,
    monthTokens,
    draining: () => http.draining,
  };
  const pulls = new Pulls(hub, bus, log);
  undo.add(() => pulls.close());
  if (primary) await tuneRuns.endUnfinished('The server ended.', new Date());
  const tunings = new Tunings({
    runs: tuneRuns,
    tuning,
    accounts,
    requestLog,
    bus,
    log,
    url: () => readServerRecord(config.data_dir)?.url ?? null,
    concurrencyLimit: async (model) => {
      const [first] = await directory.organizations.all();
      const view = first === undefined ? null : await directory.organizations.get(first.id);
      return view === null
        ? null
        : admission.limitsOf({ organizationId: view.id, limits: view.settings.limits }, model).concurrency;
    },
  });
  undo.add(() => tunings.close());
  const operator: OperatorRouteDeps = {
    tuneRuns,
    tunings,
    hub,
    hubEndpoint: config.hub.endpoint,
    pulls,
    fileFacts: new FileFacts(loadOptions(config)),
    note: (actor, action, target) => audit.note(null, actor, action, target),
    config,
    origin,
    usage: usageStore,
    prices,
    requestLog,
    signIns,
    users,
    organizations,
    secondFactors,
    apiKeys,
    audit,
    now,
    pool,
    models,
    modelSettings,
    served,
    lifecycle,
    tuning,
    live,
    history,
    organizationLimits,
    monthTokens,
  };
  const admin =
    primary && config.admin.token !== null
      ? new HttpServer({
          config: { ...config, host: config.admin.host },
          telemetry,
          authenticate: (key, from) => accounts.authenticate(key, from),
          routes: operatorRoutes(tokenOperators(config.admin.token, directory.attempts, directory.now), operator),
        })
      : null;
  undo.add(() => admin?.close());
  const readers = new ServerReaders(config.metrics.token, accounts, directory.users);
  const routes: Route[] = [
    ...healthRoutes({
      health: () => ({
        ...poolHealth(pool, upstreams, failed, draining),
        threads: states.list(),
        counters: admission.health(),
        skew: skew(),
        erasure: hold.held,
        storage: store.failure?.message ?? null,
      }),
      telemetry,
      stallMs: config.engine.stall_ms,
      metricsPublic: config.metrics.public,
      readers,
    }),
    ...stateRoutes({ states: () => modelStates(pool, models), check: (exchange) => readers.check(exchange) }),
    ...modelsRoutes({ list: () => models.describe(), find: (asked) => models.describeOne(asked) }),
    openApiRoute({ maxN: config.limits.max_n }),
    chat,
    completionsRoute(generation),
    ...tokenRoutes({
      ...generation,
      names: () => pool.list().map(({ model }) => model.id),
      info: (name) => tokenizerInfo(pool, name),
    }),
    ...messagesRoutes({ ...generation, sealer, foreignThinking: config.messages.foreign_thinking }),
    ...responsesRoutes(responsesDeps),
    ...(config.dashboard.enabled ? pageRoutes() : []),
    ...(config.dashboard.enabled
      ? [...dashboardRoutes(dashboard), ...operatorRoutes(sessionOperators(guard), operator)]
      : []),
  ];
  const generating = new Map(
    routes.filter((route) => route.generates === true).map(({ path, countedAs }) => [path, countedAs ?? path]),
  );
  const http = new HttpServer({
    config,
    telemetry,
    authenticate: (key, from) => accounts.authenticate(key, from),
    reads: (identity) => admission.read(identity),
    connect: (organizationId, limit) => admission.connect(organizationId, limit),
    finished: (record) => {
      const rejection = rejectionOf(record, generating);
      if (rejection !== null) usage.rejected(rejection);
      const entry = unadmittedEntry(record, generating);
      if (entry !== null) requests.add(entry);
    },
    routes,
    sockets: [
      responsesSocket({ ...responsesDeps, maxAgeS: config.ws.max_age_s, maxMessageBytes: config.ws.max_message_bytes }),
    ],
  });
  live.begin(() => http.inFlight);
  undo.add(() => {
    live.close(); // viewers are notified before their connections close
    http.close();
  });

  return {
    accounts,
    directory,
    origin,
    admission,
    responses,
    pool,
    models,
    background,
    http,
    admin,
    failUnfinished,
    onStorageFailure: (listener) => store.onFailure(listener),
    unready: () => {
      draining = true;
    },
    drain: () => {
      draining = true;
      http.draining = true;
      live.drain();
      const last = setTimeout(() => upstreams.drain(), config.engine.drain_ms);
      last.unref();
      undo.add(() => clearTimeout(last));
      tunings.drain();
    },
    idle: async () => {
      await Promise.all([http.idle(), background.idle()]);
    },
    failedModels: () => {
      failed = failedModels(pool, models);
      return failed;
    },
    close: () => undo.run(),
  };
}
