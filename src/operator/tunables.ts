// Operators and what can be changed of an engine while it runs. Null in a change: back to the settings.

import type { EngineTunablesPatch } from '../wire/dashboard.js';
import type { Route } from '../http/exchange.js';
import { tunablesPatch } from './engine-tuning.js';
import type { OperatorGuard } from './operator-guard.js';
import type { OperatorDeps } from './deps.js';

export function tunableRoutes(guard: OperatorGuard, { tuning }: Pick<OperatorDeps, 'tuning'>): Route[] {
  return [
    guard({
      method: 'GET', path: '/tunables',
      serve: async ({ exchange }) => exchange.json(200, { object: 'list', data: await tuning.list(), has_more: false, next: null }),
    }),

    guard({
      method: 'GET', path: '/tunables/:model',
      serve: async ({ exchange }) => exchange.json(200, await tuning.get(exchange.params['model'] as string)),
    }),

    guard({
      method: 'PATCH', path: '/tunables/:model', body: tunablesPatch,
      serve: async ({ exchange, actor, body }) => {
        const changes = Object.fromEntries(Object.entries(body).filter(([, value]) => value !== undefined)) as EngineTunablesPatch;
        exchange.json(200, await tuning.change(exchange.params['model'] as string, changes, actor));
      },
    }),
  ];
}
