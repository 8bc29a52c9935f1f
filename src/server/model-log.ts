// Logs when models are loaded and unloaded, and any problems with their chat templates.

import type { ModelLifecycleEvent } from '../engine/model-lifecycle.js';
import type { TemplateProblem } from '../generation/provider.js';
import type { Log } from '../telemetry/types.js';

export function logModelEvent(news: ModelLifecycleEvent, log: Log): void {
  const { model } = news;
  switch (news.type) {
    case 'loading':
      log.info({ model }, `loading ${model} on request`);
      return;
    case 'loaded':
      log.info({ model, ms: Math.round(news.ms) }, `${model} is loaded`);
      return;
    case 'failed':
      log.error({ model, reason: news.error.message }, `failed to load ${model}`);
      return;
    case 'unloaded':
      log.info(
        { model, reason: news.reason },
        news.reason === 'idle'
          ? `unloaded ${model} after its idle time`
          : `unloaded ${model} to make room for another model`,
      );
  }
}

export function logTemplateProblem(model: string, { reason, unusable }: TemplateProblem, log: Log): void {
  if (unusable)
    log.error({ model, reason }, `the chat template of ${model} is unusable: it only serves /v1/completions`);
  else
    log.warn(
      { model, reason },
      `the chat template of ${model} fails on tool definitions: they are added to the system message instead`,
    );
}
