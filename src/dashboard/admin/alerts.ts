// Operator routes for alerts: current state, history, and test alerts.

import { z } from 'zod';
import type { Route } from '../../http/exchange.js';
import { apiError } from '../../shared/errors.js';
import type { AlertState, AlertTest } from '../../shared/wire/alerts.js';
import type { NoteOperation, OperatorGuard } from './operator-guard.js';

const testBody = z.object({ destination: z.string().min(1).max(64) });

export interface AlertDeps {
  alerts: {
    state(): Promise<AlertState>;
    has(destination: string): boolean;
    test(destination: string): Promise<AlertTest>;
  };
  note: NoteOperation;
}

export function alertRoutes(guard: OperatorGuard, { alerts, note }: AlertDeps): Route[] {
  return [
    guard({
      method: 'GET',
      path: '/alerts',
      handler: async ({ exchange }) => exchange.json(200, await alerts.state()),
    }),

    guard({
      method: 'POST',
      path: '/alerts/test',
      body: testBody,
      handler: async ({ exchange, actor, body: { destination } }) => {
        if (!alerts.has(destination))
          throw apiError(
            'resource_not_found',
            `There is no destination ${destination}. GET /alerts lists the destinations.`,
            'destination',
          );
        await note(actor, 'alert.tested', destination);
        exchange.json(200, await alerts.test(destination));
      },
    }),
  ];
}
