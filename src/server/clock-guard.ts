// Connects the clock guard to a process's retention sweeps and its log.

import type { ErasureHold } from '../shared/erasure-hold.js';
import { ClockGuard } from '../storage/clock-guard.js';
import type { ClockRecords } from '../storage/clock-guard.js';
import { OPEN_GATE } from '../storage/erase-gate.js';
import type { EraseGate } from '../storage/erase-gate.js';
import type { Log } from '../telemetry/types.js';
import type { DisposableStack } from './disposable-stack.js';

export interface GuardOpening {
  records: ClockRecords;
  hold: ErasureHold;
  primary: boolean;
  log: Log;
  undo: DisposableStack;
}

/** Only the primary thread sweeps, so the other threads need no guard. */
export async function openClockGuard({ records, hold, primary, log, undo }: GuardOpening): Promise<EraseGate> {
  if (!primary) return OPEN_GATE;
  const guard = await ClockGuard.open(records, {
    hold,
    onHeld: (held) => {
      if (held === null) log.info({}, 'clock trusted again: erasing expired data');
      else
        log.error(
          { ahead_hours: Math.round(held.aheadMs / 360_000) / 10, last_trusted: held.stored.toISOString() },
          'clock more than a day ahead of the last stored time: deletion of expired data is suspended for six hours of uptime; if the clock is right, run "monolith data sweep --confirm"',
        );
    },
    onError: (err) => log.error({ err }, 'cannot store the wall clock, will retry'),
  });
  undo.add(() => guard.close());
  return guard;
}
