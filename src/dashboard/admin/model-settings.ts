// What operators decided of models while the server runs: how and when their names end, and whether they are
// loaded. It goes before the settings and the catalog. Each thread keeps what it has read, and reads again when told
// of a change, and once a second for what other processes wrote.

import type { AuditNote } from '../../accounts/audit.js';
import type { CatalogModel } from '../../engine/catalog.js';
import type { DeclaredLifecycle } from '../../generation/model-lifecycle.js';
import type { ThreadBus } from '../../shared/bus.js';
import type { ModelRow, ModelSettingsStore } from './model-settings-store.js';

const READ_MS = 1_000;

export class ModelSettings {
  private rows: ReadonlyMap<string, ModelRow> = new Map();
  private asked = 0; // how often it was read
  private read = 0; // the last one of these that `rows` is from
  private failing = false;
  private readonly listeners = new Set<() => void>();
  private readonly stopListening: () => void;
  private readonly timer: NodeJS.Timeout;

  private constructor(
    private readonly store: ModelSettingsStore,
    private readonly bus: ThreadBus,
    private readonly onError: (error: unknown) => void,
    readMs: number,
  ) {
    this.stopListening = bus.on('operator.changed', () => this.changed());
    this.timer = setInterval(() => void this.readOrTell(), readMs);
    this.timer.unref();
  }

  /** `onError`: what was decided cannot be read now; what was read before holds. Told once until it can. */
  static async open(
    store: ModelSettingsStore,
    bus: ThreadBus,
    onError: (error: unknown) => void,
    readMs = READ_MS,
  ): Promise<ModelSettings> {
    const settings = new ModelSettings(store, bus, onError, readMs);
    try {
      await settings.readAgain();
    } catch (error) {
      settings.close();
      throw error;
    }
    return settings;
  }

  row(model: string): ModelRow {
    return this.rows.get(model) ?? {};
  }

  /** The declarations about a model, whoever made them. */
  declared(model: CatalogModel): DeclaredLifecycle {
    return merged(model, this.row(model.id));
  }

  /** Undefined fields stay as they are. `check` may throw: then nothing is changed. It holds on this thread when this resolves. */
  async change(
    model: CatalogModel,
    change: ModelRow,
    check: (declared: DeclaredLifecycle) => void,
    note: AuditNote,
  ): Promise<void> {
    const decided = Object.fromEntries(Object.entries(change).filter(([, value]) => value !== undefined)) as ModelRow;
    await this.store.change(
      model.id,
      (before) => {
        const next = { ...before, ...decided };
        check(merged(model, next));
        return next;
      },
      note,
    );
    this.bus.publish('operator.changed', {});
    await this.changed();
  }

  /** Called after each change that this thread makes or hears of. Returns how to stop. */
  onChanged(listener: () => void): () => void {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  }

  close(): void {
    this.stopListening();
    clearInterval(this.timer);
  }

  private async changed(): Promise<void> {
    await this.readOrTell();
    for (const listener of [...this.listeners]) listener();
  }

  private async readOrTell(): Promise<void> {
    try {
      await this.readAgain();
      this.failing = false;
    } catch (error) {
      if (!this.failing) this.onError(error);
      this.failing = true;
    }
  }

  private async readAgain(): Promise<void> {
    const at = ++this.asked;
    const rows = await this.store.all();
    if (at < this.read) return; // what was read later is there already
    this.read = at;
    this.rows = rows;
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
