// Operators and models: how and when a name ends, and whether the model is loaded.

import { z } from 'zod';
import type { Actor } from '../accounts/audit.js';
import { dateField } from '../dashboard/api/key-fields.js';
import { describeModels } from '../dashboard/api/models.js';
import type { DashboardModel, OperatorModelPatch } from '../wire/dashboard.js';
import type { CatalogModel } from '../engine/catalog.js';
import { apiError } from '../errors.js';
import { NOTICE_DAYS, type DeclaredLifecycle } from '../generation/model-lifecycle.js';
import type { Route } from '../http/exchange.js';
import type { OperatorGuard } from './operator-guard.js';
import type { OperatorDeps } from './deps.js';

const DAY_MS = 86_400_000;

const patchBody = z.object({
  lifecycle: z.enum(['active', 'deprecated', 'retired']).nullish(),
  deprecated_at: dateField.nullish(), retires_at: dateField.nullish(), successor: z.string().min(1).max(128).nullish(),
}) satisfies z.ZodType<{ [K in keyof OperatorModelPatch]: unknown }>;

export function modelRoutes(guard: OperatorGuard, { pool, models, modelSettings }: Pick<OperatorDeps, 'pool' | 'models' | 'modelSettings'>): Route[] {
  return [
    guard({
      method: 'GET', path: '/models',
      serve: ({ exchange }) => exchange.json(200, { object: 'list', data: describeModels(models, pool), has_more: false, next: null }),
    }),

    guard({
      method: 'GET', path: '/models/:model',
      serve: ({ exchange }) => exchange.json(200, describe(known(exchange.params['model'] as string))),
    }),

    guard({
      method: 'PATCH', path: '/models/:model', body: patchBody,
      serve: async ({ exchange, actor, body }) => {
        const model = known(exchange.params['model'] as string);
        const change = {
          lifecycle: body.lifecycle ?? undefined, deprecatedAt: text(body.deprecated_at), retiresAt: text(body.retires_at), successor: body.successor,
        };
        if (change.successor != null) {
          const { successor } = change;
          if (successor === model.id || pool.get(successor) === undefined) throw apiError('invalid_value', 'successor must be another model of this server.', 'successor');
        }
        // Who is deprecated without a date is so from now on; who becomes active again has no dates any more.
        if (change.lifecycle === 'deprecated') change.deprecatedAt ??= modelSettings.row(model.id).deprecatedAt ?? new Date().toISOString();
        if (change.lifecycle === 'active') {
          change.deprecatedAt ??= null;
          change.retiresAt ??= null;
        }
        await modelSettings.change(model, change, checkNotice, { actor, action: 'model.lifecycle_changed', detail: { ...change } });
        exchange.json(200, describe(model));
      },
    }),

    guard({
      method: 'POST', path: '/models/:model/drain',
      serve: async ({ exchange, actor }) => exchange.json(200, await setLoaded(exchange.params['model'] as string, false, actor)),
    }),

    guard({
      method: 'POST', path: '/models/:model/load',
      serve: async ({ exchange, actor }) => exchange.json(200, await setLoaded(exchange.params['model'] as string, true, actor)),
    }),
  ];

  /** Every thread does so when it hears of it. */
  async function setLoaded(id: string, loaded: boolean, actor: Actor): Promise<DashboardModel> {
    const model = known(id);
    if ((modelSettings.row(id).unloaded !== true) !== loaded) {
      await modelSettings.change(model, { unloaded: !loaded }, () => undefined, { actor, action: loaded ? 'model.loaded' : 'model.drained' });
    }
    return describe(model);
  }

  function known(id: string): CatalogModel {
    const model = pool.get(id)?.model;
    if (model === undefined) throw apiError('resource_not_found', 'There is no such model.', 'model');
    return model;
  }

  function describe({ id }: CatalogModel): DashboardModel {
    return describeModels(models, pool).find((one) => one.id === id) as DashboardModel;
  }
}

/** Whoever uses a model learns of its end in time. To retire one at once, the state alone is set. */
function checkNotice({ lifecycle, deprecated_at = null, retires_at = null }: DeclaredLifecycle): void {
  if (retires_at === null || lifecycle === 'retired') return;
  if (deprecated_at === null) throw apiError('invalid_value', 'retires_at needs deprecated_at: a model is deprecated before it is retired.', 'deprecated_at');
  if (Date.parse(retires_at) - Date.parse(deprecated_at) < NOTICE_DAYS * DAY_MS) {
    throw apiError('value_out_of_range', `retires_at must be at least ${NOTICE_DAYS} days after deprecated_at.`, 'retires_at');
  }
}

const text = (date: Date | null | undefined): string | null | undefined => (date == null ? date : date.toISOString());
