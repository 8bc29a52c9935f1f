// Port for engine settings changed by operators (see docs/internals/storage.md). An engine's key is its first model
// name.

import type { AuditNote } from '../../accounts/audit.js';
import type { TunableName } from '../../shared/wire/tunables.js';

export type EngineValues = Readonly<Partial<Record<TunableName, number>>>;

/** Null restores the configured value; undefined means no change. */
export type EngineChange = Readonly<Partial<Record<TunableName, number | null | undefined>>>;

export interface EngineSettingsStore {
  all(): Promise<ReadonlyMap<string, EngineValues>>;
  get(engine: string): Promise<EngineValues>;
  /** Resolves to the resulting values. Writes the audit entry in the same transaction, unless `note` is null. */
  change(engine: string, change: EngineChange, note: AuditNote | null): Promise<EngineValues>;
}

/** The values after a change. */
export const changedValues = (before: EngineValues, change: EngineChange): EngineValues =>
  Object.fromEntries(Object.entries({ ...before, ...defined(change) }).filter(([, value]) => value !== null));

const defined = (change: EngineChange): EngineChange =>
  Object.fromEntries(Object.entries(change).filter(([, value]) => value !== undefined));
