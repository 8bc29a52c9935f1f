// Batches of requests: the routes of both APIs, and the batch runner, which exists only on the primary thread.

import { EventLoopBudget } from '../../admission/event-loop-budget.js';
import type { Route } from '../../http/exchange.js';
import { BatchRunner } from '../../protocol/batches/batch-runner.js';
import { BATCH_ENDPOINTS, MESSAGES_ENDPOINT } from '../../protocol/batches/endpoints.js';
import { messageBatchRoutes } from '../../protocol/batches/messages-routes.js';
import { batchRoutes } from '../../protocol/batches/openai-routes.js';
import { rejectionOf } from '../../usage/rejections.js';
import { unadmittedEntry } from '../../usage/requests/unadmitted.js';
import { openModule } from '../module.js';
import type { AppContext, Module } from '../module.js';
import type { Authentication } from './authentication.js';
import type { Background } from './background.js';
import type { Engines } from './engines.js';
import type { Generation } from './generation.js';
import type { Models } from './models.js';
import type { Recorders } from './recorders.js';
import type { Storage } from './storage.js';

export interface Batches extends Module {
  /** Stops starting batch requests, and stops and releases the running ones. */
  drain(): void;
  /** Notifies this thread's batch runner, if there is one, that there may be work. */
  wake(): void;
}

export interface BatchesContext extends AppContext {
  storage: Storage;
  recorders: Recorders;
  background: Background;
  authentication: Authentication;
  engines: Engines;
  models: Models;
  generation: Generation;
}

const ENDPOINTS = [...BATCH_ENDPOINTS, MESSAGES_ENDPOINT];
const DAY_S = 86_400;

/** Returns the number of interactive requests in the queues of all loaded engines. */
const waitingIn = (pool: Engines['pool']): number =>
  pool
    .engines()
    .reduce((sum, { status }) => sum + (status.state === 'ready' ? status.engine.waitingInForeground() : 0), 0);

export function openBatches({
  config,
  telemetry,
  primary,
  shutdown,
  storage: { batches, files, directory },
  recorders: { usage, requests },
  background: { events },
  authentication: { accounts },
  engines: { pool },
  models: { models },
  generation: { routes, sharedWork },
}: BatchesContext): Promise<Batches> {
  return openModule((undo) => {
    const { now } = directory;
    const byPath = new Map<string, Route>(
      (routes ?? [])
        .filter(({ method, path }) => method === 'POST' && ENDPOINTS.includes(path))
        .map((route) => [route.path, route]),
    );
    const paths = new Map(ENDPOINTS.map((path) => [path, path]));
    const runner = primary
      ? new BatchRunner({
          batches,
          files,
          models,
          routes: byPath,
          identityOf: (organizationId, keyId) => accounts.identityOf(organizationId, keyId),
          work: sharedWork,
          loopTime: new EventLoopBudget(config.limits.event_loop_ms),
          finished: (record) => {
            telemetry.request(record);
            const rejection = rejectionOf(record, paths);
            if (rejection !== null) usage.rejected(rejection);
            const entry = unadmittedEntry(record, paths);
            if (entry !== null) requests.add(entry);
          },
          log: telemetry.log,
          leaseMs: config.batches.lease_s * 1_000,
          concurrency: config.batches.concurrency,
          waiting: () => waitingIn(pool),
          report: (counts) => telemetry.batchLines(counts),
          isOpen: () => !shutdown.unready && !shutdown.draining,
          maxLines: config.batches.max_lines,
          maxLineBytes: config.http.max_body_bytes,
          outputS: config.batches.retention_days * DAY_S,
          ended: (id) => events.ended(id),
          now,
        })
      : null;
    undo.add(() => runner?.close());
    void runner?.takeOver().catch(() => undefined); // if this fails, the leases of earlier processes expire
    const wake = (): void => runner?.wake();
    const deps = {
      batches,
      files,
      settings: config.batches,
      now,
      expectEnd: (organizationId: string, id: string) => events.expectBatch(organizationId, id),
      wake,
    };
    return { routes: [...batchRoutes(deps), ...messageBatchRoutes(deps)], drain: () => runner?.drain(), wake };
  });
}
