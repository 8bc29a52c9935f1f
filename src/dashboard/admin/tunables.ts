// Operator routes for engine settings that can be changed at run time. A null value restores the configured value. A
// lease applies trial settings, which expire and are not stored.

import type { EngineTunablesPatch } from '../../shared/wire/tunables.js';
import type { Route } from '../../http/exchange.js';
import { holdBody, tunablesPatch } from './engine-tuning.js';
import type { OperatorGuard } from './operator-guard.js';
import type { EngineTuning } from './engine-tuning.js';

export interface TunableDeps {
  tuning: EngineTuning;
}

export function tunableRoutes(guard: OperatorGuard, { tuning }: TunableDeps): Route[] {
  return [
    guard({
      method: 'GET',
      path: '/tunables',
      handler: async ({ exchange }) =>
        exchange.json(200, { object: 'list', data: await tuning.list(), has_more: false, next: null }),
    }),

    guard({
      method: 'GET',
      path: '/tunables/:model',
      handler: async ({ exchange }) => exchange.json(200, await tuning.get(exchange.params['model'] as string)),
    }),

    guard({
      method: 'PATCH',
      path: '/tunables/:model',
      body: tunablesPatch,
      handler: async ({ exchange, actor, body }) => {
        const changes = Object.fromEntries(
          Object.entries(body).filter(([, value]) => value !== undefined),
        ) as EngineTunablesPatch;
        exchange.json(200, await tuning.change(exchange.params['model'] as string, changes, actor));
      },
    }),

    guard({
      method: 'PUT',
      path: '/tunables/:model/hold',
      body: holdBody,
      handler: async ({ exchange, body }) =>
        exchange.json(200, await tuning.hold(exchange.params['model'] as string, body)),
    }),

    guard({
      method: 'DELETE',
      path: '/tunables/:model/hold',
      handler: async ({ exchange }) =>
        exchange.json(200, await tuning.release(exchange.params['model'] as string, exchange.query.get('id') ?? '')),
    }),
  ];
}
