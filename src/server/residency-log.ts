// What the log says of models that come and go.

import type { ResidencyNews } from '../engine/residency.js';
import type { Log } from '../telemetry/types.js';

export function tellResidency(news: ResidencyNews, log: Log): void {
  const { model } = news;
  switch (news.type) {
    case 'loading':
      log.info({ model }, `loading ${model}, as it is asked for`);
      return;
    case 'loaded':
      log.info({ model, ms: Math.round(news.ms) }, `${model} is loaded`);
      return;
    case 'failed':
      log.error({ model, reason: news.error.message }, `${model} could not be loaded`);
      return;
    case 'rests':
      log.info(
        { model, reason: news.reason },
        news.reason === 'idle'
          ? `${model} was not asked for and gives its memory back until it is`
          : `${model} gives its memory back for another model`,
      );
  }
}
