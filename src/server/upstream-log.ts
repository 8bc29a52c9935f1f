// Logs the state of upstream servers. Never logs request content or API keys.

import type { UpstreamNews } from '../generation/upstream/run.js';
import type { Log } from '../telemetry/types.js';

export function logUpstreamEvent(news: UpstreamNews, log: Log): void {
  switch (news.type) {
    case 'failed': {
      const { model, server, kind, status, reason, again } = news;
      log.warn({ model, server, kind, ...(status === null ? {} : { upstream_status: status }), again }, reason);
      return;
    }
    case 'shut':
      return log.error(
        { model: news.model, server: news.server },
        'upstream server failed repeatedly, taken out of rotation',
      );
    case 'open':
      return log.info({ model: news.model, server: news.server }, 'upstream server is back in rotation');
    case 'fallback':
      return log.warn(
        { model: news.model, to: news.to },
        'no upstream server of the model is available, using its fallback model',
      );
  }
}
