// Totals for a time range. There are always eight, so that no row of the layout has gaps.
import type { ReactNode } from 'react';
import { Stat } from '../components/page.js';
import { count, duration, percent, short } from '../format.js';
import { durationMs, firstTokenMs, money, tokensPerSecond } from '../usage-data.js';
import type { Sums } from '../usage-data.js';

export const cachedShare = (sums: Sums): number | null =>
  sums.input_tokens === 0 ? null : sums.cached_tokens / sums.input_tokens;

const time = (ms: number | null): string => (ms === null ? '–' : duration(ms));

export function UsageStats({ total, currency }: { total: Sums; currency: string }): ReactNode {
  const speed = tokensPerSecond(total);
  return (
    <dl className="stats eight">
      <Stat label="Requests" value={short(total.requests)} note={`${count(total.answered)} with output`} />
      <Stat label="Input tokens" value={short(total.input_tokens)} note={`${percent(cachedShare(total))} cached`} />
      <Stat
        label="Output tokens"
        value={short(total.output_tokens)}
        note={`${short(total.reasoning_tokens)} reasoning`}
      />
      <Stat
        label="Cost"
        value={money(total.cost, currency)}
        note={total.cost === null ? 'no prices set' : "at today's prices"}
      />
      <Stat label="Time to first token" value={time(firstTokenMs(total))} note="average" />
      <Stat label="Response time" value={time(durationMs(total))} note="average, until the last token" />
      <Stat
        label="Speed"
        value={speed === null ? '–' : short(Math.round(speed))}
        note="tokens/s, average per response"
      />
      <Stat label="Errors" value={short(total.errors)} note={`${short(total.rate_limited)} rate-limited`} />
    </dl>
  );
}
