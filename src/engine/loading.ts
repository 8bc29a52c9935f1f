// Reports the progress of loading models, because large models take minutes.

import { basename } from 'node:path';
import { performance } from 'node:perf_hooks';
import type { Log } from '../telemetry/types.js';
import { showBytes } from '../config/kinds.js';
import { modelBytes } from './catalog.js';
import type { Engine } from './engine.js';
import type { ModelPool } from './model-pool.js';

/** Interval between two log lines about a file. */
const EVERY_MS = 2_000;
/** Minimum number of model parameters at which the log suggests engine.arithmetic fast. */
const MIN_FAST_PARAMETERS = 5e8;

export interface Loading {
  file: string;
  progress: number;
}

export interface LoadingOptions {
  onLoading?: ((loading: Loading) => void) | undefined;
  everyMs?: number;
  /** The configured context length; 0 if none is configured. */
  maxContext?: number;
}

/**
 * Describes how far a model has been loaded. The weights come first; then the engine allocates the KV cache, which may
 * take seconds.
 */
export const progressText = (progress: number): string =>
  progress < 1 ? `${Math.floor(100 * progress)} %` : 'weights read, allocating the KV cache';

/** Logs when models start to load, their progress, and when they have loaded. Resolves when no models are loading. */
export async function logLoading(
  pool: ModelPool,
  log: Log,
  { onLoading = () => undefined, everyMs = EVERY_MS, maxContext: wanted = 0 }: LoadingOptions = {},
): Promise<void> {
  const startedAt = performance.now();
  const logState = (first: boolean): void => {
    for (const { file, names, status } of pool.engines()) {
      if (status.state !== 'loading') continue;
      const fields = { file, models: names.join(',') };
      if (first)
        log.info(
          { ...fields, bytes: modelBytes(file) },
          `loading ${basename(file)}, ${showBytes(modelBytes(file) ?? 0)}`,
        );
      else
        log.info(
          { ...fields, percent: Math.floor(100 * status.progress), ms: Math.round(performance.now() - startedAt) },
          `loading ${basename(file)}, ${progressText(status.progress)}`,
        );
      onLoading({ file, progress: status.progress });
    }
  };
  logState(true);
  const timer = setInterval(() => logState(false), everyMs);
  await pool.settled();
  clearInterval(timer);
  for (const { file, names, status } of pool.engines()) {
    const fields = { file, models: names.join(','), ms: performance.now() - startedAt };
    if (status.state === 'ready') {
      const { backend, info, plan, maxContext, visionProblem } = status.engine;
      log.info(
        {
          ...fields,
          backend: backend.name,
          isa: backend.isa,
          threads: backend.threads,
          context: maxContext,
          weight_bytes: plan.weightBytes,
          kv_bytes: plan.kvBytes,
        },
        'model loaded',
      );
      if (maxContext < wanted)
        log.warn(
          { ...fields, max_context: wanted, context: maxContext },
          `max_context is ${wanted}, but ${names.join(', ')} has a context of ${maxContext} tokens: ${
            info.contextLength < wanted
              ? 'this is the maximum in the model file'
              : 'a longer context does not fit in memory'
          }`,
        );
      if (visionProblem !== null) log.warn({ ...fields, why: visionProblem }, 'image input is unavailable');
      logHugePages(pool, status.engine, log, { fields: { file, models: names.join(',') }, startedAt, everyMs });
    }
  }
  logArithmetic(pool, log);
}

/**
 * Logs how many bytes of an engine's weights are in huge pages as soon as the engine knows it. The engine moves weights
 * to huge pages in the background. Logs nothing if no weights are in huge pages or if the engine is closed first.
 */
function logHugePages(
  pool: ModelPool,
  engine: Engine,
  log: Log,
  { fields, startedAt, everyMs }: { fields: object; startedAt: number; everyMs: number },
): void {
  const timer = setInterval(() => {
    const isLoaded = pool.engines().some(({ status }) => status.state === 'ready' && status.engine === engine);
    const bytes = isLoaded ? engine.stats().hugePageBytes : 0;
    if (bytes === null) return;
    clearInterval(timer);
    if (bytes === 0) return;
    const ms = performance.now() - startedAt;
    log.info({ ...fields, ms, weight_bytes: engine.plan.weightBytes, huge_page_bytes: bytes }, 'weights in huge pages');
  }, everyMs);
  timer.unref();
}

/** Logs the consequences of engine.arithmetic, and of missing AMX support, once for all models. */
function logArithmetic(pool: ModelPool, log: Log): void {
  const engines = pool.engines().flatMap(({ status }) => (status.state === 'ready' ? [status.engine] : []));
  const problem = engines.find(({ backend }) => backend.amxProblem !== '')?.backend.amxProblem;
  if (problem !== undefined) log.warn({ why: problem }, 'AMX is unavailable, prompts will take longer');
  if (engines.some(({ arithmetic }) => arithmetic === 'fast'))
    log.info({}, "engine.arithmetic is fast: a request's output depends on the other requests in the batch");
  const couldBeFast = engines.some(
    ({ arithmetic, backend, info }) =>
      arithmetic === 'production' && backend.isa === 'amx' && info.parameters >= MIN_FAST_PARAMETERS,
  );
  if (couldBeFast)
    log.info(
      {},
      'AMX is available: engine.arithmetic fast speeds up long prompts, but outputs then depend on the other requests in the batch',
    );
}
