// Connects the clock guard to one process's sweeps and to its log.

import type { ErasureHold } from '../shared/erasure-hold.js';
import { ClockGuard } from '../storage/clock-guard.js';
import type { ClockRecords } from '../storage/clock-guard.js';
import { OPEN_GATE } from '../storage/erase-gate.js';
import type { EraseGate } from '../storage/erase-gate.js';
import type { Log } from '../telemetry/types.js';
import type { UndoStack } from './undo-stack.js';

export interface GuardOpening {
  records: ClockRecords;
  hold: ErasureHold;
  primary: boolean;
  log: Log;
  undo: UndoStack;
}

/** Only the primary thread sweeps, so the others need no guard. */
export async function openClockGuard({ records, hold, primary, log, undo }: GuardOpening): Promise<EraseGate> {
  if (!primary) return OPEN_GATE;
  const guard = await ClockGuard.open(records, {
    hold,
    onHeld: (held) => {
      if (held === null) log.info({}, 'the clock is trusted again: what is past its time is erased');
      else
        log.error(
          { ahead_hours: Math.round(held.aheadMs / 360_000) / 10, last_trusted: held.stored.toISOString() },
          'the clock is more than a day ahead of the last stored time: nothing is erased until six more hours have run; if the clock is right, run "monolith data sweep --confirm"',
        );
    },
    onError: (err) => log.error({ err }, 'the wall clock cannot be stored now; it is tried again'),
  });
  undo.add(() => guard.close());
  return guard;
}
