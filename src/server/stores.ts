// Interfaces of the persistent stores. They live in the data directory (lmdb-stores.ts) or in the shared database
// (postgres-stores.ts). Machine-local data is in the data directory in both cases.

import type { SweptDirectory } from '../accounts/directory.js';
import type { KeyCachePolicy } from '../accounts/key-cache.js';
import type { SettingsLeases } from '../dashboard/admin/settings-leases.js';
import type { AdapterStore } from '../dashboard/admin/adapter-store.js';
import type { EngineSettingsStore } from '../dashboard/admin/engine-settings-store.js';
import type { LiveHistory } from '../dashboard/admin/live-history.js';
import type { ModelSettingsStore } from '../dashboard/admin/model-settings-store.js';
import type { PromptPinStore } from '../dashboard/admin/prompt-pin-store.js';
import type { ServedModelStore } from '../dashboard/admin/served-model-store.js';
import type { TuneRunStore } from '../dashboard/admin/tune-runs.js';
import type { RequestLog } from '../usage/requests/request-log.js';
import type { SavedStore } from '../dashboard/saved/saved-store.js';
import type { OrganizationKeyStore } from '../accounts/sealing/organization-key-store.js';
import type { SealerState } from '../accounts/sealing/sealer-state.js';
import type { BudgetStore } from '../usage/budget-store.js';
import type { PriceStore } from '../usage/price-store.js';
import type { UsageStore } from '../usage/usage-store.js';

/** Stores that several servers may share. */
export interface SharableStores {
  readonly directory: SweptDirectory;
  /**
   * Determines how long cached keys may be trusted; null if this process is not notified of changes by other
   * processes.
   */
  readonly keyCachePolicy: KeyCachePolicy | null;
  readonly usage: UsageStore;
  readonly requests: RequestLog;
  readonly saved: SavedStore;
  readonly prices: PriceStore;
  readonly budgets: BudgetStore;
  readonly modelSettings: ModelSettingsStore;
  readonly engineSettings: EngineSettingsStore;
  readonly served: ServedModelStore;
  readonly adapters: AdapterStore;
  readonly sealer: SealerState;
  readonly organizationKeys: OrganizationKeyStore;
}

/** Stores of this machine only. */
export interface OwnStores {
  readonly holds: SettingsLeases;
  readonly tuneRuns: TuneRunStore;
  readonly history: LiveHistory;
  readonly promptPins: PromptPinStore;
}
