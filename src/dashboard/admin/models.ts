// Operator routes for models: lifecycle, dates, and loading.

import { z } from 'zod';
import type { Actor } from '../../accounts/audit.js';
import type { OperatorModel, OperatorModelPatch, OperatorServe } from '../../shared/wire/models.js';
import type { CatalogModel } from '../../engine/catalog.js';
import { MAX_IDLE_MINUTES } from '../../config/kinds.js';
import { availableMemory, totalMemory } from '../../engine/machine-memory.js';
import { apiError } from '../../shared/errors.js';
import { NOTICE_DAYS, type DeclaredDeprecation } from '../../generation/model-deprecation.js';
import type { Route } from '../../http/exchange.js';
import type { FileFacts } from '../../engine/file-facts.js';
import type { ModelLifecycle } from '../../engine/model-lifecycle.js';
import type { ModelPool } from '../../engine/model-pool.js';
import type { ServedModels } from '../../generation/served-models.js';
import { dateField } from '../api/key-fields.js';
import { describeModels } from '../api/models.js';
import type { OperatorGuard } from './operator-guard.js';
import type { DynamicModels } from './dynamic-models.js';
import type { ModelSettings } from './model-settings.js';

const DAY_MS = 86_400_000;

const patchBody = z.object({
  lifecycle: z.enum(['active', 'deprecated', 'retired']).nullish(),
  deprecated_at: dateField.nullish(),
  retires_at: dateField.nullish(),
  successor: z.string().min(1).max(128).nullish(),
}) satisfies z.ZodType<{ [K in keyof OperatorModelPatch]: unknown }>;

const serveBody = z.object({
  name: z.string().min(1).max(128),
  model: z.string().min(1).max(512),
  display_name: z.string().min(1).max(128).nullish(),
  idle_minutes: z.number().gt(0).max(MAX_IDLE_MINUTES).nullish(),
}) satisfies z.ZodType<{ [K in keyof OperatorServe]: unknown }>;

export interface ModelDeps {
  pool: ModelPool;
  models: ServedModels;
  modelSettings: ModelSettings;
  served: DynamicModels;
  lifecycle: Pick<ModelLifecycle, 'load'>;
  fileFacts: FileFacts;
}

export function modelRoutes(
  guard: OperatorGuard,
  { pool, models, modelSettings, served, lifecycle, fileFacts }: ModelDeps,
): Route[] {
  return [
    guard({
      method: 'GET',
      path: '/models',
      handler: ({ exchange }) =>
        exchange.json(200, { object: 'list', data: describeAll(), has_more: false, next: null }),
    }),

    guard({
      method: 'POST',
      path: '/models',
      body: serveBody,
      handler: async ({
        exchange,
        actor,
        body: { name, model, display_name: displayName, idle_minutes: idleMinutes },
      }) => {
        const memory = { total: totalMemory(), available: availableMemory() };
        await served.serve(
          { name, model, displayName: displayName ?? undefined, idleMinutes },
          { fileFacts, memory },
          actor,
        );
        exchange.json(200, describe(known(name)));
      },
    }),

    guard({
      method: 'DELETE',
      path: '/models/:model',
      handler: async ({ exchange, actor }) => {
        const { id, adapter } = known(exchange.params['model'] as string);
        if (adapter !== undefined)
          throw apiError('invalid_value', `${id} is a LoRA adapter. Use POST /v1/unload_lora_adapter.`, 'model');
        if (!(await served.unserve(id, actor)))
          throw apiError(
            'invalid_value',
            `${id} is a configured model and cannot be removed at run time. Unload or retire it instead.`,
            'model',
          );
        exchange.json(200, {});
      },
    }),

    guard({
      method: 'GET',
      path: '/models/:model',
      handler: ({ exchange }) => exchange.json(200, describe(known(exchange.params['model'] as string))),
    }),

    guard({
      method: 'PATCH',
      path: '/models/:model',
      body: patchBody,
      handler: async ({ exchange, actor, body }) => {
        const model = known(exchange.params['model'] as string);
        const change = {
          lifecycle: body.lifecycle ?? undefined,
          deprecatedAt: text(body.deprecated_at),
          retiresAt: text(body.retires_at),
          successor: body.successor,
        };
        if (change.successor != null) {
          const { successor } = change;
          if (successor === model.id || pool.get(successor) === undefined)
            throw apiError('invalid_value', 'successor must be another model of this server.', 'successor');
        }
        // If no date is given, the deprecation starts now. Making a model active again clears its dates.
        if (change.lifecycle === 'deprecated')
          change.deprecatedAt ??= modelSettings.row(model.id).deprecatedAt ?? new Date().toISOString();
        if (change.lifecycle === 'active') {
          change.deprecatedAt ??= null;
          change.retiresAt ??= null;
        }
        await modelSettings.change(model, change, checkNotice, {
          actor,
          action: 'model.lifecycle_changed',
          detail: { ...change },
        });
        exchange.json(200, describe(model));
      },
    }),

    guard({
      method: 'POST',
      path: '/models/:model/drain',
      handler: async ({ exchange, actor }) =>
        exchange.json(200, await setLoaded(exchange.params['model'] as string, false, actor)),
    }),

    guard({
      method: 'POST',
      path: '/models/:model/load',
      handler: async ({ exchange, actor }) =>
        exchange.json(200, await setLoaded(exchange.params['model'] as string, true, actor)),
    }),
  ];

  /** Each thread loads or unloads the model when it is notified of the change. */
  async function setLoaded(id: string, loaded: boolean, actor: Actor): Promise<OperatorModel> {
    const model = known(id);
    if ((modelSettings.row(id).unloaded !== true) !== loaded) {
      await modelSettings.change(model, { unloaded: !loaded }, () => undefined, {
        actor,
        action: loaded ? 'model.loaded' : 'model.drained',
      });
    }
    if (loaded) lifecycle.load(id); // this also loads an on-demand model immediately, and retries a failed load
    return describe(model);
  }

  function known(id: string): CatalogModel {
    const model = pool.get(id)?.model;
    if (model === undefined) throw apiError('resource_not_found', 'Model not found.', 'model');
    return model;
  }

  function describe({ id }: CatalogModel): OperatorModel {
    return describeAll().find((one) => one.id === id) as OperatorModel;
  }

  function describeAll(): OperatorModel[] {
    return describeModels({ models, pool }).map((one) => {
      const status = pool.get(one.id)?.status;
      return {
        ...one,
        source: served.sourceOf(one.id),
        problem: status?.state === 'failed' ? status.error.message : null,
      };
    });
  }
}

/**
 * A retirement date must leave a notice period after the deprecation date. To retire a model immediately, set only the
 * state.
 */
function checkNotice({ lifecycle, deprecated_at = null, retires_at = null }: DeclaredDeprecation): void {
  if (retires_at === null || lifecycle === 'retired') return;
  if (deprecated_at === null)
    throw apiError(
      'invalid_value',
      'retires_at requires deprecated_at: a model must be deprecated before it is retired.',
      'deprecated_at',
    );
  if (Date.parse(retires_at) - Date.parse(deprecated_at) < NOTICE_DAYS * DAY_MS) {
    throw apiError(
      'value_out_of_range',
      `retires_at must be at least ${NOTICE_DAYS} days after deprecated_at.`,
      'retires_at',
    );
  }
}

const text = (date: Date | null | undefined): string | null | undefined => (date == null ? date : date.toISOString());
