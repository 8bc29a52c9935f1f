// Budgets that block requests: the primary thread computes which budgets are spent, and every HTTP worker checks them.

import { BudgetGate } from '../../admission/budget-gate.js';
import type { ThreadBus } from '../../shared/bus.js';
import type { SpentBudgets } from '../../shared/spent-budgets.js';
import { SpentBudgetWatch } from '../../usage/spent-budget-watch.js';
import { openModule } from '../module.js';
import type { AppContext, Module } from '../module.js';
import type { Storage } from './storage.js';

export interface Budgets extends Module {
  readonly budgetGate: BudgetGate;
  /**
   * The spent budgets that block requests; null before they are computed, and on all threads except the primary
   * one.
   */
  spent(): SpentBudgets | null;
}

/** `threads`: the bus of this process. Other processes compute the spent budgets themselves. */
export function openBudgets({
  telemetry: { log },
  primary,
  storage: { budgets, prices, usage, directory, changes },
  threads,
}: AppContext & { storage: Storage; threads: ThreadBus }): Promise<Budgets> {
  return openModule((undo) => {
    const budgetGate = new BudgetGate();
    if (!primary) {
      undo.add(threads.on('budgets.spent', (spent) => budgetGate.update(spent)));
      return { budgetGate, spent: () => null };
    }
    let latest: SpentBudgets | null = null;
    const watch = new SpentBudgetWatch({
      budgets,
      prices,
      usage,
      apiKeys: directory.apiKeys,
      changes,
      publish: (spent) => {
        latest = spent;
        budgetGate.update(spent);
        threads.publish('budgets.spent', spent);
      },
      log,
    });
    undo.add(() => watch.close());
    return { budgetGate, spent: () => latest };
  });
}
