// Model settings that operators change at run time: lifecycle and dates, and whether the model is loaded. They override
// the configuration and the catalog. Each thread caches them. It reads them again when it is notified of a change, and
// once per second to pick up changes by other processes.

import type { AuditNote } from '../../accounts/audit.js';
import type { CatalogModel } from '../../engine/catalog.js';
import type { DeclaredDeprecation } from '../../generation/model-deprecation.js';
import type { ThreadBus } from '../../shared/bus.js';
import type { ModelRow, ModelSettingsStore } from './model-settings-store.js';

const READ_MS = 1_000;

export class ModelSettings {
  private rows: ReadonlyMap<string, ModelRow> = new Map();
  private asked = 0; // number of reads started
  private read = 0; // number of the read from which `rows` comes
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

  /** `onError`: called once when the settings become unreadable. The last settings that were read stay in effect. */
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

  /** The model's lifecycle, merged from all sources. */
  declared(model: CatalogModel): DeclaredDeprecation {
    return merged(model, this.row(model.id));
  }

  /**
   * Undefined fields keep their value. If `check` throws, nothing changes. Resolves when the change is in effect on
   * this thread.
   */
  async change(
    model: CatalogModel,
    change: ModelRow,
    check: (declared: DeclaredDeprecation) => void,
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

  /**
   * Calls the listener after each change that this thread makes or is notified of. Returns a function that unsubscribes
   * it.
   */
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
    if (at < this.read) return; // a newer read has already completed
    this.read = at;
    this.rows = rows;
  }
}

function merged(model: CatalogModel, row: ModelRow): DeclaredDeprecation {
  return {
    lifecycle: row.lifecycle ?? model.lifecycle,
    deprecated_at: row.deprecatedAt === undefined ? model.deprecated_at : row.deprecatedAt,
    retires_at: row.retiresAt === undefined ? model.retires_at : row.retiresAt,
    successor: row.successor === undefined ? model.successor : row.successor,
  };
}
