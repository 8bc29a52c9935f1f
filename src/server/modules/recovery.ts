// Ends background responses that no thread generates any longer: at startup, responses of the previous process; later,
// responses of lost processes and HTTP workers.

import { endUnfinished } from '../lost-thread.js';
import type { IsRunning } from '../lost-thread.js';
import { openModule } from '../module.js';
import type { AppContext, Module } from '../module.js';
import type { Background } from './background.js';
import type { Storage } from './storage.js';
import type { Recorders } from './recorders.js';

export interface Recovery extends Module {
  /** Counts the tokens of unfinished responses (see ResponseStore) and notifies the clients that follow them. */
  failUnfinished(isRunning?: IsRunning): Promise<void>;
}

export interface RecoveryContext extends AppContext {
  storage: Storage;
  recorders: Recorders;
  background: Background;
}

export function openRecovery({
  primary,
  storage: { responses, bus, watch },
  recorders: { usage },
  background: { background },
}: RecoveryContext): Promise<Recovery> {
  return openModule(async (undo) => {
    const failUnfinished: Recovery['failUnfinished'] = (isRunning) => endUnfinished(responses, usage, bus, isRunning);
    if (primary) {
      await failUnfinished();
      undo.add(watch(() => failUnfinished((_, id) => background.find(id) !== null)));
    }
    return { failUnfinished };
  });
}
