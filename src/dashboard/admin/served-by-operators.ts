// Models that operators have served while the server runs, in this thread's pool. Each thread reads what is declared when it
// is told of a change, and once a second for what other processes wrote (monolith models serve); it loads nothing by itself:
// each is loaded when it is first asked for. What runs under a name that is taken away ends by itself.

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
  /** Names that the settings have: these go before. */
  readonly taken: ReadonlySet<string>;
  /** What runs under a name that is taken away gets this long. */
  readonly graceMs: number;
  /** Whether an operator has given the name's memory back. */
  isUnloaded(name: string): boolean;
  /** A name is served from now on. */
  onServed(name: string): void;
  readonly readMs?: number;
}

export class ServedByOperators {
  readonly #served = new Map<string, ServedModelRow>();
  readonly #hidden = new Set<string>(); // the log has been told that the settings have these names
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

  /** With all that is declared in the pool. */
  static async open(options: ServedByOperatorsOptions): Promise<ServedByOperators> {
    const served = new ServedByOperators(options);
    await served.#read();
    return served;
  }

  /** What it was made of, as OWNER/REPO:QUANTIZATION; null: it is a model of the settings. */
  sourceOf(name: string): string | null {
    return this.#served.get(name)?.source ?? null;
  }

  /** Served on every thread when this resolves. Rejects as serveFetched() does. */
  async serve(
    wish: ServeWish,
    from: Pick<ServeFrom, 'fileFacts' | 'memory'>,
    actor: AuditNote['actor'],
  ): Promise<void> {
    const { store, hub, taken, bus } = this.options;
    await serveFetched(wish, { ...from, store, hub, taken }, actor);
    await Promise.all([this.#read(), bus.ask('operator.changed', {})]);
  }

  /** Unknown to every thread when this resolves; what runs goes on. Resolves to whether it was one of these. */
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

  /** One after the other, so that what was declared last is what holds. */
  #read(): Promise<void> {
    return (this.#reading = this.#reading.then(async () => {
      try {
        const rows = await this.options.store.all();
        if (!this.#closed) this.#become(rows);
        this.#failing = false;
      } catch (err) {
        if (!this.#failing) this.options.log.error({ err }, 'which models operators have served cannot be read now');
        this.#failing = true;
      }
    }));
  }

  #become(rows: ReadonlyMap<string, ServedModelRow>): void {
    const { pool, taken, log, graceMs } = this.options;
    for (const [name, row] of [...this.#served]) {
      if (rows.get(name)?.addedAt === row.addedAt) continue;
      this.#served.delete(name);
      log.info({ model: name, source: row.source }, `${name} is served no more`);
      pool.leave(name, graceMs).catch((err: unknown) => log.error({ err, model: name }, 'a model could not be closed'));
    }
    for (const [name, row] of rows) {
      if (this.#served.has(name)) continue;
      if (taken.has(name)) {
        if (!this.#hidden.has(name))
          log.warn(
            { model: name, source: row.source },
            `the settings name a model ${name}: what operators have served under this name is not`,
          );
        this.#hidden.add(name);
        continue;
      }
      pool.add(this.#modelOf(name, row), !this.options.isUnloaded(name));
      this.#served.set(name, row);
      this.options.onServed(name);
      log.info({ model: name, source: row.source }, `${name} is served, and loaded when it is asked for`);
    }
  }

  /** Of weights that are gone, too: loading says so. */
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
