// What becomes of counters that processes share, for the log: once for each change.

import type { CountersNews } from '../admission/shared/shared-admission.js';
import type { Log } from '../telemetry/types.js';

export function tellCounters(news: CountersNews, log: Log): void {
  if (news.type === 'back')
    return log.info({ away_ms: news.awayMs, processes: news.processes }, 'the shared counters are reached again');
  const { reason, policy, processes } = news;
  log.error(
    { reason, policy, processes },
    policy === 'share'
      ? 'the shared counters cannot be reached: each process admits its share of every limit'
      : 'the shared counters cannot be reached: nothing is admitted',
  );
}
