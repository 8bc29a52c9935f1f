// Stores in the data folder: all of them for a server of its own, and for each what is of its machine: who tries settings
// on its engines, tuning runs, and the live view's past.

import type { AccountChanges } from '../accounts/changes.js';
import { LmdbDirectory } from '../accounts/lmdb-directory.js';
import { LmdbEngineHolds } from '../operator/lmdb-engine-holds.js';
import { LmdbEngineSettings } from '../operator/lmdb-engine-settings.js';
import { LmdbLiveHistory } from '../operator/lmdb-live-history.js';
import { LmdbModelSettings } from '../operator/lmdb-model-settings.js';
import { LmdbServedModels } from '../operator/lmdb-served-models.js';
import { LmdbTuneRuns } from '../operator/lmdb-tune-runs.js';
import { LmdbRequestLog } from '../requests/lmdb-request-log.js';
import { LmdbSavedStore } from '../saved/lmdb-saved-store.js';
import { LmdbSealerState } from '../sealing/lmdb-sealer-state.js';
import type { EraseGate } from '../storage/erase-gate.js';
import type { Store } from '../storage/store.js';
import { LmdbBudgetStore } from '../usage/lmdb-budget-store.js';
import { LmdbPriceStore } from '../usage/lmdb-price-store.js';
import { LmdbUsageStore } from '../usage/lmdb-usage-store.js';
import type { UndoStack } from './undo-stack.js';
import type { OwnStores, SharableStores } from './stores.js';

/** `gate`: whether the live view's past may be erased. */
export const ownStores = (store: Store, gate: EraseGate): OwnStores => ({
  holds: new LmdbEngineHolds(store),
  tuneRuns: new LmdbTuneRuns(store),
  history: new LmdbLiveHistory(store, gate),
});

/** In the data folder. */
export function folderStores(store: Store, changes: AccountChanges, undo: UndoStack): SharableStores {
  const directory = new LmdbDirectory(store, changes);
  undo.add(() => directory.close());
  const { audit } = directory;
  return {
    directory,
    trust: null,
    usage: new LmdbUsageStore(store),
    requests: new LmdbRequestLog(store),
    saved: new LmdbSavedStore(store),
    prices: new LmdbPriceStore(store, audit),
    budgets: new LmdbBudgetStore(store, audit),
    modelSettings: new LmdbModelSettings(store, audit),
    engineSettings: new LmdbEngineSettings(store, audit),
    served: new LmdbServedModels(store, audit),
    sealer: new LmdbSealerState(store),
  };
}
