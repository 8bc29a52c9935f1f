// Decides which models are in memory. A model that receives no request for `idle_minutes` is unloaded, and loaded again
// on the next request; pinned models stay loaded. If loading a model needs memory, the least recently used models are
// unloaded first. There is one instance per thread. With several threads, each instance repeats the other threads'
// loads and unloads, because memory is freed only when the last thread releases the engine.

import { performance } from 'node:perf_hooks';
import { availableMemory } from './machine-memory.js';
import type { Addon } from './addon-types.js';
import type { CatalogModel } from './catalog.js';
import { planBytes } from './file-facts.js';
import { loadAddon } from './load-addon.js';
import type { ModelPool } from './model-pool.js';

const LOOK_MS = 1_000;
const MINUTE_MS = 60_000;
/** A model is not unloaded this soon after a request, because it may be about to be used. */
const JUST_USED_MS = 10_000;

export type ModelLifecycleEvent =
  | { type: 'loading' | 'loaded'; model: string; ms: number }
  | { type: 'unloaded'; model: string; reason: 'idle' | 'memory' }
  | { type: 'failed'; model: string; error: Error };

export interface ModelLifecycleOptions {
  readonly pool: ModelPool;
  /** Reports events to the log, and also `loading` and `unloaded` to the other threads. */
  report(news: ModelLifecycleEvent): void;
  readonly addon?: Addon;
  readonly now?: () => number;
  /** Returns the currently available memory in bytes. */
  readonly available?: () => number;
}

interface Use {
  requests: number;
  at: number;
}

export class ModelLifecycle {
  readonly #pool: ModelPool;
  readonly #now: () => number;
  readonly #available: () => number;
  // Usage by engine key, because names that share an engine also share its usage.
  readonly #uses = new Map<string, Use>();
  readonly #loading = new Map<string, Promise<void>>();
  /**
   * Total number of bytes that each load in progress will take, by engine key. The free memory does not yet reflect
   * them.
   */
  readonly #reserved = new Map<string, number>();
  /**
   * Only one load at a time makes room, so that each one takes into account the memory that the other loads have
   * reserved and freed.
   */
  #makingRoom: Promise<void> = Promise.resolve();
  readonly #timer: NodeJS.Timeout;

  constructor(private readonly options: ModelLifecycleOptions) {
    this.#pool = options.pool;
    this.#now = options.now ?? (() => performance.now());
    this.#available = options.available ?? availableMemory;
    this.#timer = setInterval(() => this.unloadIdle(), LOOK_MS);
    this.#timer.unref();
  }

  /** Records that the model is about to be used. */
  touch(model: string): void {
    const key = this.#pool.loadOf(model)?.key;
    if (key !== undefined) this.#uses.set(key, { requests: this.#uses.get(key)?.requests ?? 0, at: this.#now() });
  }

  /**
   * Loads the model if it is unloaded. Resolves when it has been loaded or has failed to load (see its status).
   * Resolves immediately if the model is not unloaded.
   */
  async ensureLoaded(model: string): Promise<void> {
    const load = this.#pool.loadOf(model);
    if (load === undefined) return;
    let loading = this.#loading.get(load.key);
    if (loading === undefined && this.#pool.get(model)?.status.state === 'idle') {
      loading = this.#load(this.#baseOf(model)).finally(() => this.#loading.delete(load.key));
      this.#loading.set(load.key, loading);
    }
    await loading;
    // An adapter is loaded after its model, so it may still be loading.
    if (this.#pool.loadOf(model)?.isAwaited === true) await this.#pool.settledOf(model);
  }

  /** Returns the name of an adapter's model. Returns any other name unchanged. */
  #baseOf(name: string): string {
    return this.#pool.get(name)?.model.adapter?.base ?? name;
  }

  /** Called on behalf of an operator: starts loading a model that is unloaded or has failed to load. */
  load(model: string): void {
    const load = this.#pool.loadOf(model);
    const state = this.#pool.get(model)?.status.state;
    if (load === undefined || this.#loading.has(load.key) || (state !== 'idle' && state !== 'failed')) return;
    this.#loading.set(
      load.key,
      this.#load(this.#baseOf(model)).finally(() => this.#loading.delete(load.key)),
    );
  }

  async #load(model: string): Promise<void> {
    const begun = this.#now();
    const key = this.#pool.loadOf(model)?.key ?? model;
    const wanted = await this.#wantedBytes(model);
    await (this.#makingRoom = this.#makingRoom.then(() => this.#freeMemoryFor(model, key, wanted)));
    this.#pool.load(model);
    this.touch(model);
    this.options.report({ type: 'loading', model, ms: 0 });
    await this.#pool.settledOf(model);
    this.#reserved.delete(key);
    const status = this.#pool.get(model)?.status;
    if (status?.state === 'ready') this.options.report({ type: 'loaded', model, ms: this.#now() - begun });
    else if (status?.state === 'failed') this.options.report({ type: 'failed', model, error: status.error });
    this.touch(model);
  }

  /** Repeats another thread's load or unload. */
  follow(news: { model: string; unloaded: boolean }): void {
    if (news.unloaded) this.#pool.unload(news.model);
    else this.#pool.load(news.model);
    this.touch(news.model);
  }

  /** Unloads models that have been idle long enough. */
  unloadIdle(): void {
    const now = this.#now();
    const engines = this.#pool.engines();
    for (const key of this.#uses.keys()) if (!engines.some((one) => one.key === key)) this.#uses.delete(key);
    for (const { key, names, status } of engines) {
      if (status.state !== 'ready') continue;
      const { requests, running, waiting } = status.engine.stats();
      const use = this.#uses.get(key);
      // The counters belong to the engine, so they include requests from other threads.
      if (use === undefined || use.requests !== requests || running + waiting + status.engine.active > 0) {
        this.#uses.set(key, { requests, at: now });
        continue;
      }
      const idleMs = this.#idleMs(names);
      if (now - use.at >= idleMs) this.#unload(names[0] as string, 'idle');
    }
  }

  close(): void {
    clearInterval(this.#timer);
  }

  /**
   * Called before a load. Reserves its `wanted` bytes, and unloads the least recently used models until there is enough
   * memory or no other model can be unloaded. Never rejects.
   */
  async #freeMemoryFor(model: string, key: string, wanted: number): Promise<void> {
    let room = this.#available() - this.#outstanding();
    this.#reserved.set(key, wanted);
    for (const { name, bytes } of this.#mayGo(model)) {
      if (room >= wanted) return;
      this.#unload(name, 'memory');
      await this.#pool.settledOf(name);
      room += bytes;
    }
  }

  /** Number of bytes that the loads in progress have yet to allocate. */
  #outstanding(): number {
    const progress = new Map(
      this.#pool.engines().map(({ key, status }) => [key, status.state === 'loading' ? status.progress : 0]),
    );
    return [...this.#reserved].reduce((sum, [key, bytes]) => sum + bytes * (1 - (progress.get(key) ?? 1)), 0);
  }

  async #wantedBytes(model: string): Promise<number> {
    const load = this.#pool.loadOf(model);
    if (load === undefined) return 0;
    try {
      const { plan } = await (this.options.addon ?? loadAddon()).inspect(load.file, load.options);
      return plan === null ? 0 : planBytes(plan);
    } catch {
      return 0; // loading it reports what is wrong
    }
  }

  #mayGo(except: string): { name: string; bytes: number }[] {
    const now = this.#now();
    const kept = this.#pool.loadOf(except)?.key;
    return this.#pool
      .engines()
      .flatMap(({ key, names, status }) => {
        if (key === kept || status.state !== 'ready' || this.#models(names).some(({ pinned }) => pinned === true))
          return [];
        const { running, waiting } = status.engine.stats();
        const at = this.#uses.get(key)?.at ?? 0;
        if (running + waiting + status.engine.active > 0 || now - at < JUST_USED_MS) return [];
        return [{ name: names[0] as string, bytes: planBytes(status.engine.plan), at }];
      })
      .sort((a, b) => a.at - b.at);
  }

  #unload(model: string, reason: 'idle' | 'memory'): void {
    this.#pool.unload(model);
    if (this.#pool.get(model)?.status.state === 'idle') this.options.report({ type: 'unloaded', model, reason });
  }

  #models(names: readonly string[]): CatalogModel[] {
    return names.flatMap((name) => this.#pool.get(name)?.model ?? []);
  }

  /** The longest idle time that is configured for any of an engine's names. */
  #idleMs(names: readonly string[]): number {
    const models = this.#models(names);
    if (models.some(({ pinned }) => pinned === true)) return Infinity;
    return Math.max(...models.map(({ idle_minutes: minutes }) => (minutes == null ? Infinity : minutes * MINUTE_MS)));
  }
}
