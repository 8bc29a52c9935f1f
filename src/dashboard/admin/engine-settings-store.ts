// What operators changed of engines, as it is kept: a port, see docs/internals/storage.md. An engine is known by the first of its
// names.

import type { AuditNote } from '../../accounts/audit.js';
import type { TunableName } from '../../shared/wire/dashboard.js';

export type EngineValues = Readonly<Partial<Record<TunableName, number>>>;

/** Null: as the settings have it. Undefined: stays as it is. */
export type EngineChange = Readonly<Partial<Record<TunableName, number | null | undefined>>>;

export interface EngineSettingsStore {
  all(): Promise<ReadonlyMap<string, EngineValues>>;
  get(engine: string): Promise<EngineValues>;
  /** Resolves to what holds then. What the audit log says stands or falls with it; null: it says nothing. */
  change(engine: string, change: EngineChange, note: AuditNote | null): Promise<EngineValues>;
}

/** What holds after a change. */
export const changedValues = (before: EngineValues, change: EngineChange): EngineValues =>
  Object.fromEntries(Object.entries({ ...before, ...defined(change) }).filter(([, value]) => value !== null));

const defined = (change: EngineChange): EngineChange =>
  Object.fromEntries(Object.entries(change).filter(([, value]) => value !== undefined));
