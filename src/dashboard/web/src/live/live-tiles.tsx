// Tiles with the newest sample's values. All tiles are always present, so that the layout does not shift when load
// begins or ends. A missing value is shown as a dash.
import type { ReactNode } from 'react';
import type { EngineSample, LiveSample, Percentiles } from '../../../../shared/wire/live.js';
import type { Samples } from './samples.js';
import { showBytes, showCount, showMs, showRate, showShare, usedPages, usedShare } from './views.js';
import type { EngineTotal } from './views.js';

/** A tile shows a value and notes. All tiles in a row have the same number of notes. */
function Tile({
  label,
  value,
  notes,
  tone,
}: {
  label: string;
  value: string;
  notes: readonly string[];
  tone?: 'warn' | 'danger' | undefined;
}): ReactNode {
  return (
    <div className={`tile ${tone ?? ''}`}>
      <dt>{label}</dt>
      <dd>
        {value}
        {notes.map((note) => (
          <span key={note} className="tile-note">
            {note}
          </span>
        ))}
      </dd>
    </div>
  );
}

/** Whether the value was nonzero at any time within the displayed time window. */
const happened = (samples: Samples, of: (sample: LiveSample) => number): boolean =>
  samples.columns([of])[1]?.some((value) => value !== null && value > 0) === true;

export function ServerTiles({ sample, samples }: { sample: LiveSample; samples: Samples }): ReactNode {
  const failures = [
    { label: 'Refused, 429', of: (one: LiveSample) => one.rejected_429, note: 'over a limit', tone: 'warn' },
    { label: 'Refused, 503', of: (one: LiveSample) => one.rejected_503, note: 'no capacity', tone: 'danger' },
    { label: 'Errors', of: (one: LiveSample) => one.errors, note: 'failed or interrupted', tone: 'danger' },
    { label: 'Cancelled', of: (one: LiveSample) => one.cancelled, note: 'client disconnected', tone: undefined },
  ] as const;
  return (
    <dl className="tiles four">
      <Tile label="Requests" value={showRate(sample.requests)} notes={[`${showCount(sample.in_flight)} in flight`]} />
      {failures.map(({ label, of, note, tone }) => (
        <Tile
          key={label}
          label={label}
          value={showRate(of(sample))}
          notes={[note]}
          tone={happened(samples, of) ? tone : undefined}
        />
      ))}
      <Tile label="Memory" value={showBytes(sample.rss_bytes)} notes={['resident']} />
      <Tile
        label="Event-loop lag"
        value={showMs(sample.loop_lag_ms)}
        notes={[sample.http_threads === 1 ? '1 HTTP thread' : `${sample.http_threads} HTTP threads`]}
        tone={sample.loop_lag_ms > 100 ? 'warn' : undefined}
      />
      <Tile label="Viewers" value={showCount(sample.viewers)} notes={['of this page']} />
    </dl>
  );
}

const percentileNotes = (of: Percentiles | null): string[] => [
  `p95 ${showMs(of?.p95 ?? null)}`,
  `p99 ${showMs(of?.p99 ?? null)}`,
];

export function EngineTiles({ engine }: { engine: EngineSample }): ReactNode {
  const used = usedPages(engine);
  const { ttft_ms: ttft, tpot_ms: tpot } = engine;
  return (
    <dl className="tiles five">
      <Tile
        label="Running"
        value={showCount(engine.running)}
        notes={['sequences', `${showCount(engine.batch_rows)} tokens per step`]}
      />
      <Tile
        label="Waiting"
        value={showCount(engine.waiting)}
        notes={['sequences', 'admitted, not started']}
        tone={engine.waiting > 0 ? 'warn' : undefined}
      />
      <Tile label="Decode" value={showCount(engine.decode_tokens_per_s)} notes={['tokens/s', 'generated']} />
      <Tile label="Time to first token" value={showMs(ttft?.p50 ?? null)} notes={percentileNotes(ttft)} />
      <Tile label="Time per output token" value={showMs(tpot?.p50 ?? null)} notes={percentileNotes(tpot ?? null)} />
      <Tile label="Prefill" value={showCount(engine.prefill_tokens_per_s)} notes={['tokens/s', 'of prompts']} />
      <Tile
        label="Prefix-cache hits"
        value={showShare(engine.prefix_hit_rate)}
        notes={['of prompt tokens', `${showCount(engine.pages_cached)} pages cached`]}
      />
      <Tile
        label="KV pages used"
        value={showShare(usedShare(engine))}
        notes={[`${showCount(used)} of`, `${showCount(engine.pages_total)} pages`]}
      />
      <Tile
        label="Step time"
        value={showMs(engine.step_ms)}
        notes={['mean', `${showCount(engine.steps_per_s)} steps/s`]}
      />
      <Tile
        label="Preemptions"
        value={showCount(engine.preemptions)}
        notes={['sequences lost their', 'pages since the load']}
        tone={engine.preemptions > 0 ? 'warn' : undefined}
      />
    </dl>
  );
}

export function TotalTiles({ total }: { total: EngineTotal }): ReactNode {
  return (
    <dl className="tiles six">
      <Tile label="Running" value={showCount(total.running)} notes={['sequences']} />
      <Tile
        label="Waiting"
        value={showCount(total.waiting)}
        notes={['sequences']}
        tone={total.waiting > 0 ? 'warn' : undefined}
      />
      <Tile label="Decode" value={showCount(total.decode)} notes={['tokens/s']} />
      <Tile label="Prefill" value={showCount(total.prefill)} notes={['tokens/s']} />
      <Tile
        label="KV pages used"
        value={showShare(total.pages === 0 ? null : total.used / total.pages)}
        notes={[`${showCount(total.used)} of ${showCount(total.pages)}`]}
      />
      <Tile
        label="Preemptions"
        value={showCount(total.preemptions)}
        notes={['since the load']}
        tone={total.preemptions > 0 ? 'warn' : undefined}
      />
    </dl>
  );
}
