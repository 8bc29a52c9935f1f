// The limits for organizations and API keys, counted in shared memory or in Redis.

import type { Admission } from '../../admission/admission.js';
import { ledgerOf } from '../../admission/counter-memory.js';
import { openAdmission } from '../../admission/open-admission.js';
import { logCountersEvent } from '../counters-log.js';
import { openModule } from '../module.js';
import type { AppContext, Module } from '../module.js';
import type { Storage } from './storage.js';

export interface Limits extends Module {
  readonly admission: Admission;
}

export function openLimits({
  config,
  telemetry,
  shared,
  storage: { usage, bus },
}: AppContext & { storage: Storage }): Promise<Limits> {
  return openModule(async (undo) => {
    const admission = await openAdmission(config, {
      process: shared.process,
      thread: bus.index,
      report: (news) => logCountersEvent(news, telemetry.log),
      called: (call, outcome, seconds) => telemetry.countersCalled(call, outcome, seconds),
      storedMonth: async (organizationId, month) => (await usage.monthTokens([organizationId], month))[0] ?? 0,
      buffer: shared.counters,
      ...(bus.index > 0 ? { ledger: ledgerOf(shared.ledgers, bus.index) } : {}),
    });
    undo.add(() => admission.close());
    telemetry.observeCounters(() => admission.health());
    return { admission, health: () => ({ counters: admission.health() }) };
  });
}
