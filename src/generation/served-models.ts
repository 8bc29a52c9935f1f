// The models that this server offers under their public names, each with its provider. The pool loads them and handles
// failures; this file maps a pool entry to a provider or to the appropriate error. Event-loop thread only.
import { apiError, type ErrorExtra } from '../shared/errors.js';
import type { CatalogModel } from '../engine/catalog.js';
import type { AdapterInfo } from '../engine/addon-types.js';
import type { Engine } from '../engine/engine.js';
import type { ModelPool, PooledModel } from '../engine/model-pool.js';
import type { ModelDescription } from './model-description.js';
import { lifecycleAt, type DeclaredDeprecation, type ModelDeprecation } from './model-deprecation.js';
import type { GenerationLimits } from './generation-limits.js';
import { LocalProvider } from './local/local-provider.js';
import type { Pooler, Provider, TemplateProblem } from './provider.js';
import type { ReplaySource } from './replay/replays.js';
import type { ReasoningEffort } from './types.js';
import type { Upstreams } from './upstream/upstreams.js';

export interface ServedModel {
  readonly name: string;
  /**
   * The name that determines usage records, limits and prices: for a LoRA adapter, the name of its model; otherwise
   * `name`.
   */
  readonly recordedAs: string;
  /** The model name in the client's request. It may be an alias, and responses repeat it. */
  readonly asked: string;
  readonly lifecycle: ModelDeprecation;
  /** The model's defaults for parameters that a request does not set. */
  readonly sampling: CatalogModel['sampling'];
  /**
   * Loads the model if it is unloaded, and waits for it. After that, ready() returns the provider, or throws if the
   * model cannot be used. Throws ApiError 503 if that takes too long or too many requests are waiting, or the reason of
   * the waiter's signal if it is aborted.
   */
  ensureLoaded(waiter?: { readonly signal?: AbortSignal | undefined }): Promise<void>;
  /** Throws ApiError 503 while the model is loading or after it has failed to load. */
  ready(): Provider;
}

export class ServedModels {
  // The providers are keyed by engine as well as by model, because a reloaded model gets a new provider. They are in
  // WeakMaps, so that models and adapters that operators remove do not stay in memory.
  readonly #providers = new WeakMap<Engine, WeakMap<CatalogModel, LocalProvider>>();
  // Each model's description from the last time it was ready. Returned while the model is unloaded.
  readonly #known = new WeakMap<CatalogModel, Known>();

  readonly #waiting = new Map<string, number>();

  /** Called once for each loaded model whose chat template has a problem. */
  onTemplateProblem: (model: string, problem: TemplateProblem) => void = () => undefined;
  /**
   * Finds the token IDs of earlier tool calls and reasoning blocks. Set before any model is used. If null, tool calls
   * and reasoning are always tokenized from their text.
   */
  replays: ReplaySource | null = null;

  constructor(
    private readonly pool: ModelPool,
    private readonly limits: GenerationLimits,
    private readonly names: ModelNames = PLAIN_NAMES,
    private readonly loaded: LoadedModels = ALL_STAY,
    private readonly upstreams: Pick<Upstreams, 'get'> = { get: () => undefined },
  ) {}

  /**
   * Throws ApiError 404 for an unknown or retired name. For an unknown name, the message lists the models that
   * `isShown` accepts.
   */
  find(asked: string, isShown: (name: string) => boolean = () => false): ServedModel {
    const pooled = this.#resolve(asked);
    if (pooled === undefined) throw unknown(asked, this.#current().filter(isShown));
    const name = pooled.model.id;
    const lifecycle = lifecycleAt(this.names.declared(pooled.model), Date.now());
    if (lifecycle.state === 'retired') throw retired(asked, lifecycle);
    return {
      name,
      recordedAs: pooled.model.adapter?.base ?? name,
      asked,
      lifecycle,
      sampling: pooled.model.sampling,
      ensureLoaded: (waiter) => this.#ensureLoaded(name, waiter),
      ready: () => {
        const now = this.pool.get(name);
        if (now === undefined) throw unknown(asked, []); // an operator has removed the name
        const upstream = now.status.state === 'elsewhere' ? this.upstreams.get(name) : undefined;
        if (upstream !== undefined) return upstream;
        return this.#provider(now.model, readyOf(now));
      },
    };
  }

  /**
   * Returns the shortest name that selects a model. For an adapter, this is NAME unless another model or adapter has
   * that name.
   */
  shortName(id: string): string {
    const own = this.pool.get(id)?.model.adapter?.name;
    return own !== undefined && this.#resolve(own)?.model.id === id ? own : id;
  }

  /** Compiles the chat templates of all loaded models. */
  compileTemplates(): void {
    for (const { model, status } of this.pool.list()) if (status.state === 'ready') this.#provider(model, status);
  }

  /**
   * The public descriptions of all models, highest tier first. For a model that has never been ready, the context
   * window is the catalog's, or 0.
   */
  describe(): ModelDescription[] {
    return this.pool.list().map((pooled) => this.#describe(pooled));
  }

  /** The public description of one model, under the requested name. Throws ApiError 404 like find(). */
  describeOne(asked: string, isShown?: (name: string) => boolean): { description: ModelDescription; name: string } {
    const { name } = this.find(asked, isShown);
    return { description: { ...this.#describe(this.pool.get(name) as PooledModel), id: asked }, name };
  }

  /**
   * Finds a model or an adapter by one of its names. A model's name or alias takes precedence over an adapter's NAME.
   * If MODEL:NAME can be split at several colons, the longest model name is used.
   */
  #resolve(asked: string): PooledModel | undefined {
    const direct = this.pool.get(this.names.aliases.get(asked) ?? asked);
    if (direct !== undefined) return direct;
    const own = this.#adapterNamed(asked);
    if (own !== undefined) return own;
    for (let at = asked.lastIndexOf(':'); at > 0; at = asked.lastIndexOf(':', at - 1)) {
      const base = this.names.aliases.get(asked.slice(0, at));
      if (base === undefined) continue;
      const adapter = this.pool.get(`${base}${asked.slice(at)}`);
      if (adapter !== undefined) return adapter;
    }
    return undefined;
  }

  /**
   * Finds an adapter by the NAME part of its name. If several models have an adapter with this name, returns the one
   * that was added first.
   */
  #adapterNamed(name: string): PooledModel | undefined {
    return this.pool.adapters().find(({ model }) => model.adapter?.name === name);
  }

  /** The names of all models that are not retired, highest tier first. */
  #current(): string[] {
    const now = Date.now();
    return this.pool
      .list()
      .filter(({ model }) => lifecycleAt(this.names.declared(model), now).state !== 'retired')
      .map(({ model }) => model.id);
  }

  #describe({ model, status }: PooledModel): ModelDescription {
    if (status.state === 'ready') this.#provider(model, status);
    const known = this.#upstream(model.id) ??
      this.#known.get(model) ?? {
        contextWindow: model.context_window ?? 0,
        maxOutputTokens: model.max_output_tokens ?? 0,
        efforts: NO_REASONING,
        sees: false,
        task: model.task ?? null,
        embeddingDimensions: null,
      };
    const { state, deprecatedAt, retiresAt, successor } = lifecycleAt(this.names.declared(model), Date.now());
    return {
      id: model.id,
      adapter: this.#adapterFacts(model),
      displayName: model.display_name,
      demonstration: model.demonstration === true,
      createdAt: new Date(model.created * 1000),
      contextWindow: known.contextWindow,
      maxOutputTokens: known.maxOutputTokens,
      efforts: known.efforts,
      defaultEffort: known.efforts.includes(model.default_effort) ? model.default_effort : 'none',
      sampling: model.sampling,
      task: known.task,
      embeddingDimensions: known.embeddingDimensions,
      inputModalities: known.sees ? ['text', 'image'] : model.input_modalities,
      lifecycle: state,
      deprecatedAt,
      retiresAt,
      successor,
    };
  }

  #adapterFacts({ id, adapter }: CatalogModel): ModelDescription['adapter'] {
    return adapter === undefined ? null : { parent: adapter.base, shortName: this.shortName(id) };
  }

  #upstream(name: string): Known | undefined {
    const upstream = this.upstreams.get(name);
    if (upstream === undefined) return undefined;
    const { contextWindow, maxOutputTokens, efforts, sees, pooler } = upstream;
    return { contextWindow, maxOutputTokens, efforts, sees, ...taskOf(pooler ?? null) };
  }

  async #ensureLoaded(name: string, waiter: { readonly signal?: AbortSignal | undefined } | undefined): Promise<void> {
    this.loaded.touch(name);
    const status = this.pool.get(name)?.status;
    if (
      status === undefined ||
      status.state === 'ready' ||
      status.state === 'elsewhere' ||
      status.state === 'failed' ||
      status.state === 'unloaded'
    )
      return;
    const signal = waiter?.signal;
    const waiting = this.#waiting.get(name) ?? 0;
    if (waiting >= (this.limits.loadWaitMax ?? LOAD_WAIT_MAX))
      throw apiError(
        'model_loading',
        `${name} is loading and already has ${waiting} waiting requests, the maximum.`,
        null,
        {
          retryAfterMs: LOAD_RETRY_MS,
        },
      );
    this.#waiting.set(name, waiting + 1);
    const timeUp = new AbortController();
    const timer = setTimeout(() => timeUp.abort(), this.limits.loadWaitMs ?? LOAD_WAIT_MS);
    try {
      await Promise.race([
        this.loaded.ensureLoaded(name),
        aborted(timeUp.signal),
        ...(signal === undefined ? [] : [aborted(signal)]),
      ]);
    } finally {
      clearTimeout(timer);
      const left = (this.#waiting.get(name) ?? 1) - 1;
      if (left > 0) this.#waiting.set(name, left);
      else this.#waiting.delete(name);
    }
    if (signal?.aborted === true) throw signal.reason;
  }

  #provider(model: CatalogModel, ready: Ready): LocalProvider {
    const { engine } = ready;
    const adapter = ready.adapter ?? null;
    let byModel = this.#providers.get(engine);
    if (byModel === undefined) this.#providers.set(engine, (byModel = new WeakMap()));
    let provider = byModel.get(model);
    // A reloaded adapter has a new ID in the engine, so its old provider cannot be used.
    if (provider === undefined || provider.adapter?.id !== adapter?.id)
      byModel.set(model, (provider = this.#make(model, engine, adapter)));
    return provider;
  }

  #make(model: CatalogModel, engine: Engine, adapter: AdapterInfo | null): LocalProvider {
    const provider = new LocalProvider(engine, model, this.limits, { replays: this.replays, adapter });
    const { contextWindow, maxOutputTokens, efforts, images, pooler, prompter } = provider;
    this.#known.set(model, {
      contextWindow: pooler?.maxTokens ?? contextWindow,
      maxOutputTokens: pooler === null ? maxOutputTokens : 0,
      efforts,
      sees: images !== null,
      ...taskOf(pooler),
    });
    if (prompter.templateProblem !== null && pooler === null && adapter === null)
      this.onTemplateProblem(model.id, prompter.templateProblem);
    return provider;
  }
}

/** Decides which models are in memory; see src/engine/model-lifecycle.ts. */
export interface LoadedModels {
  touch(name: string): void;
  ensureLoaded(name: string): Promise<void>;
}

const ALL_STAY: LoadedModels = { touch: () => undefined, ensureLoaded: () => Promise.resolve() };
const LOAD_WAIT_MS = 120_000;
const LOAD_WAIT_MAX = 512;

const aborted = (signal: AbortSignal): Promise<void> =>
  new Promise((resolve) => {
    if (signal.aborted) resolve();
    else signal.addEventListener('abort', () => resolve(), { once: true });
  });

const NO_REASONING: readonly ReasoningEffort[] = ['none'];

interface Known {
  contextWindow: number;
  maxOutputTokens: number;
  efforts: readonly ReasoningEffort[];
  sees: boolean;
  task: ModelDescription['task'];
  embeddingDimensions: ModelDescription['embeddingDimensions'];
}

type TaskFacts = Pick<Known, 'task' | 'embeddingDimensions'>;

/** Describes a model's output. `pooler`: null for a model that generates text. */
export function taskOf(pooler: Pooler | null): TaskFacts {
  if (pooler === null) return { task: 'generation', embeddingDimensions: null };
  const { task, dimensions, shorterDimensions } = pooler;
  const lengths = [...(dimensions === null ? [] : [dimensions]), ...shorterDimensions].sort((a, b) => b - a);
  return { task, embeddingDimensions: task === 'embedding' && lengths.length > 0 ? lengths : null };
}

/** Model aliases, and the operator's lifecycle declarations. */
export interface ModelNames {
  /** Alias → model. */
  readonly aliases: ReadonlyMap<string, string>;
  declared(model: CatalogModel): DeclaredDeprecation;
}

const PLAIN_NAMES: ModelNames = { aliases: new Map(), declared: (model) => model };

/** Maximum number of models that an error message lists. */
const MAX_LISTED = 10;

function unknown(asked: string, names: readonly string[]): Error {
  const listed = names.slice(0, MAX_LISTED).map((name) => name.slice(0, 64));
  const more = names.length - listed.length;
  const available =
    listed.length === 0
      ? ''
      : ` Available: ${listed.join(', ')}${more > 0 ? ` and ${more} more (GET /v1/models)` : ''}.`;
  return apiError(
    'model_not_found',
    `There is no model named ${JSON.stringify(asked.slice(0, 64))} on this server.${available}`,
    'model',
  );
}

function retired(asked: string, { successor }: ModelDeprecation): Error {
  const instead = successor === null ? '' : ` Use ${JSON.stringify(successor)} instead.`;
  return apiError(
    'model_not_found',
    `The model ${JSON.stringify(asked.slice(0, 64))} has been retired.${instead}`,
    'model',
  );
}

/** The Retry-After value is only a rough hint for clients, because the remaining loading time is unknown. */
const LOAD_RETRY_MS = 5_000;

type Ready = Extract<PooledModel['status'], { state: 'ready' }>;

function readyOf({ model, status }: PooledModel): Ready {
  const unavailable = (code: 'model_loading' | 'model_unavailable', message: string, extra: ErrorExtra = {}) =>
    apiError(code, message, null, extra);
  switch (status.state) {
    case 'ready':
      return status;
    case 'loading':
      throw unavailable('model_loading', `${model.id} is loading (${Math.floor(status.progress * 100)} %).`, {
        retryAfterMs: LOAD_RETRY_MS,
      });
    case 'failed':
      throw unavailable('model_unavailable', `${model.id} could not be loaded.`);
    case 'idle':
      throw unavailable('model_loading', `${model.id} is not loaded at the moment; the next request loads it.`, {
        retryAfterMs: LOAD_RETRY_MS,
      });
    case 'unloaded':
    case 'elsewhere':
      throw unavailable('model_unavailable', `${model.id} is not loaded at the moment.`);
  }
}
