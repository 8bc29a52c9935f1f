// Logs when Redis becomes unreachable and when it becomes reachable again, once per change.

import type { CountersNews } from '../admission/shared/shared-admission.js';
import type { Log } from '../telemetry/types.js';

export function logCountersEvent(news: CountersNews, log: Log): void {
  if (news.type === 'back')
    return log.info({ away_ms: news.awayMs, processes: news.processes }, 'Redis is reachable again');
  const { reason, policy, processes } = news;
  log.error(
    { reason, policy, processes },
    policy === 'share'
      ? 'Redis is unreachable: each process enforces its share of every limit'
      : 'Redis is unreachable: requests are refused',
  );
}
