// One HTTP thread, wired as in src/server/app.ts but without sockets, models and accounts: the real stores, admission,
// routes, runs, background responses and usage recording, on a simulated disk and clock. Also contains the ports
// through which threads exchange messages.
import type { MessagePort } from 'node:worker_threads';
import type { Admission } from '../../../src/admission/admission.js';
import { openAdmission } from '../../../src/admission/open-admission.js';
import type { Config } from '../../../src/config/settings.js';
import { ImageBudget } from '../../../src/generation/images/held-images.js';
import { ServedModels } from '../../../src/generation/served-models.js';
import type { Route } from '../../../src/http/exchange.js';
import { chatCompletionsRoute } from '../../../src/protocol/chat-completions/routes.js';
import { PROMPT_MEMORY_BYTES, PromptMemory } from '../../../src/protocol/prompt-cache/prompt-memory.js';
import type { GenerationDeps } from '../../../src/protocol/admit.js';
import { BackgroundResponses } from '../../../src/protocol/responses/background.js';
import { responsesRoutes } from '../../../src/protocol/responses/routes.js';
import { RunningResponses } from '../../../src/protocol/responses/stored-running.js';
import { RunningGenerations } from '../../../src/protocol/running-generations.js';
import { KeyRing } from '../../../src/accounts/sealing/key-ring.js';
import { KeySealer } from '../../../src/accounts/sealing/key-sealer.js';
import { reportStorageFailure } from '../../../src/server/lmdb-failure.js';
import { folderResponses } from '../../../src/server/lmdb-responses.js';
import { endUnfinished, type IsRunning } from '../../../src/server/lost-thread.js';
import { DisposableStack } from '../../../src/server/disposable-stack.js';
import type { ThreadBus } from '../../../src/shared/bus.js';
import type { UsageSink } from '../../../src/shared/usage-sink.js';
import { OPEN_GATE } from '../../../src/storage/erase-gate.js';
import { LmdbCompletionStore } from '../../../src/storage/lmdb/completions/completion-store.js';
import { LmdbConversationStore } from '../../../src/storage/lmdb/conversations/conversation-store.js';
import type { ResponseStore } from '../../../src/storage/response-store.js';
import type { Telemetry } from '../../../src/telemetry/types.js';
import { LmdbUsageStore } from '../../../src/storage/lmdb/usage/usage-store.js';
import { UsageRecorder } from '../../../src/usage/usage-recorder.js';
import type { SimDisk } from './sim-disk.js';
import { SimStore } from './sim-disk.js';
import { fairSlots, servedModel, SimProvider, type Engines } from './sim-provider.js';
import type { SimExchange } from './sim-exchange.js';
import type { Owner, SimTime } from './sim-time.js';

export const MODELS = ['alpha', 'beta'] as const;

/** Shared by all threads in a process. */
export interface Common {
  config: Config;
  disk: SimDisk;
  telemetry: Telemetry;
  counters: SharedArrayBuffer;
  held: SharedArrayBuffer;
  engines: Engines;
  /** Wrappers that observe the calls to the real objects. */
  watchAdmission(admission: Admission): Admission;
  watchUsage(usage: UsageSink): UsageSink;
  storedMonth(organizationId: string, month: string, tokens: number): void;
  isSuspended(organizationId: string): boolean;
}

const SEALER = new KeySealer(new KeyRing([Buffer.alloc(32, 1)]), [...MODELS]);

interface SimThreadParts {
  /** Called when an organization is suspended or resumed. */
  readonly listeners: ReadonlySet<(organizationId: string | null) => void>;
  readonly owner: Owner;
  readonly index: number;
  readonly admission: Admission;
  readonly responses: ResponseStore;
  readonly background: BackgroundResponses;
  readonly generations: RunningGenerations;
  readonly usage: UsageRecorder;
  readonly failUnfinished: (isRunning?: IsRunning) => Promise<void>;
  readonly routes: readonly Route[];
  readonly store: SimStore;
  readonly undo: DisposableStack;
}

export class SimThread {
  readonly listeners: SimThreadParts['listeners'];
  readonly owner: SimThreadParts['owner'];
  readonly index: SimThreadParts['index'];
  readonly admission: SimThreadParts['admission'];
  readonly responses: SimThreadParts['responses'];
  readonly background: SimThreadParts['background'];
  readonly generations: SimThreadParts['generations'];
  readonly usage: SimThreadParts['usage'];
  readonly failUnfinished: SimThreadParts['failUnfinished'];
  private readonly routes: SimThreadParts['routes'];
  private readonly store: SimThreadParts['store'];
  private readonly undo: SimThreadParts['undo'];

  private constructor(parts: SimThreadParts) {
    this.listeners = parts.listeners;
    this.owner = parts.owner;
    this.index = parts.index;
    this.admission = parts.admission;
    this.responses = parts.responses;
    this.background = parts.background;
    this.generations = parts.generations;
    this.usage = parts.usage;
    this.failUnfinished = parts.failUnfinished;
    this.routes = parts.routes;
    this.store = parts.store;
    this.undo = parts.undo;
  }

  /** Counterpart of openService(). */
  static open(
    owner: Owner,
    bus: ThreadBus,
    primary: boolean,
    ledger: Int32Array | null,
    common: Common,
  ): Promise<SimThread> {
    const { config, disk, telemetry, engines } = common;
    const { log } = telemetry;
    return DisposableStack.opening(async (undo) => {
      const store = new SimStore(disk, owner);
      undo.add(reportStorageFailure(store, bus, log));
      const { responses } = folderResponses(store, common.held, {
        gate: OPEN_GATE,
        bus,
        settings: config.responses,
        primary,
        log,
        undo,
      });
      const usageStore = new LmdbUsageStore(store);
      const usage = new UsageRecorder(usageStore, log);
      undo.add(() => usage.close());
      const watched = common.watchUsage(usage);
      const background = new BackgroundResponses(responses, telemetry, bus);
      undo.add(() => background.close());
      const failUnfinished = (isRunning?: IsRunning): Promise<void> =>
        endUnfinished(
          responses,
          { finished: (spent) => watched.finished(spent), flush: () => usage.flush() },
          bus,
          isRunning,
        );
      if (primary) await failUnfinished();
      const admission = common.watchAdmission(
        await openAdmission(config, {
          process: 'simulated',
          thread: bus.index,
          report: () => undefined,
          called: () => undefined,
          storedMonth: async (organizationId, month) => {
            const tokens = (await usageStore.monthTokens([organizationId], month))[0] ?? 0;
            common.storedMonth(organizationId, month, tokens);
            return tokens;
          },
          buffer: common.counters,
          ...(ledger === null ? {} : { ledger }),
        }),
      );
      undo.add(() => admission.close());
      const listeners = new Set<(organizationId: string | null) => void>();
      const generations = new RunningGenerations(
        {
          runEnds: async (id) => () => (common.isSuspended(id) ? 'organization_suspended' : null),
          onChanged: (listener) => {
            listeners.add(listener);
            return () => listeners.delete(listener);
          },
        },
        (err) => log.error({ err }, 'checking whether an organization is suspended failed'),
      );
      undo.add(() => generations.close());
      const slots = fairSlots();
      const models = new Map(
        MODELS.map((name) => [name as string, servedModel(name, new SimProvider(name, engines, owner, slots))]),
      );
      const none = new ServedModels({ get: () => undefined, list: () => [] } as never, {} as never);
      const images = new ImageBudget(1, 1);
      const generation: GenerationDeps = {
        models: { find: (name) => models.get(name) ?? none.find(name) },
        images: { hold: (organization) => images.open(organization, false), load: async (messages) => messages },
        admission,
        telemetry,
        usage: watched,
        requests: { textCharacters: 0, add: () => undefined },
        limits: { maxN: 8, maxTools: 128 },
        generations,
        prompts: new PromptMemory(new SharedArrayBuffer(PROMPT_MEMORY_BYTES)),
      };
      const routes = [
        chatCompletionsRoute({
          ...generation,
          reasoningField: 'both',
          completions: new LmdbCompletionStore(store, config.responses),
        }),
        ...responsesRoutes({
          ...generation,
          sealer: SEALER,
          responses,
          conversations: new LmdbConversationStore(store, config.responses),
          settings: config.responses,
          background,
          running: new RunningResponses(bus, background),
        }),
      ];
      return new SimThread({
        listeners,
        owner,
        index: bus.index,
        admission,
        responses,
        background,
        generations,
        usage,
        failUnfinished,
        routes,
        store,
        undo,
      });
    });
  }

  /** Like Service: calls the listener immediately if storage failed while the thread was being opened. */
  onStorageFailure(listener: () => void): void {
    this.store.onFailure(listener);
  }

  /** Does what the HTTP server does: runs a route and turns its failure into a response. */
  async serve(exchange: SimExchange, path: string): Promise<void> {
    const route = this.routes.find((one) => one.method === exchange.method && one.path === path);
    if (route === undefined) throw new Error(`no route ${exchange.method} ${path}`);
    try {
      if (route.generates !== true) this.admission.read(exchange.identity);
      await route.handler(exchange);
    } catch (error) {
      exchange.fail(error);
    }
  }

  close(): Promise<void> {
    return this.undo.run();
  }
}

/** Returns the two ends of a channel between simulated threads. Messages arrive after a delay and in order. */
export function channel(time: SimTime, one: Owner, other: Owner, delayUs: () => number): [MessagePort, MessagePort] {
  const ends = [new SimPort(time, one, delayUs), new SimPort(time, other, delayUs)] as const;
  ends[0].peer = ends[1];
  ends[1].peer = ends[0];
  return [ends[0] as unknown as MessagePort, ends[1] as unknown as MessagePort];
}

class SimPort {
  peer: SimPort | null = null;
  #listeners: ((message: unknown) => void)[] = [];
  #kept: unknown[] = []; // messages kept until there is a listener
  #lastAt = 0;
  #closed = false;

  constructor(
    private readonly time: SimTime,
    private readonly owner: Owner,
    private readonly delayUs: () => number,
  ) {}

  on(_event: 'message', listener: (message: unknown) => void): this {
    this.#listeners.push(listener);
    for (const message of this.#kept.splice(0)) listener(message);
    return this;
  }

  postMessage(message: unknown): void {
    const { peer } = this;
    if (peer === null || this.#closed) return;
    const copy: unknown = structuredClone(message);
    peer.#lastAt = Math.max(peer.#lastAt, this.time.now + this.delayUs());
    this.time.at(peer.#lastAt, peer.owner, () => {
      if (peer.#closed) return;
      if (peer.#listeners.length === 0) peer.#kept.push(copy);
      else for (const listener of peer.#listeners) listener(copy);
    });
  }

  unref(): void {}
  close(): void {
    this.#closed = true;
  }
}
