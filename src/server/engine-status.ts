// Reports the state of a service's engines: for /readyz, /metrics, the log and the startup message.

import { publicAdapterName } from '../engine/adapters.js';
import type { NotedEngine } from '../engine/engine-notes.js';
import type { ModelPool } from '../engine/model-pool.js';
import { StartError } from '../shared/errors.js';
import type { Upstreams } from '../generation/upstream/upstreams.js';
import type { ServedModels } from '../generation/served-models.js';
import type { Health } from '../http/health-routes.js';
import type { ModelState } from '../protocol/models/state-routes.js';
import type { TokenizerInfo } from '../protocol/tokens/routes.js';
import type { EngineGauges } from '../telemetry/types.js';

export interface FailedModel {
  name: string;
  /** The model file and its problem. */
  reason: string;
  /** Whether this is a LoRA adapter from the configuration whose model was loaded. */
  isAdapter: boolean;
}

/**
 * Returns the models that cannot be served because their file is invalid. Also compiles the chat templates of all
 * other models.
 */
export function failedModels(pool: ModelPool, models: ServedModels): FailedModel[] {
  try {
    models.compileTemplates();
  } catch (error) {
    throw new StartError(error instanceof Error ? error.message : String(error), error);
  }
  return pool.list().flatMap(({ model, status }) => {
    if (status.state !== 'failed') return [];
    const reason = status.error.message;
    const { adapter } = model;
    if (adapter === undefined || pool.get(adapter.base)?.status.state === 'failed')
      return [
        {
          name: model.id,
          reason: reason.includes(model.file) ? reason : `${model.file}: ${reason}`,
          isAdapter: false,
        },
      ];
    const where = adapter.setting === null ? '' : `${adapter.setting}: `;
    return [
      {
        name: model.id,
        reason: where + (reason.includes(adapter.path) ? reason : `${adapter.path}: ${reason}`),
        isAdapter: adapter.setting !== null,
      },
    ];
  });
}

/** For /readyz: every model's state, and the load on the running ones. */
export function modelHealth(
  pool: ModelPool,
  upstreams: Upstreams,
  failedAtStart: readonly FailedModel[],
): Health['models'] {
  return pool.list().map(({ model, status }) => {
    const elsewhere = status.state === 'elsewhere';
    const upstream = elsewhere ? upstreams.get(model.id) : undefined;
    const stats = status.state === 'ready' ? status.engine.stats() : null;
    const reason =
      failedAtStart.find(({ name }) => name === model.id)?.reason ??
      (status.state === 'failed'
        ? status.error.message
        : stats?.failed === true
          ? 'the engine stopped after an internal error'
          : null);
    return {
      name: model.id,
      state: reason !== null ? 'failed' : elsewhere ? 'ready' : status.state,
      awaited: pool.loadOf(model.id)?.isAwaited === true,
      progress:
        status.state === 'loading'
          ? status.progress
          : reason === null && (status.state === 'ready' || elsewhere)
            ? 1
            : 0,
      error:
        reason ??
        (elsewhere && upstream?.servers.every(({ shutForMs }) => shutForMs > 0) === true
          ? 'all of its upstream servers are out of rotation'
          : null),
      isRequired: model.adapter?.setting !== null,
      stopped: stats?.failed === true,
      running: stats?.running ?? upstream?.running ?? 0,
      waiting: stats?.waiting ?? upstream?.waiting ?? 0,
      lastStepAgeMs: stats?.lastStepAgeMs ?? 0,
    };
  });
}

/** For the log: every running engine, listed once. */
export function notedEngines(pool: ModelPool): NotedEngine[] {
  return pool
    .engines()
    .flatMap(({ names, status }) =>
      status.state === 'ready' ? [{ model: names[0] ?? '', engine: status.engine, stats: status.engine.stats() }] : [],
    );
}

/**
 * For /metrics. Models that share a file share an engine; its metrics are reported once, under the first model's name.
 */
export function engineGauges(pool: ModelPool, models: Pick<ServedModels, 'shortName'>): EngineGauges[] {
  return pool.engines().flatMap(({ names, status }) => {
    if (status.state !== 'ready') return [];
    const stats = status.engine.stats();
    const adapters = stats.adapters.map((one) => ({ ...one, name: models.shortName(publicAdapterName(one.name)) }));
    return [{ model: names[0] ?? '', ...stats, adapters }];
  });
}

/** For /props and /slots. */
export function modelStates(pool: ModelPool, models: ServedModels): ModelState[] {
  const descriptions = new Map(models.describe().map((one) => [one.id, one]));
  return pool.list().flatMap(({ model, status }) => {
    const description = descriptions.get(model.id);
    if (description === undefined) return [];
    const engine = status.state === 'ready' ? status.engine : null;
    const stats = engine?.stats();
    return [
      {
        description,
        file: model.file,
        quantization: engine?.info.quantization ?? null,
        chatTemplate: engine?.info.chatTemplate ?? null,
        bos: engine?.info.bos ?? null,
        eos: engine?.info.eos ?? null,
        sequences: stats === undefined ? null : { most: stats.maxSequences, running: stats.running },
        unloaded: status.state === 'idle',
        guesses: (stats?.draftTokens ?? 0) > 0,
      },
    ];
  });
}

/** For /tokenizer_info. */
export function tokenizerInfo(pool: ModelPool, name: string): TokenizerInfo | null {
  const status = pool.get(name)?.status;
  return status?.state === 'ready' ? status.engine.info : null;
}
