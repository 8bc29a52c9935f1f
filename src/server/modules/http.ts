// The HTTP server, with the routes and health checks of all other modules. It is not listening yet.

import { HttpServer } from '../../http/app.js';
import type { Route } from '../../http/exchange.js';
import { healthRoutes } from '../../http/health-routes.js';
import type { Health } from '../../http/health-routes.js';
import { NO_ORGANIZATION } from '../../shared/request-entry.js';
import { shareOf } from '../../shared/thread-count.js';
import { ThreadStates } from '../../shared/thread-states.js';
import { rejectionOf } from '../../usage/rejections.js';
import { UnknownClientPace } from '../../usage/requests/unknown-client-pace.js';
import { unadmittedEntry } from '../../usage/requests/unadmitted.js';
import { openModule } from '../module.js';
import type { AppContext, Module } from '../module.js';
import type { Authentication } from './authentication.js';
import type { Generation } from './generation.js';
import type { Limits } from './limits.js';
import type { Live } from './live.js';
import type { Recorders } from './recorders.js';

export interface Http extends Module {
  readonly http: HttpServer;
}

export interface HttpContext extends AppContext {
  /** All other modules, in opening order, which is also the order in which their routes are matched. */
  modules: readonly Module[];
  recorders: Recorders;
  authentication: Authentication;
  limits: Limits;
  live: Live;
  generation: Pick<Generation, 'requestMemory' | 'sharedWork'>;
}

export function openHttp({
  config,
  telemetry,
  shared,
  shutdown,
  modules,
  recorders: { usage, requests },
  authentication: { accounts, readers },
  limits: { admission },
  live: { live },
  generation: { requestMemory, sharedWork },
}: HttpContext): Promise<Http> {
  return openModule((undo) => {
    const states = new ThreadStates(shared.threads);
    const health = (): Health =>
      modules.reduce<Health>((all, module) => ({ ...all, ...module.health?.() }), {
        draining: shutdown.unready,
        threads: states.list(),
        models: [],
      });
    const routes: Route[] = [
      ...healthRoutes({
        health,
        telemetry,
        stallMs: config.engine.stall_ms,
        metricsPublic: config.metrics.public,
        readers,
      }),
      ...modules.flatMap((module) => module.routes ?? []),
    ];
    const generating = new Map(
      routes.filter((route) => route.generates === true).map(({ path, countedAs }) => [path, countedAs ?? path]),
    );
    const listed = new Map(
      routes
        .filter(({ public: open, generates, path }) => open !== true || generates === true || path.startsWith('/v1/'))
        .map(({ path, countedAs }) => [path, countedAs ?? path]),
    );
    const unknownClients = new UnknownClientPace(shareOf);
    const refusedKeys = new UnknownClientPace(shareOf); // a revoked key may be public
    const http = new HttpServer({
      config,
      telemetry,
      authenticate: (key, from) => accounts.authenticate(key, from),
      reads: (identity) => admission.read(identity),
      connect: (organizationId, limit) => admission.connect(organizationId, limit),
      finished: (record) => {
        const rejection = rejectionOf(record, generating);
        if (rejection !== null) usage.rejected(rejection);
        const entry = unadmittedEntry(record, listed);
        if (entry === null) return;
        const pace =
          entry.organizationId === NO_ORGANIZATION
            ? unknownClients
            : record.organizationId === null
              ? refusedKeys
              : null;
        if (pace === null || pace.take()) requests.add(entry);
      },
      routes,
      requestMemory,
      sharedWork,
      sockets: modules.flatMap((module) => module.sockets ?? []),
    });
    live.begin(() => http.inFlight);
    undo.add(() => {
      live.close(); // viewers are notified before their connections are closed
      http.close();
    });
    return { http };
  });
}
