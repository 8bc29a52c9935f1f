// One LoRA adapter of a pooled model on this thread. All threads of the process share an engine and its adapters, so an
// adapter that another thread has loaded is used instead of a second copy. Event-loop thread only.

import { performance } from 'node:perf_hooks';
import { setTimeout as sleep } from 'node:timers/promises';
import { engineAdapterName } from './adapters.js';
import type { AdapterInfo } from './addon-types.js';
import type { AdapterSource } from './catalog.js';
import type { Engine } from './engine.js';

export type AdapterState =
  | { state: 'absent' } // the engine is not loaded
  | { state: 'loading' }
  | { state: 'ready'; info: AdapterInfo }
  | { state: 'failed'; error: Error };

/** Returns the state of an adapter on the primary thread; null if that thread does not know it or does not answer. */
export type PrimaryAdapters = (name: string) => Promise<AdapterState['state'] | null>;

/**
 * How long a worker thread waits for the primary thread to start loading the adapter before it loads the adapter
 * itself. Loading it twice is harmless, but for a moment takes the memory twice.
 */
const WAIT_MS = 10_000;
const LOOK_MS = 20;
/** Interval at which the primary thread is asked for its state. */
const ASK_MS = 200;

export class PoolAdapter {
  state: AdapterState = { state: 'absent' };
  /** Resolves when the most recent load() has ended. Never rejects. */
  settled: Promise<void> = Promise.resolve();
  #engine: Engine | null = null;
  #isRemoved = false;

  /** `id`: the public name. `primary`: null on the primary thread. */
  constructor(
    readonly id: string,
    private readonly source: AdapterSource,
    private readonly primary: PrimaryAdapters | null,
  ) {}

  /**
   * Loads the adapter into an engine that has just been loaded, after `previous`. Never rejects: `state` reports a
   * failure.
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
    if (this.#engine !== engine) return; // the engine was unloaded in the meantime, and its adapters with it
    this.state = state;
    if (this.#isRemoved) this.#free(engine);
  }

  /** Called when the engine is unloaded, which frees its adapters. */
  leave(): void {
    this.#engine = null;
    this.state = { state: 'absent' };
  }

  /** Removes the adapter from the engine. Its requests run to their end. */
  remove(): void {
    this.#isRemoved = true;
    if (this.#engine !== null) this.#free(this.#engine);
  }

  #free(engine: Engine): void {
    if (this.state.state !== 'ready') return;
    const { id } = this.state.info;
    this.state = { state: 'absent' };
    // Another thread may have unloaded it already, or the engine may be closed.
    engine.unloadAdapter(id).catch(() => undefined);
  }

  /** Uses the copy of another thread, or loads the adapter. Null: it is not needed any more. */
  async #shared(engine: Engine, previous: Promise<void>): Promise<AdapterInfo | null> {
    const name = engineAdapterName(this.source);
    const isNeeded = (): boolean => this.#engine === engine && !this.#isRemoved;
    const find = (): AdapterInfo | undefined =>
      engine
        .adapters()
        .filter((one) => one.name === name)
        .sort((a, b) => a.id - b.id)[0];
    // On other threads, all adapters wait at the same time for the primary thread, which loads one after another.
    if (this.primary === null) await previous;
    else await this.#primaryEnds(this.primary, () => !isNeeded() || find() !== undefined);
    if (!isNeeded()) return null;
    const existing = find();
    if (existing !== undefined) return existing;
    const own = await engine.loadAdapter(this.source.path, { name, scale: this.source.scale });
    // If several threads have loaded the adapter concurrently, all of them keep the copy that was loaded first.
    const first = find() ?? own;
    if (first.id !== own.id) await engine.unloadAdapter(own.id);
    return first;
  }

  /** Resolves when `isDone` returns true, when the primary thread has failed, or when it has not started in time. */
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
