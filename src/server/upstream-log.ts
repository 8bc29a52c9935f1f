// What becomes of servers elsewhere, for the log. Never what they were sent, nor by what key.

import type { UpstreamNews } from '../generation/upstream/run.js';
import type { Log } from '../telemetry/types.js';

export function tellUpstream(news: UpstreamNews, log: Log): void {
  switch (news.type) {
    case 'failed': {
      const { model, server, kind, status, reason, again } = news;
      log.warn({ model, server, kind, ...(status === null ? {} : { upstream_status: status }), again }, reason);
      return;
    }
    case 'shut':
      return log.error(
        { model: news.model, server: news.server },
        'a server fails again and again: it is asked no more for a while',
      );
    case 'open':
      return log.info({ model: news.model, server: news.server }, 'a server answers again');
    case 'fallback':
      return log.warn({ model: news.model, to: news.to }, 'no server of a model answers: another model does');
  }
}
