// Logs clock skew between the processes of a service: once when it starts and once when it ends.

import { isSkewed } from '../shared/clock-health.js';
import type { ClockSkew } from '../shared/clock-health.js';
import type { Log } from '../telemetry/types.js';

export class SkewLog {
  #skewed = false;

  constructor(private readonly log: Log) {}

  see(skew: ClockSkew): void {
    const skewed = isSkewed(skew);
    if (skewed === this.#skewed) return;
    this.#skewed = skewed;
    const fields = { skew_ms: Math.round(skew.skewMs), spread_ms: Math.round(skew.spreadMs), threads: skew.threads };
    if (skewed) this.log.warn(fields, 'clock skew between this machine, the database and other processes: check NTP');
    else this.log.info(fields, 'clock skew has ended');
  }
}
