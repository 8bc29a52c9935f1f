// The models of this thread by public name, and the engines behind them: models that share a file share
// one engine, loaded once. Loading never blocks; a file that does not load fails its models alone.
import { realpathSync } from 'node:fs';
import type { Addon, LoadOptions } from './addon-types.js';
import type { CatalogModel } from './catalog.js';
import { Engine } from './engine.js';
import { loadAddon } from './load-addon.js';

export type ModelStatus =
  | { state: 'loading'; progress: number }      // 0 to 1
  | { state: 'ready'; engine: Engine }
  | { state: 'failed'; error: Error };

export interface PooledModel {
  readonly model: CatalogModel;
  readonly status: ModelStatus;
}

/** An engine and the public names it answers to. */
export interface PooledEngine {
  readonly file: string;
  readonly names: readonly string[];
  readonly status: ModelStatus;
}

/** One file: loading, loaded, or not loadable. */
class Slot implements PooledEngine {
  readonly names: string[] = [];
  status: ModelStatus = { state: 'loading', progress: 0 };
  readonly settled: Promise<void>;

  constructor(addon: Addon, readonly file: string, options: LoadOptions) {
    this.settled = this.#load(addon, options);
  }

  async #load(addon: Addon, options: LoadOptions): Promise<void> {
    try {
      // The file is the engine's name in the process: other threads that serve it share it.
      const native = await addon.load(this.file, this.file, options, (progress) => { this.status = { state: 'loading', progress }; });
      this.status = { state: 'ready', engine: new Engine(native) };
    } catch (error) {
      this.status = { state: 'failed', error: error instanceof Error ? error : new Error(String(error)) };
    }
  }

  async close(): Promise<void> {
    await this.settled;
    if (this.status.state !== 'ready') return;
    const { engine } = this.status;
    this.status = { state: 'failed', error: new Error('the model has been closed') };
    await engine.close();
  }
}

export class ModelPool {
  readonly #addon: Addon;
  readonly #models = new Map<string, { model: CatalogModel; slot: Slot }>();
  readonly #slots = new Map<string, Slot>();

  constructor(private readonly options: LoadOptions, addon: Addon = loadAddon()) {
    this.#addon = addon;
  }

  /** Begins to load `model`, or joins the engine its file has already. Throws if the name is taken. */
  add(model: CatalogModel): void {
    if (this.#models.has(model.id)) throw new Error(`there is a model named "${model.id}" already`);
    const file = realPath(model.file);
    let slot = this.#slots.get(file);
    if (slot === undefined) {
      slot = new Slot(this.#addon, file, this.options);
      this.#slots.set(file, slot);
    }
    slot.names.push(model.id);
    this.#models.set(model.id, { model, slot });
  }

  /** Takes a name away; the engine ends with its last name. */
  async remove(name: string): Promise<void> {
    const entry = this.#models.get(name);
    if (entry === undefined) return;
    const { slot } = entry;
    this.#models.delete(name);
    slot.names.splice(slot.names.indexOf(name), 1);
    if (slot.names.length > 0) return;
    this.#slots.delete(slot.file);
    await slot.close();
  }

  get(name: string): PooledModel | undefined {
    const entry = this.#models.get(name);
    return entry && { model: entry.model, status: entry.slot.status };
  }

  /** In the order of adding. */
  list(): PooledModel[] {
    return [...this.#models.values()].map(({ model, slot }) => ({ model, status: slot.status }));
  }

  /** Each engine once, however many names it has. */
  engines(): PooledEngine[] {
    return [...this.#slots.values()];
  }

  /** Resolves when nothing is loading any more; what came of it stands in the statuses. */
  async settled(): Promise<void> {
    await Promise.all([...this.#slots.values()].map((slot) => slot.settled));
  }

  /** Ends running requests as `time_limit`; new ones are refused. */
  drain(): void {
    for (const { status } of this.#slots.values()) if (status.state === 'ready') status.engine.drain();
  }

  async close(): Promise<void> {
    await Promise.all([...this.#models.keys()].map((name) => this.remove(name)));
  }
}

function realPath(path: string): string {
  try {
    return realpathSync(path);
  } catch {
    return path;   // loading will say what is wrong with it
  }
}
