// Responses stored in the database that several servers share, and the bus that carries messages about them. For
// responses in the data directory, see lmdb-responses.ts.

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
import type { DisposableStack } from './disposable-stack.js';

/** Interval between checks for unfinished background responses of lost processes. */
const LOOK_MS = 2_500;

export interface Responses {
  readonly responses: ResponseStore;
  /** The bus to all threads and processes that serve these responses. */
  readonly bus: ThreadBus;
  /**
   * Calls `end` periodically if other processes may have left unfinished background responses. Calls never overlap.
   * Returns a function that stops the calls and waits for the current one to finish.
   */
  watch(end: () => Promise<void>): () => void | Promise<void>;
  /** This thread's lease; null if no other process shares the responses. */
  readonly lease: ProcessLease | null;
  /** Null if no other machine's clock is known. */
  skew(): ClockSkew | null;
}

export interface Opening {
  gate: EraseGate;
  bus: ThreadBus;
  settings: Config['responses'];
  primary: boolean;
  log: Log;
  undo: DisposableStack;
}

/**
 * Rejects with ApiError 503 if the database has become unreachable, and with StorageError if its schema no longer
 * matches this release.
 */
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
      // All leases expire while the database is unreachable. The first process to reconnect must not end responses that
      // other processes are still generating, so it waits until leases are reliable again.
      if (ending !== null || !lease.isSteady) return;
      ending = end()
        .catch((err: unknown) => log.error({ err }, "cannot mark a lost process's responses as failed"))
        .finally(() => {
          ending = null;
        });
    }, LOOK_MS).unref();
    return async () => {
      clearInterval(timer);
      await ending;
    };
  };
  return { responses, bus, watch, lease, skew: () => lease.skew };
}
