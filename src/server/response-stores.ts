// Responses stored in the database that several servers share, with the bus that carries what is about them; in the data
// folder: lmdb-responses.ts.

import type { Config } from '../config/settings.js';
import type { ThreadBus } from '../shared/bus.js';
import type { ClockSkew } from '../shared/clock-health.js';
import type { EraseGate } from '../storage/erase-gate.js';
import { openPostgresResponses } from '../storage/postgres/responses/open-response-store.js';
import { ProcessBus } from '../storage/postgres/process-bus.js';
import { stillTaken } from '../storage/postgres/migrations.js';
import { ProcessLease } from '../storage/postgres/process-lease.js';
import type { SharedDatabase } from '../storage/postgres/shared-database.js';
import type { ResponseStore } from '../storage/response-store.js';
import type { Log } from '../telemetry/types.js';
import { SkewLog } from './skew-log.js';
import type { UndoStack } from './undo-stack.js';

/** How often it is looked for background responses of processes that are gone. */
const LOOK_MS = 2_500;

export interface Responses {
  readonly responses: ResponseStore;
  /** To all who answer requests on these responses. */
  readonly bus: ThreadBus;
  /** Calls `end` now and then, where other processes may leave background responses behind. Never both at once. */
  watch(end: () => Promise<void>): void;
  /** Null where no other machine's clock is known. */
  skew(): ClockSkew | null;
}

export interface Opening {
  gate: EraseGate;
  bus: ThreadBus;
  settings: Config['responses'];
  primary: boolean;
  log: Log;
  undo: UndoStack;
}

/** Rejects with ApiError 503 if the database has gone meanwhile, with StorageError if it is no longer for this release. */
export async function databaseResponses(
  shared: SharedDatabase,
  { gate, bus: threads, settings, primary, log, undo }: Opening,
): Promise<Responses> {
  const skewLog = primary ? new SkewLog(log) : null;
  const lease = await ProcessLease.open(shared.database, shared.clock, () => skewLog?.see(lease.skew));
  undo.add(() => lease.close());
  skewLog?.see(lease.skew);
  await stillTaken(shared.database);
  const bus = new ProcessBus(threads, shared, shared.database, lease.id);
  undo.add(() => bus.close());
  const responses = openPostgresResponses(shared.database, lease, settings, {
    gate,
    now: () => shared.clock.now() / 1000,
    sweeps: primary,
    onError: (err) => log.error({ err }, 'sweeping stored responses failed'),
  });
  undo.add(() => responses.close());
  const watch: Responses['watch'] = (end) => {
    let ending: Promise<void> | null = null;
    const timer = setInterval(() => {
      // A database that was away for all has ended all leases: who comes back first must not end what others go on with.
      if (ending !== null || !lease.isSteady) return;
      ending = end()
        .catch((err: unknown) => log.error({ err }, 'responses of a process that is gone could not be marked failed'))
        .finally(() => {
          ending = null;
        });
    }, LOOK_MS).unref();
    undo.add(async () => {
      clearInterval(timer);
      await ending;
    });
  };
  return { responses, bus, watch, skew: () => lease.skew };
}
