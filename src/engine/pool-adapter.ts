// One LoRA adapter of a pooled model on this thread. All threads of the process share an engine and its adapters, so an
// adapter that another thread has loaded is used instead of a second copy. Event-loop thread only.

import { setTimeout as sleep } from 'node:timers/promises';
import type { AdapterInfo } from './addon-types.js';
import type { AdapterSource } from './catalog.js';
import type { Engine } from './engine.js';

export type AdapterState =
  | { state: 'absent' } // the engine is not loaded
  | { state: 'loading' }
  | { state: 'ready'; info: AdapterInfo }
  | { state: 'failed'; error: Error };

/**
 * How long a worker thread waits for the primary thread to load the adapter before it loads the adapter itself. Loading
 * it twice is harmless, but for a moment takes the memory twice.
 */
const WAIT_MS = 10_000;
const LOOK_MS = 20;

export class PoolAdapter {
  state: AdapterState = { state: 'absent' };
  /** Resolves when the most recent load() has ended. Never rejects. */
  settled: Promise<void> = Promise.resolve();
  #engine: Engine | null = null;
  #isRemoved = false;

  /** `id`: the public name, by which the threads find each other's adapters in an engine. */
  constructor(
    readonly id: string,
    private readonly source: AdapterSource,
    private readonly isPrimary: boolean,
  ) {}

  /** Loads the adapter into an engine that has just been loaded. Never rejects: `state` reports a failure. */
  load(engine: Engine): Promise<void> {
    return (this.settled = this.#load(engine));
  }

  async #load(engine: Engine): Promise<void> {
    this.#engine = engine;
    this.state = { state: 'loading' };
    let state: AdapterState;
    try {
      state = { state: 'ready', info: await this.#sharedInfo(engine) };
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

  async #sharedInfo(engine: Engine): Promise<AdapterInfo> {
    const find = (): AdapterInfo | undefined =>
      engine
        .adapters()
        .filter(({ name }) => name === this.id)
        .sort((a, b) => a.id - b.id)[0];
    for (let waited = 0; !this.isPrimary && waited < WAIT_MS && find() === undefined; waited += LOOK_MS)
      await sleep(LOOK_MS, undefined, { ref: false });
    const existing = find();
    if (existing !== undefined) return existing;
    const own = await engine.loadAdapter(this.source.path, { name: this.id, scale: this.source.scale });
    // If several threads have loaded the adapter concurrently, all of them keep the copy that was loaded first.
    const first = find() ?? own;
    if (first.id !== own.id) await engine.unloadAdapter(own.id);
    return first;
  }
}
