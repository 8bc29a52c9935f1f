// This thread's models by public name, and their engines. Models that share a file or directory share one engine, which
// is loaded once per quantization. Loading never blocks. A file that fails to load affects only the models that use it.
import { realpathSync } from 'node:fs';
import { resolve } from 'node:path';
import { performance } from 'node:perf_hooks';
import { setTimeout as sleep } from 'node:timers/promises';
import type { AdapterInfo, Addon, LoadOptions } from './addon-types.js';
import type { CatalogModel, DraftFile } from './catalog.js';
import { Engine } from './engine.js';
import { loadAddon } from './load-addon.js';
import { PoolAdapter, type AdapterState, type PrimaryAdapters } from './pool-adapter.js';
import { visionFileOf, type VisionFile } from './vision-file.js';

export type ModelStatus =
  | { state: 'loading'; progress: number } // 0 to 1
  | { state: 'ready'; engine: Engine; adapter?: AdapterInfo } // `adapter`: set for the name of a LoRA adapter
  | { state: 'elsewhere' } // an upstream model
  | { state: 'failed'; error: Error }
  | { state: 'idle' } // unloaded because it was idle; loaded on the next request
  | { state: 'unloaded' }; // unloaded, or about to be; new requests are rejected

export interface PooledModel {
  readonly model: CatalogModel;
  readonly status: ModelStatus;
}

/** An engine and its public names. */
export interface PooledEngine {
  /** Identifies the engine within the process. */
  readonly key: string;
  readonly file: string;
  readonly names: readonly string[];
  /** Public names of the LoRA adapters of this engine's models. */
  readonly adapterNames: readonly string[];
  readonly status: ModelStatus;
}

/** How long to wait, in ms, for the last events of requests that were ended with `time_limit`. */
const LAST_EVENTS_MS = 5_000;
const IDLE_LOOK_MS = 25;

/** One model file and its state: loading, loaded, failed or unloaded. */
class Slot implements PooledEngine {
  readonly names: string[] = [];
  readonly adapters = new Set<PoolAdapter>();
  status: ModelStatus = { state: 'unloaded' };
  /** Resolves when the most recently requested change has been made. Never rejects. */
  settled: Promise<void> = Promise.resolve();
  /** True if the model is being loaded for a waiting request, rather than at startup or by an operator. */
  isAwaited = false;
  #wanted = false;
  #resting = false; // unloaded until the next request, because it was idle
  #closed = false;
  #leaving: Engine | null = null; // being unloaded while some requests still run on it

  /** `key` identifies the engine within the process, so that other threads can share it. */
  constructor(
    private readonly addon: Addon,
    readonly key: string,
    readonly file: string,
    readonly options: LoadOptions,
    private readonly hooks: PoolHooks,
  ) {}

  /** Whether the model is loaded, is loading, or would be loaded on request. */
  get isOffered(): boolean {
    return this.#wanted || this.#resting;
  }

  get adapterNames(): string[] {
    return [...this.adapters].map(({ id }) => id);
  }

  /** Adds an adapter. It is loaded immediately if the model is loaded, and after every later load of the model. */
  addAdapter(adapter: PoolAdapter): Promise<void> {
    this.adapters.add(adapter);
    return this.status.state === 'ready' ? adapter.load(this.status.engine) : this.settled.then(() => adapter.settled);
  }

  removeAdapter(adapter: PoolAdapter): void {
    this.adapters.delete(adapter);
    adapter.remove();
  }

  /**
   * Unloads the model until the next request, if no request is running on it. If it has not been loaded yet, defers
   * loading until then.
   */
  unload(): void {
    if (this.#closed || this.#resting || (this.#wanted && this.status.state !== 'ready')) return;
    this.#resting = true;
    if (this.#wanted) this.want(false, 0);
    else this.status = { state: 'idle' };
  }

  /** Called when a request needs the model: loads it if it is unloaded, and retries if loading failed. */
  load(): void {
    if (this.status.state === 'failed' && this.#wanted && !this.#closed) {
      this.isAwaited = true;
      this.status = { state: 'loading', progress: 0 };
      this.settled = this.settled.then(() => this.#become(true, 0));
    }
    if (!this.#resting) return;
    this.isAwaited = true;
    this.want(true, 0);
  }

  /**
   * Loads or unloads the model. Repeated calls take effect one after another. `graceMs`: how long running requests may
   * continue.
   */
  want(loaded: boolean, graceMs: number): void {
    if (loaded) this.#resting = false;
    if (this.#wanted === loaded || this.#closed) return;
    this.#wanted = loaded;
    if (!loaded && this.status.state === 'ready') {
      this.#leaving = this.status.engine;
      this.status = this.#absent(); // effective now, not only when this change is reached in the queue
    } else if (loaded) {
      this.status = { state: 'loading', progress: 0 };
    }
    this.settled = this.settled.then(() => this.#become(loaded, graceMs));
  }

  drain(): void {
    this.#leaving?.drain();
    if (this.status.state === 'ready') this.status.engine.drain();
  }

  async #become(loaded: boolean, graceMs: number): Promise<void> {
    if (this.#closed) return;
    if (loaded) {
      if (this.status.state !== 'ready') await this.#load(this.addon, this.options);
      return;
    }
    if (this.status.state === 'ready') this.#leaving = this.status.engine;
    this.status = this.#wanted ? { state: 'loading', progress: 0 } : this.#absent();
    const engine = this.#leaving;
    if (engine === null) return;
    const idle = await becomesIdle(engine, graceMs, () => this.#wanted);
    if (this.#wanted && !idle) {
      // Called if the model is requested again before it has been unloaded. Other threads may still be using its
      // engine, so it must not be drained.
      this.#leaving = null;
      this.status = { state: 'ready', engine };
      return;
    }
    if (!idle) {
      engine.drain();
      await becomesIdle(engine, LAST_EVENTS_MS, () => false);
    }
    this.#leaving = null;
    await this.#end(engine);
  }

  async #end(engine: Engine): Promise<void> {
    for (const adapter of this.adapters) adapter.leave();
    await Promise.all([...this.adapters].map(({ settled }) => settled));
    await this.hooks.closing(this);
    await engine.close();
  }

  /** Called when an operator unloads the model. Requests do not load it again. */
  leave(graceMs: number): void {
    this.#resting = false;
    if (this.#wanted) this.want(false, graceMs);
    else if (this.status.state === 'idle') this.status = { state: 'unloaded' };
  }

  #absent(): ModelStatus {
    return { state: this.#resting ? 'idle' : 'unloaded' };
  }

  async #load(addon: Addon, options: LoadOptions): Promise<void> {
    this.status = { state: 'loading', progress: 0 };
    try {
      const native = await addon.load(this.key, this.file, options, (progress) => {
        this.status = { state: 'loading', progress };
      });
      const engine = new Engine(native, options);
      await this.hooks.ready(this, engine);
      this.status = { state: 'ready', engine };
      this.#loadAdapters(engine);
    } catch (error) {
      this.status = { state: 'failed', error: error instanceof Error ? error : new Error(String(error)) };
    } finally {
      this.isAwaited = false;
    }
  }

  /** Loads adapters one at a time, to limit the peak memory. Requests for the model itself do not wait for them. */
  #loadAdapters(engine: Engine): void {
    let previous: Promise<void> = Promise.resolve();
    for (const adapter of this.adapters) previous = adapter.load(engine, previous);
  }

  async close(): Promise<void> {
    this.#closed = true;
    if (this.#leaving !== null) await this.#end(this.#leaving);
    await this.settled;
    if (this.status.state !== 'ready') return;
    const { engine } = this.status;
    this.status = { state: 'failed', error: new Error('the model is closed') };
    await this.#end(engine);
  }
}

export interface PoolHooks {
  /** Runs after an engine has been loaded. Requests can use the engine only after this has completed. */
  ready(pooled: PooledEngine, engine: Engine): void | Promise<void>;
  /** Runs before this thread releases an idle engine. */
  closing(pooled: PooledEngine): void | Promise<void>;
}

interface Entry {
  readonly model: CatalogModel;
  readonly slot: Slot | null;
  loaded: boolean;
  /** Set if this is the name of a LoRA adapter. `slot` is then the slot of the adapter's model. */
  readonly adapter?: PoolAdapter;
}

export class ModelPool {
  readonly #hooks: PoolHooks;
  readonly #addon: Addon;
  // Upstream models have no slot.
  readonly #models = new Map<string, Entry>();
  readonly #slots = new Map<string, Slot>();

  /**
   * `onReady`, `onClosing`: see PoolHooks. `primaryAdapters`: reports the states of the adapters on the primary thread,
   * which loads them first; null on the primary thread itself.
   */
  constructor(
    private readonly options: LoadOptions,
    addon: Addon = loadAddon(),
    onReady: PoolHooks['ready'] = () => undefined,
    onClosing: PoolHooks['closing'] = () => undefined,
    private readonly primaryAdapters: PrimaryAdapters | null = null,
  ) {
    this.#addon = addon;
    this.#hooks = { ready: onReady, closing: onClosing };
  }

  /**
   * Starts loading `model`, or joins the engine that already has its file. If `loaded` is false, only setLoaded() loads
   * it. `draft` is the model's draft model, which is loaded separately for each model. Throws if the name is taken.
   */
  add(model: CatalogModel, loaded = true, draft: DraftFile | null = null): void {
    if (this.#models.has(model.id)) throw new Error(`a model named "${model.id}" already exists`);
    if (model.adapter !== undefined) throw new Error(`"${model.id}" is an adapter`);
    if (model.upstream !== undefined) {
      this.#models.set(model.id, { model, slot: null, loaded });
      return;
    }
    // If the path is a symbolic link, the link itself is used rather than its target, because the links to the model's
    // other parts are in the same directory.
    const file = resolve(model.file);
    const vision = visionFileOf(model);
    const key =
      storedAs(realPath(file), model) +
      (draft === null ? '' : ` with draft ${storedAs(realPath(draft.file), draft)}`) +
      (vision === null
        ? ''
        : ` seeing with ${realPath(vision.path)}${model.vision_precision === 'exact' ? ', exact' : ''}${model.vision_resize === 'original' ? ', resized as its makers do' : ''}`);
    let slot = this.#slots.get(key);
    if (slot === undefined) {
      slot = new Slot(this.#addon, key, file, optionsFor(this.options, model, draft, vision), this.#hooks);
      this.#slots.set(key, slot);
    }
    slot.names.push(model.id);
    this.#models.set(model.id, { model, slot, loaded });
    if (!loaded) return;
    if (model.load === 'demand' && !slot.isOffered) slot.unload();
    else if (model.load !== 'demand') slot.want(true, 0);
  }

  /**
   * Adds a LoRA adapter. The pool keeps the adapter in memory while its model is loaded. Resolves when the adapter has
   * been loaded or has failed to load, or immediately if its model is not loaded. Throws if the name is taken, or if
   * the adapter's model is unknown or is an upstream model.
   */
  addAdapter(model: CatalogModel, loaded = true): Promise<void> {
    const { adapter: source } = model;
    const base = source === undefined ? undefined : this.#models.get(source.base);
    if (source === undefined || base === undefined || base.slot === null)
      throw new Error(`"${model.id}" has no local model`);
    if (this.#models.has(model.id)) throw new Error(`a model named "${model.id}" already exists`);
    const adapter = new PoolAdapter(model.id, source, this.primaryAdapters);
    this.#models.set(model.id, { model, slot: base.slot, loaded, adapter });
    return base.slot.addAdapter(adapter);
  }

  /** Removes an adapter from the pool immediately. Its running requests finish normally. */
  removeAdapter(name: string): void {
    const entry = this.#models.get(name);
    if (entry?.adapter === undefined) return;
    this.#models.delete(name);
    entry.slot?.removeAdapter(entry.adapter);
  }

  /** Removes all adapters of a model from the pool. */
  #removeAdaptersOf(base: string): void {
    for (const [name, { model }] of [...this.#models]) if (model.adapter?.base === base) this.removeAdapter(name);
  }

  /**
   * Starts or stops serving a model. New requests are affected immediately; running ones may continue for `graceMs`,
   * then end with `time_limit`. The memory is freed when the last name that uses the file is unloaded.
   */
  setLoaded(name: string, loaded: boolean, graceMs: number): void {
    const entry = this.#models.get(name);
    if (entry === undefined || entry.loaded === loaded) return;
    entry.loaded = loaded;
    if (entry.slot === null || entry.adapter !== undefined) return;
    if (entry.slot.names.some((one) => this.#models.get(one)?.loaded === true)) entry.slot.want(true, 0);
    else entry.slot.leave(graceMs);
  }

  /** Starts loading a model that is unloaded or has failed to load. Has no effect in other states. */
  load(name: string): void {
    const entry = this.#models.get(name);
    if (entry?.loaded === true) entry.slot?.load();
  }

  /** Unloads a model until the next request, if no request is running on it. */
  unload(name: string): void {
    const entry = this.#models.get(name);
    const status = entry?.slot?.status;
    if (status?.state === 'ready' && status.engine.active === 0) entry?.slot?.unload();
  }

  /** Resolves when the most recently requested change to this model has been made. */
  async settledOf(name: string): Promise<void> {
    const entry = this.#models.get(name);
    await entry?.slot?.settled;
    await entry?.adapter?.settled;
  }

  /** Returns an adapter's state on this thread, or undefined if `name` is not an adapter's name. */
  adapterState(name: string): AdapterState['state'] | undefined {
    return this.#models.get(name)?.adapter?.state.state;
  }

  /** A model's load parameters; undefined for unknown names and upstream models. */
  loadOf(name: string): { key: string; file: string; options: LoadOptions; isAwaited: boolean } | undefined {
    const { slot, adapter } = this.#models.get(name) ?? {};
    if (slot === undefined || slot === null) return undefined;
    const { key, file, options, status } = slot;
    // Requests for an adapter also wait while the adapter is being loaded into the engine of a loaded model.
    const isAdding = status.state === 'ready' && adapter?.state.state === 'loading';
    return { key, file, options, isAwaited: slot.isAwaited || isAdding };
  }

  /** Removes a name. The engine is closed along with its last name. */
  async remove(name: string): Promise<void> {
    const entry = this.#models.get(name);
    if (entry === undefined) return;
    if (entry.adapter !== undefined) return this.removeAdapter(name);
    this.#removeAdaptersOf(name);
    const { slot } = entry;
    this.#models.delete(name);
    if (slot === null) return;
    slot.names.splice(slot.names.indexOf(name), 1);
    if (slot.names.length > 0) return;
    this.#slots.delete(slot.key);
    await slot.close();
  }

  /**
   * Removes a name immediately. Requests running under it may continue for `graceMs`, then end with `time_limit`.
   * Resolves when they have ended. The engine is closed along with its last name.
   */
  async leave(name: string, graceMs: number): Promise<void> {
    const entry = this.#models.get(name);
    if (entry === undefined) return;
    if (entry.adapter !== undefined) return this.removeAdapter(name);
    this.#removeAdaptersOf(name);
    this.setLoaded(name, false, graceMs);
    this.#models.delete(name);
    const { slot } = entry;
    if (slot === null) return;
    slot.names.splice(slot.names.indexOf(name), 1);
    await slot.settled;
    if (slot.names.length > 0 || this.#slots.get(slot.key) !== slot) return; // the slot is in use again
    this.#slots.delete(slot.key);
    await slot.close();
  }

  get(name: string): PooledModel | undefined {
    const entry = this.#models.get(name);
    return entry && this.#pooled(entry);
  }

  /** Lists the models in insertion order. */
  list(): PooledModel[] {
    return [...this.#models.values()].map((entry) => this.#pooled(entry));
  }

  /** Lists the models in insertion order, without LoRA adapters. */
  models(): PooledModel[] {
    return this.list().filter(({ model }) => model.adapter === undefined);
  }

  /** Lists the LoRA adapters in insertion order. */
  adapters(): PooledModel[] {
    return [...this.#models.values()].flatMap((entry) => (entry.adapter === undefined ? [] : [this.#pooled(entry)]));
  }

  #pooled({ model, slot, loaded, adapter }: Entry): PooledModel {
    const isLoaded = loaded && (model.adapter === undefined || this.#models.get(model.adapter.base)?.loaded === true);
    if (!isLoaded) return { model, status: { state: 'unloaded' } };
    if (slot === null) return { model, status: { state: 'elsewhere' } };
    return { model, status: adapter === undefined ? slot.status : adapterStatus(slot.status, adapter) };
  }

  /** Lists each engine once, regardless of its number of names. */
  engines(): PooledEngine[] {
    return [...this.#slots.values()].filter(({ names }) => names.length > 0);
  }

  /** Resolves when all loads of models and adapters have ended. Their statuses show whether they succeeded. */
  async settled(): Promise<void> {
    await Promise.all([...this.#models.keys()].map((name) => this.settledOf(name)));
  }

  /** Ends running requests with `time_limit` and refuses new ones. */
  drain(): void {
    for (const slot of this.#slots.values()) slot.drain();
  }

  async close(): Promise<void> {
    const slots = [...this.#slots.values()]; // includes slots without names on which requests are still running
    await Promise.all([...this.#models.keys()].map((name) => this.remove(name)));
    await Promise.all(slots.map((slot) => slot.close()));
  }
}

/** Returns an adapter's status. `status`: the status of its model. */
function adapterStatus(status: ModelStatus, { state }: PoolAdapter): ModelStatus {
  if (status.state !== 'ready') return status;
  switch (state.state) {
    case 'ready':
      return { ...status, adapter: state.info };
    case 'failed':
      return state;
    case 'absent':
    case 'loading':
      return { state: 'loading', progress: 1 };
  }
}

/** A file and its quantization type, which together identify a copy in memory. */
const storedAs = (file: string, { quantize }: DraftFile): string =>
  quantize === undefined || quantize === null ? file : `${file} as ${quantize}`;

function optionsFor(
  options: LoadOptions,
  { quantize, vision_precision: precision, vision_resize: resize }: CatalogModel,
  draft: DraftFile | null,
  vision: VisionFile | null,
): LoadOptions {
  return {
    ...options,
    ...(quantize === undefined || quantize === null ? {} : { quantize }),
    ...(draft === null ? {} : { draftPath: realPath(draft.file) }),
    ...(vision === null
      ? {}
      : {
          visionPath: realPath(vision.path),
          visionOptional: vision.found,
          ...(precision === undefined ? {} : { visionPrecision: precision }),
          ...(resize === undefined ? {} : { visionResize: resize }),
        }),
    ...(draft?.quantize === undefined || draft.quantize === null ? {} : { draftQuantize: draft.quantize }),
  };
}

/**
 * Waits until none of this thread's requests is running on the engine. Returns false after `withinMs`, or when `stop`
 * returns true.
 */
async function becomesIdle(engine: Engine, withinMs: number, stop: () => boolean): Promise<boolean> {
  for (const end = performance.now() + withinMs; engine.active > 0; ) {
    if (performance.now() >= end || stop()) return false;
    await sleep(IDLE_LOOK_MS, undefined, { ref: false });
  }
  return true;
}

function realPath(path: string): string {
  try {
    return realpathSync(path);
  } catch {
    return path; // loading it reports what is wrong
  }
}
