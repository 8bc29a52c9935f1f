// Loads one LoRA adapter of a pooled model for this thread. All threads of the process share an engine and its
// adapters. If another thread has already loaded the adapter, this thread uses that copy. Event-loop thread only.

import { performance } from 'node:perf_hooks';
import { setTimeout as sleep } from 'node:timers/promises';
import { engineAdapterName } from './adapters.js';
import type { AdapterInfo } from './addon-types.js';
import type { AdapterSource } from './catalog.js';
import type { Engine } from './engine.js';

export type AdapterState =
  | { state: 'absent' } // the model is not loaded, or the adapter was removed
  | { state: 'loading' }
  | { state: 'ready'; info: AdapterInfo }
  | { state: 'failed'; error: Error };

/**
 * Queries the primary thread for an adapter's state. Resolves to null if the adapter is unknown there or there was
 * no reply.
 */
export type PrimaryAdapters = (name: string) => Promise<AdapterState['state'] | null>;

/**
 * A worker thread waits until the primary thread has loaded the adapter. If the primary thread has not reported
 * `loading` for this long, the worker loads the adapter itself. If both load it, the adapter temporarily takes twice
 * the memory.
 */
const WAIT_MS = 10_000;
const LOOK_MS = 20;
/** Interval between a worker thread's queries to the primary thread for the adapter's state. */
const ASK_MS = 200;

export class PoolAdapter {
  state: AdapterState = { state: 'absent' };
  /** Resolves when the most recent load() has ended. Never rejects. */
  settled: Promise<void> = Promise.resolve();
  #engine: Engine | null = null;
  #isRemoved = false;

  /** `id`: the adapter's public name. `primary`: null on the primary thread. */
  constructor(
    readonly id: string,
    private readonly source: AdapterSource,
    private readonly primary: PrimaryAdapters | null,
  ) {}

  /**
   * Loads the adapter into a loaded engine. On the primary thread, the load starts when `previous` resolves. Never
   * rejects: `state` reports a failure.
   */
  load(engine: Engine, previous: Promise<void> = Promise.resolve()): Promise<void> {
    this.#engine = engine;
    this.state = { state: 'loading' };
    return (this.settled = this.#load(engine, previous));
  }

  async #load(engine: Engine, previous: Promise<void>): Promise<void> {
    let state: AdapterState;
    try {
      const loaded = await this.#shared(engine, previous);
      if (loaded === null) return;
      state = { state: 'ready', info: loaded };
    } catch (error) {
      state = { state: 'failed', error: error instanceof Error ? error : new Error(String(error)) };
    }
    if (this.#engine !== engine) return; // unloading the engine in the meantime has freed the adapter
    this.state = state;
    if (this.#isRemoved) this.#free(engine);
  }

  /** Must be called when the engine is unloaded, which frees its adapters. */
  leave(): void {
    this.#engine = null;
    this.state = { state: 'absent' };
  }

  /** Unloads the adapter from the engine. Its running requests finish normally. */
  remove(): void {
    this.#isRemoved = true;
    if (this.#engine !== null) this.#free(this.#engine);
  }

  #free(engine: Engine): void {
    if (this.state.state !== 'ready') return;
    const { id } = this.state.info;
    this.state = { state: 'absent' };
    // Another thread may already have unloaded the adapter, or the engine may be closed.
    engine.unloadAdapter(id).catch(() => undefined);
  }

  /** Finds another thread's copy, or loads the adapter. Resolves to null if the adapter is no longer needed. */
  async #shared(engine: Engine, previous: Promise<void>): Promise<AdapterInfo | null> {
    const name = engineAdapterName(this.source);
    const isNeeded = (): boolean => this.#engine === engine && !this.#isRemoved;
    const find = (): AdapterInfo | undefined =>
      engine
        .adapters()
        .filter((one) => one.name === name)
        .sort((a, b) => a.id - b.id)[0];
    // The primary thread loads one adapter at a time. A worker thread waits for the primary thread instead.
    if (this.primary === null) await previous;
    else await this.#primaryEnds(this.primary, () => !isNeeded() || find() !== undefined);
    if (!isNeeded()) return null;
    const existing = find();
    if (existing !== undefined) return existing;
    const own = await engine.loadAdapter(this.source.path, { name, scale: this.source.scale });
    // If several threads have loaded the adapter concurrently, all of them use the copy with the lowest ID.
    const first = find() ?? own;
    if (first.id !== own.id) await engine.unloadAdapter(own.id);
    return first;
  }

  /**
   * Resolves when `isDone` returns true, the primary thread failed to load the adapter, or WAIT_MS have passed since it
   * last reported `loading`.
   */
  async #primaryEnds(primary: PrimaryAdapters, isDone: () => boolean): Promise<void> {
    let end = performance.now() + WAIT_MS;
    for (let askAt = 0; !isDone() && performance.now() < end; ) {
      if (performance.now() >= askAt) {
        const state = await primary(this.id);
        if (state === 'failed') return;
        if (state === 'loading') end = performance.now() + WAIT_MS;
        askAt = performance.now() + ASK_MS;
      } else {
        await sleep(LOOK_MS, undefined, { ref: false });
      }
    }
  }
}
