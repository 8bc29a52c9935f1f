// What the engines and the server do right now: figures and moving charts of the last five minutes, one sample a second.
import { useEffect, useMemo, useState } from 'react';
import type { ReactNode } from 'react';
import type { EngineSample, LiveSample } from '../../../../wire/dashboard.js';
import { Badge } from '../components/badge.js';
import { Button } from '../components/button.js';
import { Chart } from '../components/chart.js';
import { Icon } from '../components/icon.js';
import { PageHeader } from '../components/page.js';
import { ErrorState, Skeleton } from '../components/states.js';
import { Segmented } from '../components/tabs.js';
import { ApiFailure } from '../api.js';
import { plural } from '../format.js';
import type { Connection } from '../live/follow.js';
import { ofEngine, WINDOW_S } from '../live/samples.js';
import type { Samples } from '../live/samples.js';
import { useLive } from '../live/use-live.js';
import type { Live } from '../live/use-live.js';
import { ENGINE_VIEWS, inWords, SERVER_VIEWS, showBytes, showCount, showMs, showRate, showShare, usedPages } from '../live/views.js';
import type { ServerSeries, View } from '../live/views.js';
import '../styles/operator.css';

export function OperatorLive(): ReactNode {
  const live = useLive();
  const { samples, version, connection } = live;
  const [chosen, setChosen] = useState<string | null>(null);
  // Those of the moment that is shown: paused means all of it.
  const shown = useMemo(() => ({ latest: samples.latest, engines: samples.engines() }), [samples, version]);
  const engine = shown.engines.find(({ model }) => model === chosen) ?? shown.engines[0];
  if (connection.state === 'refused') {
    return <><PageHeader title="Live engine" /><ErrorState error={new ApiFailure(connection.status, 'unreadable', connection.reason)} onRetry={live.retry} /></>;
  }
  return (
    <>
      <PageHeader title="Live engine" actions={<Controls live={live} at={shown.latest?.at} />}>The last {WINDOW_S / 60} minutes, one sample a second.</PageHeader>
      {shown.latest === undefined ? <Skeleton rows={6} height={48} /> : (
        <>
          <section className="live-part" aria-label="Server">
            <h2>Server</h2>
            <ServerTiles sample={shown.latest} />
          </section>
          <section className="live-part" aria-label="Engine">
            <div className="live-head">
              <h2>Engine</h2>
              {shown.engines.length > 1 && engine !== undefined && (
                <Segmented label="Engine" value={engine.model} onChange={setChosen} options={shown.engines.map(({ model, names }) => ({ value: model, label: names.join(', ') }))} />
              )}
              {shown.engines.length === 1 && engine !== undefined && <span className="muted">{engine.names.join(', ')}</span>}
            </div>
            {engine === undefined ? <p className="muted">No model is loaded.</p> : (
              <>
                <EngineTiles engine={engine} />
                <div className="charts">
                  {ENGINE_VIEWS.map((view) => (
                    <LiveChart
                      key={view.title} of={engine.model} samples={samples} version={version} now={inWords(view, engine)}
                      view={{ ...view, series: view.series.map((one) => ({ ...one, of: ofEngine(engine.model, one.of) })) }}
                    />
                  ))}
                </div>
              </>
            )}
          </section>
          <section className="live-part" aria-label="Server, charts">
            <h2>Requests and process</h2>
            <div className="charts">
              {SERVER_VIEWS.map((view) => (
                <LiveChart key={view.title} of="server" samples={samples} version={version} now={inWords(view, shown.latest as LiveSample)} view={view} />
              ))}
            </div>
          </section>
        </>
      )}
    </>
  );
}

function Controls({ live, at }: { live: Live; at: string | undefined }): ReactNode {
  const { connection, paused, setPaused, retry } = live;
  return (
    <>
      <span className="row" role="status">
        {paused && at !== undefined ? <Badge tone="warn" dot>Paused at {clock.format(Date.parse(at))}</Badge> : <ConnectionBadge connection={connection} />}
      </span>
      {connection.state === 'waiting' && <Button size="small" onClick={retry}><Icon name="refresh" /> Connect now</Button>}
      <Button size="small" aria-pressed={paused} onClick={() => setPaused(!paused)}><Icon name={paused ? 'play' : 'pause'} /> {paused ? 'Resume' : 'Pause'}</Button>
    </>
  );
}

function ConnectionBadge({ connection }: { connection: Connection }): ReactNode {
  const [, tick] = useState(0);
  const waits = connection.state === 'waiting';
  useEffect(() => {
    if (!waits) return undefined;
    const timer = setInterval(() => tick((n) => n + 1), 500);
    return () => clearInterval(timer);
  }, [waits]);
  if (connection.state === 'open') return <Badge tone="ok" dot>Live</Badge>;
  if (connection.state === 'waiting') {
    const seconds = Math.max(0, Math.ceil((connection.until - Date.now()) / 1000));
    return <Badge tone="danger" dot><span title={connection.reason}>Not connected, again in {plural(seconds, 'second')}</span></Badge>;
  }
  return <Badge dot>Connecting</Badge>;
}

function Tile({ label, value, note, more, tone }: { label: string; value: string; note: string; more?: string; tone?: 'warn' | 'danger' }): ReactNode {
  return <div className={`tile ${tone ?? ''}`}><dt>{label}</dt><dd>{value}<span className="tile-note">{note}</span>{more !== undefined && <span className="tile-note">{more}</span>}</dd></div>;
}

function ServerTiles({ sample }: { sample: LiveSample }): ReactNode {
  return (
    <dl className="tiles">
      <Tile label="Requests" value={showRate(sample.requests)} note={`${showCount(sample.in_flight)} in flight`} />
      <Tile label="Refused, 429" value={showRate(sample.rejected_429)} note="over a limit" {...(sample.rejected_429 > 0 ? { tone: 'warn' as const } : {})} />
      <Tile label="Refused, 503" value={showRate(sample.rejected_503)} note="no capacity" {...(sample.rejected_503 > 0 ? { tone: 'danger' as const } : {})} />
      <Tile label="Errors" value={showRate(sample.errors)} note="failed or broken off" {...(sample.errors > 0 ? { tone: 'danger' as const } : {})} />
      <Tile label="Cancelled" value={showRate(sample.cancelled)} note="client left" />
      <Tile label="Memory" value={showBytes(sample.rss_bytes)} note="resident" />
      <Tile label="Event-loop lag" value={showMs(sample.loop_lag_ms)} note="HTTP threads" {...(sample.loop_lag_ms > 100 ? { tone: 'warn' as const } : {})} />
      <Tile label="HTTP threads" value={showCount(sample.http_threads)} note="on one port" />
      <Tile label="Viewers" value={showCount(sample.viewers)} note="of this page" />
    </dl>
  );
}

function EngineTiles({ engine }: { engine: EngineSample }): ReactNode {
  const used = usedPages(engine);
  const latency = (values: EngineSample['ttft_ms']): { value: string; note: string; more?: string } => (
    values === null ? { value: '–', note: 'none in a minute' } : { value: showMs(values.p50), note: `p95 ${showMs(values.p95)}`, more: `p99 ${showMs(values.p99)}` });
  return (
    <dl className="tiles">
      <Tile label="Running" value={showCount(engine.running)} note="sequences" />
      <Tile label="Waiting" value={showCount(engine.waiting)} note="sequences" {...(engine.waiting > 0 ? { tone: 'warn' as const } : {})} />
      <Tile label="Rows per step" value={showCount(engine.batch_rows)} note={`${showCount(engine.steps_per_s)} steps/s`} />
      <Tile label="Step time" value={showMs(engine.step_ms)} note="mean" />
      <Tile label="Decode" value={showCount(engine.decode_tokens_per_s)} note="tokens/s" />
      <Tile label="Prefill" value={showCount(engine.prefill_tokens_per_s)} note="tokens/s" />
      <Tile
        label="KV pages used" value={showShare(engine.pages_total === 0 ? null : used / engine.pages_total)}
        note={`${showCount(used)} of ${showCount(engine.pages_total)}`} more={`${showCount(engine.pages_cached)} cached`}
      />
      <Tile label="Prefix-cache hits" value={showShare(engine.prefix_hit_rate)} note="of prompt tokens" />
      <Tile label="TTFT, p50" {...latency(engine.ttft_ms)} />
      <Tile label="ITL, p50" {...latency(engine.itl_ms)} />
      <Tile label="Preemptions" value={showCount(engine.preemptions)} note="gave pages up" {...(engine.preemptions > 0 ? { tone: 'warn' as const } : {})} />
    </dl>
  );
}

const clock = new Intl.DateTimeFormat('en-GB', { hour: '2-digit', minute: '2-digit', second: '2-digit' });
/** With reduced motion charts move every so many samples; the figures still follow each. */
const CALM_EVERY_S = 5;

/** `of` tells charts of the same view apart; `now` is what the newest sample says, in words. */
interface LiveChartProps { of: string; samples: Samples; version: number; view: View<ServerSeries>; now: string }

function LiveChart({ of, samples, version, view, now }: LiveChartProps): ReactNode {
  const calm = useReducedMotion();
  const moment = calm ? Math.floor(version / CALM_EVERY_S) : version;
  const key = view.series.map(({ label }) => label).join();
  const { times, series } = useMemo(() => {
    const [at, ...columns] = samples.columns(view.series.map(({ of }) => of));
    // The axis spans the window from the start, or a minute while there is less: what is new comes in at the right end.
    const last = at.at(-1) ?? 0;
    const first = last - Math.min(WINDOW_S, Math.max(60, last - (at[0] ?? 0)));
    const isShort = at.length > 0 && at[0]! > first + 1;
    return {
      times: isShort ? [first, at[0]! - 1, ...at] : at,
      series: view.series.map(({ label, color }, index) => ({
        label, values: isShort ? [null, null, ...columns[index]!] : columns[index]!, ...(color === undefined ? {} : { color }),
      })),
    };
    // The view's functions are new each time; what they read is not.
    // eslint-disable-next-line react-hooks/exhaustive-deps
  }, [samples, moment, view.title, key, of]);
  return (
    <div className="panel live-chart">
      <header><h3>{view.title}</h3><span className="live-now">{now}</span></header>
      <Chart
        title={`${view.title}, last ${WINDOW_S / 60} minutes. Now: ${now}. ${view.help}`} times={times} series={series} kind={view.kind ?? 'line'} height={168} noTable clockOnly
        format={(value) => view.show(value)} formatTime={(at) => clock.format(at * 1000)} {...(view.max === undefined ? {} : { max: view.max })}
      />
      <p className="hint">{view.help}</p>
    </div>
  );
}

function useReducedMotion(): boolean {
  const [reduced, setReduced] = useState(() => matchMedia('(prefers-reduced-motion: reduce)').matches);
  useEffect(() => {
    const query = matchMedia('(prefers-reduced-motion: reduce)');
    const follow = (): void => setReduced(query.matches);
    query.addEventListener('change', follow);
    return () => query.removeEventListener('change', follow);
  }, []);
  return reduced;
}
