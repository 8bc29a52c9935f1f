// Tiles with the newest sample's values. Events that did not occur within the window have no tile.
import type { ReactNode } from 'react';
import type { EngineSample, LiveSample } from '../../../../shared/wire/live.js';
import type { Samples } from './samples.js';
import { showBytes, showCount, showMs, showRate, showShare, usedPages } from './views.js';

function Tile({
  label,
  value,
  note,
  more,
  tone,
}: {
  label: string;
  value: string;
  note: string;
  more?: string;
  tone?: 'warn' | 'danger' | undefined;
}): ReactNode {
  return (
    <div className={`tile ${tone ?? ''}`}>
      <dt>{label}</dt>
      <dd>
        {value}
        <span className="tile-note">{note}</span>
        {more !== undefined && <span className="tile-note">{more}</span>}
      </dd>
    </div>
  );
}

/** Whether the value was other than 0 at any time within the window. */
const happened = (samples: Samples, of: (sample: LiveSample) => number): boolean =>
  samples.columns([of])[1]?.some((value) => value !== null && value > 0) === true;

export function ServerTiles({ sample, samples }: { sample: LiveSample; samples: Samples }): ReactNode {
  const odd = [
    { label: 'Refused, 429', of: (one: LiveSample) => one.rejected_429, note: 'over a limit', tone: 'warn' },
    { label: 'Refused, 503', of: (one: LiveSample) => one.rejected_503, note: 'no capacity', tone: 'danger' },
    { label: 'Errors', of: (one: LiveSample) => one.errors, note: 'failed or interrupted', tone: 'danger' },
    { label: 'Cancelled', of: (one: LiveSample) => one.cancelled, note: 'client disconnected', tone: undefined },
  ] as const;
  return (
    <dl className="tiles">
      <Tile label="Requests" value={showRate(sample.requests)} note={`${showCount(sample.in_flight)} in flight`} />
      {odd.map(({ label, of, note, tone }) =>
        happened(samples, of) ? (
          <Tile
            key={label}
            label={label}
            value={showRate(of(sample))}
            note={note}
            tone={of(sample) > 0 ? tone : undefined}
          />
        ) : null,
      )}
      <Tile label="Memory" value={showBytes(sample.rss_bytes)} note="resident" />
      <Tile
        label="Event-loop lag"
        value={showMs(sample.loop_lag_ms)}
        note={sample.http_threads === 1 ? 'HTTP thread' : `${sample.http_threads} HTTP threads`}
        tone={sample.loop_lag_ms > 100 ? 'warn' : undefined}
      />
      <Tile label="Viewers" value={showCount(sample.viewers)} note="of this page" />
    </dl>
  );
}

export function EngineTiles({ engine }: { engine: EngineSample }): ReactNode {
  const used = usedPages(engine);
  return (
    <dl className="tiles">
      <Tile label="Running" value={showCount(engine.running)} note="sequences" />
      <Tile
        label="Waiting"
        value={showCount(engine.waiting)}
        note="sequences"
        tone={engine.waiting > 0 ? 'warn' : undefined}
      />
      <Tile label="Decode" value={showCount(engine.decode_tokens_per_s)} note="tokens/s" />
      <Tile label="Prefill" value={showCount(engine.prefill_tokens_per_s)} note="tokens/s" />
      {engine.step_ms !== null && (
        <Tile
          label="Step time"
          value={showMs(engine.step_ms)}
          note={`${showCount(engine.steps_per_s)} steps/s`}
          more={`${showCount(engine.batch_rows)} tokens each`}
        />
      )}
      <Tile
        label="KV pages used"
        value={showShare(engine.pages_total === 0 ? null : used / engine.pages_total)}
        note={`${showCount(used)} of ${showCount(engine.pages_total)}`}
        more={`${showCount(engine.pages_cached)} cached`}
      />
      {engine.prefix_hit_rate !== null && (
        <Tile label="Prefix-cache hits" value={showShare(engine.prefix_hit_rate)} note="of prompt tokens" />
      )}
      {engine.ttft_ms !== null && (
        <Tile
          label="TTFT, p50"
          value={showMs(engine.ttft_ms.p50)}
          note={`p95 ${showMs(engine.ttft_ms.p95)}`}
          more={`p99 ${showMs(engine.ttft_ms.p99)}`}
        />
      )}
      {engine.itl_ms !== null && (
        <Tile
          label="ITL, p50"
          value={showMs(engine.itl_ms.p50)}
          note={`p95 ${showMs(engine.itl_ms.p95)}`}
          more={`p99 ${showMs(engine.itl_ms.p99)}`}
        />
      )}
      {engine.preemptions > 0 && (
        <Tile label="Preemptions" value={showCount(engine.preemptions)} note="sequences lost their pages" tone="warn" />
      )}
    </dl>
  );
}
