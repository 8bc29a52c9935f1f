// The models of this thread by public name, and the engines behind them: models that share a file (or folder)
// share one engine, loaded once for each way to store it. Loading never blocks; a file that does not load fails
// its models alone.
import { realpathSync } from 'node:fs';
import { resolve } from 'node:path';
import { performance } from 'node:perf_hooks';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Addon, LoadOptions } from './addon-types.js';
import type { CatalogModel, DraftFile } from './catalog.js';
import { Engine } from './engine.js';
import { loadAddon } from './load-addon.js';
import { visionFileOf, type VisionFile } from './vision-file.js';

export type ModelStatus =
  | { state: 'loading'; progress: number } // 0 to 1
  | { state: 'ready'; engine: Engine }
  | { state: 'elsewhere' } // another server computes it
  | { state: 'failed'; error: Error }
  | { state: 'idle' } // its memory was given back, as nobody used it; loaded when it is asked for
  | { state: 'unloaded' }; // its memory was given back, or soon will be: nothing new begins

export interface PooledModel {
  readonly model: CatalogModel;
  readonly status: ModelStatus;
}

/** An engine and the public names it answers to. */
export interface PooledEngine {
  /** Its name in the process. */
  readonly key: string;
  readonly file: string;
  readonly names: readonly string[];
  readonly status: ModelStatus;
}

/** What is ended by force still has to tell those who asked. */
const LAST_EVENTS_MS = 5_000;
const IDLE_LOOK_MS = 25;

/** One file: loading, loaded, not loadable, or not to be loaded now. */
class Slot implements PooledEngine {
  readonly names: string[] = [];
  status: ModelStatus = { state: 'unloaded' };
  /** Resolves when what was asked for last has come about. Never rejects. */
  settled: Promise<void> = Promise.resolve();
  /** It loads because somebody waits for it, and was not loaded with the server or by an operator. */
  isAwaited = false;
  #wanted = false;
  #resting = false; // given back until it is asked for, as nobody used it
  #closed = false;
  #leaving: Engine | null = null; // being unloaded, and some requests still run on it

  /** `key`: its name in the process, by which other threads share the engine. */
  constructor(
    private readonly addon: Addon,
    readonly key: string,
    readonly file: string,
    readonly options: LoadOptions,
    private readonly ready: (slot: Slot, engine: Engine) => void | Promise<void>,
  ) {}

  /** Whether it is loaded, loading, or would be if it were asked for. */
  get isOffered(): boolean {
    return this.#wanted || this.#resting;
  }

  /** Gives its memory back until it is asked for, if nothing runs on it; or, not yet loaded, leaves it until then. */
  rest(): void {
    if (this.#closed || this.#resting || (this.#wanted && this.status.state !== 'ready')) return;
    this.#resting = true;
    if (this.#wanted) this.want(false, 0);
    else this.status = { state: 'idle' };
  }

  /** Somebody asks for it; one that could not be loaded is tried once more. */
  wake(): void {
    if (this.status.state === 'failed' && this.#wanted && !this.#closed) {
      this.isAwaited = true;
      this.status = { state: 'loading', progress: 0 };
      this.settled = this.settled.then(() => this.#become(true, 0));
    }
    if (!this.#resting) return;
    this.isAwaited = true;
    this.want(true, 0);
  }

  /** Loads it or gives its memory back, one after the other however often this is called. `graceMs`: what runs gets this long. */
  want(loaded: boolean, graceMs: number): void {
    if (loaded) this.#resting = false;
    if (this.#wanted === loaded || this.#closed) return;
    this.#wanted = loaded;
    if (!loaded && this.status.state === 'ready') {
      this.#leaving = this.status.engine;
      this.status = this.#absent(); // from now on, not only when its turn has come
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
      if (this.status.state !== 'ready') await this.#load(this.addon, this.options, this.ready);
      return;
    }
    if (this.status.state === 'ready') this.#leaving = this.status.engine;
    this.status = this.#wanted ? { state: 'loading', progress: 0 } : this.#absent();
    const engine = this.#leaving;
    if (engine === null) return;
    const idle = await becomesIdle(engine, graceMs, () => this.#wanted);
    if (this.#wanted && !idle) {
      // Wanted again before it was given up. Other threads may be using it on, so it must not be drained.
      this.#leaving = null;
      this.status = { state: 'ready', engine };
      return;
    }
    if (!idle) {
      engine.drain();
      await becomesIdle(engine, LAST_EVENTS_MS, () => false);
    }
    this.#leaving = null;
    await engine.close();
  }

  /** An operator gives it up altogether. */
  leave(graceMs: number): void {
    this.#resting = false;
    if (this.#wanted) this.want(false, graceMs);
    else if (this.status.state === 'idle') this.status = { state: 'unloaded' };
  }

  #absent(): ModelStatus {
    return { state: this.#resting ? 'idle' : 'unloaded' };
  }

  async #load(
    addon: Addon,
    options: LoadOptions,
    ready: (slot: Slot, engine: Engine) => void | Promise<void>,
  ): Promise<void> {
    this.status = { state: 'loading', progress: 0 };
    try {
      const native = await addon.load(this.key, this.file, options, (progress) => {
        this.status = { state: 'loading', progress };
      });
      const engine = new Engine(native);
      await ready(this, engine);
      this.status = { state: 'ready', engine };
    } catch (error) {
      this.status = { state: 'failed', error: error instanceof Error ? error : new Error(String(error)) };
    } finally {
      this.isAwaited = false;
    }
  }

  async close(): Promise<void> {
    this.#closed = true;
    await this.#leaving?.close();
    await this.settled;
    if (this.status.state !== 'ready') return;
    const { engine } = this.status;
    this.status = { state: 'failed', error: new Error('the model has been closed') };
    await engine.close();
  }
}

export class ModelPool {
  readonly #addon: Addon;
  // Without a slot: those that run elsewhere.
  readonly #models = new Map<string, { model: CatalogModel; slot: Slot | null; loaded: boolean }>();
  readonly #slots = new Map<string, Slot>();

  /** `onReady`: an engine has been loaded. Nobody uses it before that has been done. */
  constructor(
    private readonly options: LoadOptions,
    addon: Addon = loadAddon(),
    private readonly onReady: (pooled: PooledEngine, engine: Engine) => void | Promise<void> = () => undefined,
  ) {
    this.#addon = addon;
  }

  /**
   * Begins to load `model`, or joins the engine its file has already; with `loaded` false only once it is asked to.
   * `draft` guesses for it, and is loaded for that once more. Throws if the name is taken.
   */
  add(model: CatalogModel, loaded = true, draft: DraftFile | null = null): void {
    if (this.#models.has(model.id)) throw new Error(`there is a model named "${model.id}" already`);
    if (model.upstream !== undefined) {
      this.#models.set(model.id, { model, slot: null, loaded });
      return;
    }
    // By its own path: beside a link lie the links to its other parts.
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
      slot = new Slot(this.#addon, key, file, optionsFor(this.options, model, draft, vision), this.onReady);
      this.#slots.set(key, slot);
    }
    slot.names.push(model.id);
    this.#models.set(model.id, { model, slot, loaded });
    if (!loaded) return;
    if (model.load === 'demand' && !slot.isOffered) slot.rest();
    else if (model.load !== 'demand') slot.want(true, 0);
  }

  /**
   * Serves a model again, or no more: at once for what is new, while what runs gets `graceMs`, then ends as `time_limit`.
   * The memory is given back with the last name that the file is loaded for.
   */
  setLoaded(name: string, loaded: boolean, graceMs: number): void {
    const entry = this.#models.get(name);
    if (entry === undefined || entry.loaded === loaded) return;
    entry.loaded = loaded;
    if (entry.slot === null) return;
    if (entry.slot.names.some((one) => this.#models.get(one)?.loaded === true)) entry.slot.want(true, 0);
    else entry.slot.leave(graceMs);
  }

  /** A model that rests begins to load, or one that could not be loaded. Nothing happens to any other. */
  wake(name: string): void {
    const entry = this.#models.get(name);
    if (entry?.loaded === true) entry.slot?.wake();
  }

  /** Gives a model's memory back until it is asked for, if nothing runs on it. */
  rest(name: string): void {
    const entry = this.#models.get(name);
    const status = entry?.slot?.status;
    if (status?.state === 'ready' && status.engine.active === 0) entry?.slot?.rest();
  }

  /** Resolves when what was last asked of this model has come about. */
  async settledOf(name: string): Promise<void> {
    await this.#models.get(name)?.slot?.settled;
  }

  /** What a load of this model goes by; undefined for a name that is not there, or runs elsewhere. */
  loadOf(name: string): { key: string; file: string; options: LoadOptions; isAwaited: boolean } | undefined {
    return this.#models.get(name)?.slot ?? undefined;
  }

  /** Takes a name away; the engine ends with its last name. */
  async remove(name: string): Promise<void> {
    const entry = this.#models.get(name);
    if (entry === undefined) return;
    const { slot } = entry;
    this.#models.delete(name);
    if (slot === null) return;
    slot.names.splice(slot.names.indexOf(name), 1);
    if (slot.names.length > 0) return;
    this.#slots.delete(slot.key);
    await slot.close();
  }

  /**
   * Takes a name away at once; what runs under it gets `graceMs`, then ends as `time_limit`. Resolves when that is over. The
   * engine ends with its last name.
   */
  async leave(name: string, graceMs: number): Promise<void> {
    const entry = this.#models.get(name);
    if (entry === undefined) return;
    this.setLoaded(name, false, graceMs);
    this.#models.delete(name);
    const { slot } = entry;
    if (slot === null) return;
    slot.names.splice(slot.names.indexOf(name), 1);
    await slot.settled;
    if (slot.names.length > 0 || this.#slots.get(slot.key) !== slot) return; // somebody has come back to it
    this.#slots.delete(slot.key);
    await slot.close();
  }

  get(name: string): PooledModel | undefined {
    const entry = this.#models.get(name);
    return entry && pooled(entry);
  }

  /** In the order of adding. */
  list(): PooledModel[] {
    return [...this.#models.values()].map(pooled);
  }

  /** Each engine once, however many names it has. */
  engines(): PooledEngine[] {
    return [...this.#slots.values()].filter(({ names }) => names.length > 0);
  }

  /** Resolves when nothing is loading any more; what came of it stands in the statuses. */
  async settled(): Promise<void> {
    await Promise.all([...this.#slots.values()].map((slot) => slot.settled));
  }

  /** Ends running requests as `time_limit`; new ones are refused. */
  drain(): void {
    for (const slot of this.#slots.values()) slot.drain();
  }

  async close(): Promise<void> {
    const slots = [...this.#slots.values()]; // those too whose names are gone while something runs on them
    await Promise.all([...this.#models.keys()].map((name) => this.remove(name)));
    await Promise.all(slots.map((slot) => slot.close()));
  }
}

const pooled = ({ model, slot, loaded }: { model: CatalogModel; slot: Slot | null; loaded: boolean }): PooledModel => ({
  model,
  status: !loaded ? { state: 'unloaded' } : slot === null ? { state: 'elsewhere' } : slot.status,
});

/** A file and the way it is stored in memory. */
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

/** Whether nothing of this thread runs on it any more, within the time and unless `stop` says so. */
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
    return path; // loading will say what is wrong with it
  }
}
