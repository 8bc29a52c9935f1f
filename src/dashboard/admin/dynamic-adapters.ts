// Adds the LoRA adapters that operators load at run time to this thread's model pool. Each thread reads the stored
// adapters when it is notified of a change, and once per second to pick up changes by other processes. When an adapter
// is unloaded, its running requests finish normally.

import type { AuditNote } from '../../accounts/audit.js';
import { adapterNameProblem } from '../../config/kinds.js';
import { adapterId, adapterModel, adapterTarget, engineAdapterName } from '../../engine/adapters.js';
import { nameProblem } from '../../engine/catalog.js';
import type { Engine } from '../../engine/engine.js';
import type { ModelPool } from '../../engine/model-pool.js';
import type { ServedModels } from '../../generation/served-models.js';
import type { ThreadBus } from '../../shared/bus.js';
import { apiError } from '../../shared/errors.js';
import type { Log } from '../../telemetry/types.js';
import { adapterPath } from './adapter-folder.js';
import type { AdapterRow, AdapterStore } from './adapter-store.js';

const READ_MS = 1_000;

/** Maximum number of adapters that operators may load in total. An engine can load at most 64. */
export const MAX_ADAPTERS = 200;

export interface DynamicAdaptersOptions {
  readonly store: AdapterStore;
  readonly pool: ModelPool;
  readonly models: Pick<ServedModels, 'find'>;
  readonly bus: ThreadBus;
  readonly log: Log;
  /** The setting adapters.folder. */
  readonly folder: string | null;
  /** Names and aliases in the configuration, which are not available to operators' adapters. */
  readonly taken: ReadonlySet<string>;
  /** Whether an operator has unloaded the model or adapter with this name. */
  isUnloaded(name: string): boolean;
  /** Called with an adapter's public name when it has been added to the pool. */
  onServed(name: string): void;
  readonly readMs?: number;
}

export interface AdapterRequest {
  /** NAME or MODEL:NAME. */
  readonly name: string;
  readonly path: string;
  /** The adapter's base model, if `name` does not contain it. */
  readonly base?: string | undefined;
  readonly scale?: number | undefined;
  readonly signal?: AbortSignal | undefined;
}

export class DynamicAdapters {
  readonly #served = new Map<string, AdapterRow>();
  readonly #reported = new Map<string, string>(); // adapter → last logged reason for not serving it
  readonly #timer: NodeJS.Timeout;
  readonly #stopListening: () => void;
  readonly #loading = new Set<Promise<void>>();
  #reading: Promise<void> = Promise.resolve();
  #isFailing = false;
  #isClosed = false;

  private constructor(private readonly options: DynamicAdaptersOptions) {
    this.#stopListening = options.bus.on('operator.changed', () => this.#follow());
    this.#timer = setInterval(() => void this.#read(), options.readMs ?? READ_MS);
    this.#timer.unref();
  }

  /** Resolves when all stored adapters whose model is served are in the pool. Some may still be loading. */
  static async open(options: DynamicAdaptersOptions): Promise<DynamicAdapters> {
    const adapters = new DynamicAdapters(options);
    await adapters.#read();
    return adapters;
  }

  /** Loads an adapter. Resolves to its public name when every thread serves it. Rejects with an ApiError. */
  async load(request: AdapterRequest, actor: AuditNote['actor']): Promise<string> {
    const { store, pool, models, bus, folder, taken } = this.options;
    const problem = adapterNameProblem(request.name);
    if (problem !== null) throw wrong('lora_name', problem);
    if (request.base !== undefined && request.name.includes(':'))
      throw wrong('lora_name', 'must not contain a colon if base_model_name is sent.');
    const local = pool.list().map(({ model }) => model);
    const target = adapterTarget(request.base === undefined ? request.name : `${request.base}:${request.name}`, local);
    if ('problem' in target)
      throw wrong(request.base === undefined ? 'lora_name' : 'base_model_name', `${target.problem}.`);
    const { base, name } = target;
    const id = adapterId({ base: base.id, name });
    const idProblem = nameProblem(id);
    if (idProblem !== null) throw wrong('lora_name', `"${id}" ${idProblem}.`);
    const loaded = (): Error =>
      wrong('lora_name', `The LoRA adapter "${id}" has already been loaded. Unload it first.`);
    if (taken.has(id) || pool.get(id) !== undefined) throw loaded();
    const found = adapterPath(request.path, folder);
    if ('problem' in found) throw wrong('lora_path', `${found.problem}.`);
    const { path } = found;
    const scale = request.scale ?? 1;
    const row: AdapterRow = { base: base.id, name, path, scale, addedAt: new Date().toISOString() };
    const served = models.find(base.id);
    await served.ensureLoaded({ signal: request.signal });
    served.ready();
    const status = pool.get(base.id)?.status;
    if (status?.state !== 'ready') throw apiError('model_unavailable', `${base.id} is not loaded at the moment.`);
    const { engine } = status;
    const info = await tryLoad(engine, path, { name: engineAdapterName(row), scale });
    try {
      await store.add(
        id,
        row,
        (there) => {
          if (there.has(id)) throw loaded();
          if (there.size >= MAX_ADAPTERS)
            throw wrong('lora_name', `Operators have loaded ${MAX_ADAPTERS} adapters, the maximum. Unload one first.`);
        },
        { actor, action: 'adapter.loaded', detail: { path, scale } },
      );
    } catch (error) {
      await engine.unloadAdapter(info.id).catch(() => undefined);
      throw error;
    }
    await Promise.all([this.#follow(), bus.ask('operator.changed', {})]);
    // Another request may have unloaded the adapter in the meantime. Without this check, the copy loaded here would
    // stay in memory.
    if (pool.get(id)?.model.adapter?.addedAt !== row.addedAt)
      await engine.unloadAdapter(info.id).catch(() => undefined);
    return id;
  }

  /**
   * Unloads an adapter. Resolves to its public name when all threads refuse new requests for it. `name`: NAME or
   * MODEL:NAME. Rejects with an ApiError.
   */
  async unload(name: string, actor: AuditNote['actor']): Promise<string> {
    const { store, pool, bus } = this.options;
    const all = await store.all();
    const own = [...all].filter(([, row]) => row.name === name);
    const id = all.has(name) ? name : own[0]?.[0];
    if (own.length > 1 && !all.has(name))
      throw wrong('lora_name', `Several models have an adapter "${name}": ${own.map(([one]) => one).join(', ')}.`);
    if (id === undefined) {
      if (pool.adapters().some(({ model }) => model.id === name || model.adapter?.name === name))
        throw wrong('lora_name', `The LoRA adapter "${name}" is configured and cannot be unloaded at run time.`);
      throw apiError('resource_not_found', `The LoRA adapter "${name.slice(0, 256)}" cannot be found.`, 'lora_name');
    }
    const { path, scale } = all.get(id) as AdapterRow;
    await store.remove(id, { actor, action: 'adapter.unloaded', detail: { path, scale } });
    await Promise.all([this.#follow(), bus.ask('operator.changed', {})]);
    return id;
  }

  close(): void {
    this.#isClosed = true;
    this.#stopListening();
    clearInterval(this.#timer);
  }

  /** Reads the stored adapters. Resolves when every adapter of a loaded model is in memory or has failed to load. */
  async #follow(): Promise<void> {
    await this.#read();
    await Promise.all(this.#loading);
  }

  /** The adapters are read by one call at a time, so that an earlier result never replaces a later one. */
  #read(): Promise<void> {
    return (this.#reading = this.#reading.then(async () => {
      try {
        const rows = await this.options.store.all();
        if (!this.#isClosed) this.#become(rows);
        this.#isFailing = false;
      } catch (err) {
        if (!this.#isFailing) this.options.log.error({ err }, 'cannot read the adapters that operators have loaded');
        this.#isFailing = true;
      }
    }));
  }

  #become(rows: ReadonlyMap<string, AdapterRow>): void {
    const { pool, log } = this.options;
    for (const [id, row] of [...this.#served]) {
      if (rows.get(id)?.addedAt === row.addedAt && pool.get(id)?.model.adapter !== undefined) continue;
      this.#served.delete(id);
      log.info({ model: row.base, adapter: id }, `adapter ${id} unloaded`);
      pool.removeAdapter(id);
    }
    for (const id of this.#reported.keys()) if (!rows.has(id)) this.#reported.delete(id);
    // Oldest first: if several adapters share a short name, the name refers to the adapter that was added first.
    const sorted = [...rows].sort(([, a], [, b]) => (a.addedAt < b.addedAt ? -1 : a.addedAt > b.addedAt ? 1 : 0));
    for (const [id, row] of sorted) if (!this.#served.has(id)) this.#add(id, row);
  }

  #add(id: string, row: AdapterRow): void {
    const { pool, log, folder, isUnloaded, onServed } = this.options;
    const base = pool.get(row.base)?.model;
    const found = adapterPath(row.path, folder);
    const problem =
      base === undefined
        ? `its model ${row.base} is not served`
        : base.upstream !== undefined
          ? `its model ${row.base} is an upstream model`
          : pool.get(id) !== undefined
            ? 'a model has its name'
            : 'problem' in found
              ? found.problem
              : null;
    if (base === undefined || problem !== null) {
      if (this.#reported.get(id) !== problem)
        log.warn({ adapter: id, path: row.path, reason: problem }, `adapter ${id} is not served: ${problem}`);
      this.#reported.set(id, problem ?? '');
      return;
    }
    this.#reported.delete(id);
    this.#served.set(id, row);
    const loading = pool
      .addAdapter(adapterModel(base, { ...row, setting: null }), !isUnloaded(id))
      .finally(() => this.#loading.delete(loading));
    this.#loading.add(loading);
    onServed(id);
    log.info({ model: row.base, adapter: id, path: row.path, scale: row.scale }, `adapter ${id} added`);
  }
}

/** Loads the adapter into a running engine. Rejects with an ApiError that contains the engine's error message. */
async function tryLoad(
  engine: Engine,
  path: string,
  options: { name: string; scale: number },
): ReturnType<Engine['loadAdapter']> {
  try {
    return await engine.loadAdapter(path, options);
  } catch (error) {
    const message = error instanceof Error ? error.message : String(error);
    throw wrong('lora_path', `The LoRA adapter cannot be loaded: ${message}.`);
  }
}

const wrong = (field: string, message: string): Error => apiError('invalid_value', `${field}: ${message}`, field);
