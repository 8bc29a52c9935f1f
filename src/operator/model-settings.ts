// What operators decided of models while the server runs: how and when their names end, and whether they are
// loaded. Owns the table `model-settings`, keyed by model; it goes before the settings and the catalog. Each
// thread reads it again when told of a change, and once a second for what other processes wrote.

import type { CatalogModel } from '../engine/catalog.js';
import { type DeclaredLifecycle, type LifecycleState } from '../generation/model-lifecycle.js';
import type { Store, Table } from '../storage/store.js';
import type { ThreadBus } from '../shared/bus.js';

/** Undefined: as the catalog and the settings have it. */
export interface ModelRow {
  lifecycle?: LifecycleState | undefined;
  deprecatedAt?: string | null | undefined;
  retiresAt?: string | null | undefined;
  successor?: string | null | undefined;
  /** Its memory was given back: it answers 503 until it is loaded again. */
  unloaded?: boolean | undefined;
}

const READ_MS = 1_000;

export class ModelSettings {
  private readonly table: Table<ModelRow>;
  private rows = new Map<string, ModelRow>();
  private readAt = -Infinity;
  private readonly listeners = new Set<() => void>();
  private readonly stopListening: () => void;

  constructor(private readonly store: Store, private readonly bus: ThreadBus) {
    this.table = store.table('model-settings');
    this.stopListening = bus.on('operator.changed', () => this.forget());
  }

  row(model: string): ModelRow {
    const now = performance.now();
    if (now - this.readAt > READ_MS) {
      this.rows = new Map([...this.table.range()].map(({ key, value }) => [key as string, value]));
      this.readAt = now;
    }
    return this.rows.get(model) ?? {};
  }

  /** What is declared of a model, whoever did. */
  declared(model: CatalogModel): DeclaredLifecycle {
    return merged(model, this.row(model.id));
  }

  /** Undefined fields stay as they are. `check` may throw: then nothing is changed. */
  async change(model: CatalogModel, change: ModelRow, check: (declared: DeclaredLifecycle) => void): Promise<void> {
    await this.store.transaction(() => {
      const before = this.table.get(model.id) ?? {};
      const next = { ...before, ...Object.fromEntries(Object.entries(change).filter(([, value]) => value !== undefined)) } as ModelRow;
      check(merged(model, next));
      void this.table.put(model.id, next);
    });
    this.forget();
    this.bus.publish('operator.changed', {});
  }

  /** Called after each change that this thread makes or hears of. Returns how to stop. */
  onChanged(listener: () => void): () => void {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  }

  close(): void {
    this.stopListening();
  }

  private forget(): void {
    this.readAt = -Infinity;
    for (const listener of [...this.listeners]) listener();
  }
}

function merged(model: CatalogModel, row: ModelRow): DeclaredLifecycle {
  return {
    lifecycle: row.lifecycle ?? model.lifecycle,
    deprecated_at: row.deprecatedAt === undefined ? model.deprecated_at : row.deprecatedAt,
    retires_at: row.retiresAt === undefined ? model.retires_at : row.retiresAt,
    successor: row.successor === undefined ? model.successor : row.successor,
  };
}
