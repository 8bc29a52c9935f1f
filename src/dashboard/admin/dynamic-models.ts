// Models that operators serve at run time, in this thread's pool. Each thread reads the declarations when it is
// notified of a change, and once per second to pick up changes by other processes (monolith models serve). Reading does
// not load a model; its first request does. Requests that are running when a name is removed finish normally.

import { existsSync } from 'node:fs';
import type { AuditNote } from '../../accounts/audit.js';
import { modelOfFile, PLAIN_SAMPLING } from '../../engine/catalog.js';
import type { CatalogModel } from '../../engine/catalog.js';
import type { ModelPool } from '../../engine/model-pool.js';
import { parseModelRef } from '../../hub/model-ref.js';
import type { ModelRef } from '../../hub/model-ref.js';
import type { Pulled } from '../../hub/pull.js';
import type { ThreadBus } from '../../shared/bus.js';
import type { Log } from '../../telemetry/types.js';
import { serveFetched } from './serve-fetched.js';
import type { ServeFrom, ServeWish } from './serve-fetched.js';
import type { ServedModelRow, ServedModelStore } from './served-model-store.js';

const READ_MS = 1_000;

export interface ServedByOperatorsOptions {
  readonly store: ServedModelStore;
  readonly pool: ModelPool;
  readonly hub: { cached(ref: ModelRef): Pulled | null };
  readonly bus: ThreadBus;
  readonly log: Log;
  /** Configured names, which take precedence. */
  readonly taken: ReadonlySet<string>;
  /** How long running requests may continue after their model's name has been removed. */
  readonly graceMs: number;
  /** Whether an operator has unloaded the model. */
  isUnloaded(name: string): boolean;
  /** Called when a name becomes available. */
  onServed(name: string): void;
  readonly readMs?: number;
}

export class DynamicModels {
  readonly #served = new Map<string, ServedModelRow>();
  readonly #hidden = new Set<string>(); // names already logged as overridden
  readonly #timer: NodeJS.Timeout;
  readonly #stopListening: () => void;
  #reading: Promise<void> = Promise.resolve();
  #failing = false;
  #closed = false;

  private constructor(private readonly options: ServedByOperatorsOptions) {
    this.#stopListening = options.bus.on('operator.changed', () => this.#read());
    this.#timer = setInterval(() => void this.#read(), options.readMs ?? READ_MS);
    this.#timer.unref();
  }

  /** Resolves when all declared models are in the pool. */
  static async open(options: ServedByOperatorsOptions): Promise<DynamicModels> {
    const served = new DynamicModels(options);
    await served.#read();
    return served;
  }

  /** A model's source as OWNER/REPO:QUANTIZATION; null for a configured model. */
  sourceOf(name: string): string | null {
    return this.#served.get(name)?.source ?? null;
  }

  /** Resolves when every thread serves the model. Rejects with the errors of serveFetched(). */
  async serve(
    request: ServeWish,
    from: Pick<ServeFrom, 'fileFacts' | 'memory'>,
    actor: AuditNote['actor'],
  ): Promise<void> {
    const { store, hub, pool, bus } = this.options;
    const taken = new Set([...this.options.taken, ...pool.adapters().map(({ model }) => model.id)]);
    await serveFetched(request, { ...from, store, hub, taken }, actor);
    await Promise.all([this.#read(), bus.ask('operator.changed', {})]);
  }

  /**
   * Resolves when every thread has removed the model, with true if an operator had added the name. Running requests
   * continue.
   */
  async unserve(name: string, actor: AuditNote['actor']): Promise<boolean> {
    const { store, bus } = this.options;
    const source = this.sourceOf(name);
    const was = await store.remove(name, { actor, action: 'model.unserved', detail: { model: source } });
    if (was) await Promise.all([this.#read(), bus.ask('operator.changed', {})]);
    return was;
  }

  close(): void {
    this.#closed = true;
    this.#stopListening();
    clearInterval(this.#timer);
  }

  /** The declarations are read by one call at a time, so that an earlier result never replaces a later one. */
  #read(): Promise<void> {
    return (this.#reading = this.#reading.then(async () => {
      try {
        const rows = await this.options.store.all();
        if (!this.#closed) this.#become(rows);
        this.#failing = false;
      } catch (err) {
        if (!this.#failing) this.options.log.error({ err }, 'cannot read the models that operators serve');
        this.#failing = true;
      }
    }));
  }

  #become(rows: ReadonlyMap<string, ServedModelRow>): void {
    const { pool, taken, log, graceMs } = this.options;
    for (const [name, row] of [...this.#served]) {
      if (rows.get(name)?.addedAt === row.addedAt) continue;
      this.#served.delete(name);
      log.info({ model: name, source: row.source }, `model ${name} removed`);
      pool.leave(name, graceMs).catch((err: unknown) => log.error({ err, model: name }, 'closing a model failed'));
    }
    for (const [name, row] of rows) {
      if (this.#served.has(name)) continue;
      if (taken.has(name) || pool.get(name) !== undefined) {
        if (!this.#hidden.has(name))
          log.warn(
            { model: name, source: row.source },
            taken.has(name)
              ? `model ${name} is configured in the settings; ignoring the model that operators added under this name`
              : `a LoRA adapter is named ${name}; ignoring the model that operators added under this name`,
          );
        this.#hidden.add(name);
        continue;
      }
      pool.add(this.#modelOf(name, row), !this.options.isUnloaded(name));
      this.#served.set(name, row);
      this.options.onServed(name);
      log.info({ model: name, source: row.source }, `model ${name} added, loads on demand`);
    }
  }

  /** Returns a catalog entry even if the model's weights are missing. Loading the model then reports the error. */
  #modelOf(name: string, { source, path, displayName, idleMinutes, addedAt }: ServedModelRow): CatalogModel {
    const file = existsSync(path) ? path : (this.options.hub.cached(parseModelRef(source))?.path ?? path);
    const created = Math.floor(Date.parse(addedAt) / 1000);
    return { ...modelAt(name, file), created, display_name: displayName, load: 'demand', idle_minutes: idleMinutes };
  }
}

function modelAt(name: string, file: string): CatalogModel {
  try {
    return modelOfFile(name, file);
  } catch {
    return {
      id: name,
      file,
      display_name: name,
      created: 0,
      lifecycle: 'active',
      context_window: null,
      max_output_tokens: null,
      input_modalities: ['text'],
      image_input: 'refuse',
      default_effort: 'medium',
      sampling: PLAIN_SAMPLING,
    };
  }
}
