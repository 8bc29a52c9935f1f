// Live state of the engines and the server: current values, charts over a time range, recent setting changes, and which
// organizations cause the load.
import { useQuery } from '@tanstack/react-query';
import { useEffect, useMemo, useState } from 'react';
import type { ReactNode } from 'react';
import type { ListPage } from '../../../../shared/wire/list.js';
import type { LiveMark, LiveSample } from '../../../../shared/wire/live.js';
import type { EngineTunables, TunableName } from '../../../../shared/wire/tunables.js';
import { api, ApiFailure } from '../api.js';
import { Badge } from '../components/badge.js';
import { Button } from '../components/button.js';
import { Icon } from '../components/icon.js';
import { PageHeader } from '../components/page.js';
import { ErrorState, Skeleton } from '../components/states.js';
import { Segmented } from '../components/tabs.js';
import { dateTime, plural } from '../format.js';
import type { Connection } from '../live/follow.js';
import { LiveCharts } from '../live/live-charts.js';
import type { ChartOf, Shown } from '../live/live-charts.js';
import { LiveSenders } from '../live/live-senders.js';
import { EngineTable } from '../live/engine-table.js';
import { EngineTiles, ServerTiles, TotalTiles } from '../live/live-tiles.js';
import { PromptCachePanel } from '../live/prompt-cache-panel.js';
import { LIVE_RANGES, wordsOf } from '../live/ranges.js';
import type { LiveRange, Span } from '../live/ranges.js';
import { ofEngine } from '../live/samples.js';
import { useLive } from '../live/use-live.js';
import type { Live } from '../live/use-live.js';
import { usePast } from '../live/use-past.js';
import { comparedViews, ENGINE_VIEWS, inWords, SERVER_VIEWS, totalOf } from '../live/views.js';
import '../styles/operator.css';

const NONE: readonly never[] = [];
/** The option that shows all engines together. No model can have this name. */
const ALL = '';
/** Minimum zoom range. A shorter range has too few samples to be drawn. */
const MIN_ZOOM_S = 20;

export function OperatorLive(): ReactNode {
  const live = useLive();
  const { samples, version, connection, paused } = live;
  const [range, setRange] = useState<LiveRange>('5m');
  const [zoom, setZoom] = useState<Span | null>(null);
  const [chosen, setChosen] = useState<string | null>(null);
  const isPast = range !== '5m' || zoom !== null;
  const past = usePast(range, zoom, { wanted: isPast, paused });
  const marks = usePast('5m', null, { wanted: !isPast, paused }); // used only for the change marks
  const tunables = useQuery({
    queryKey: ['operator', 'tunables'],
    queryFn: ({ signal }) => api.get<ListPage<EngineTunables>>('/operator/tunables', {}, signal),
    refetchInterval: 30_000,
  });
  // The newest sample or, while paused, the last sample before the pause.
  const latest = useMemo(() => samples.latest, [samples, version]);
  const words = zoom === null ? wordsOf(range) : `${dateTime(zoom.from * 1000)} to ${dateTime(zoom.to * 1000)}`;
  const changes = (isPast ? past.data?.marks : marks.data?.marks) ?? NONE;
  const shown = useMemo((): Shown | null => {
    const onZoom = (from: number, to: number): void => {
      if (to - from >= MIN_ZOOM_S) setZoom({ from, to });
    };
    const common = { words, marks: changes.map(({ at }) => Date.parse(at) / 1000), onZoom };
    if (!isPast) return { samples, version, span: null, ...common };
    return past.data === undefined
      ? null
      : { samples: past.data.samples, version: past.data.version, span: past.data.span, ...common };
  }, [samples, version, isPast, past.data, words, changes]);
  if (connection.state === 'refused') {
    return (
      <>
        <PageHeader title="Live" />
        <ErrorState error={new ApiFailure(connection.status, 'unreadable', connection.reason)} onRetry={live.retry} />
      </>
    );
  }
  const engines = (isPast ? past.data?.samples : samples)?.engines() ?? [];
  // If there are several engines, all of them are shown until the user selects one.
  const engine =
    engines.length === 1 ? engines[0] : chosen === null ? undefined : engines.find(({ model }) => model === chosen);
  const limitOf = (name: TunableName | undefined): ChartOf['limit'] => {
    const value = tunables.data?.data
      .find(({ model }) => model === engine?.model)
      ?.tunables.find((one) => one.name === name)?.value;
    return value === undefined || value === 0 ? undefined : { label: 'limit', value };
  };
  return (
    <>
      <PageHeader title="Live" actions={<Controls live={live} at={latest?.at} />}>
        {zoom === null ? `The ${wordsOf(range)}${isPast ? '' : ', one sample per second'}.` : `${words}.`} Drag over a
        chart to zoom in.
      </PageHeader>
      <div className="toolbar">
        <Segmented
          label="Range"
          value={range}
          onChange={(next) => {
            setRange(next);
            setZoom(null);
          }}
          options={LIVE_RANGES.map(({ value, label }) => ({ value, label }))}
        />
        {zoom !== null && (
          <Button size="small" onClick={() => setZoom(null)}>
            Reset zoom
          </Button>
        )}
      </div>
      {latest === undefined ? (
        <Skeleton rows={6} height={48} />
      ) : (
        <>
          <section className="live-part" aria-label="Server">
            <h2>Server, now</h2>
            <ServerTiles sample={latest} samples={samples} />
          </section>
          <section className="live-part" aria-label="Engine">
            <div className="live-head">
              <h2>{engines.length > 1 ? 'Engines' : 'Engine'}</h2>
              {engines.length > 1 && (
                <Segmented
                  label="Engine"
                  value={engine?.model ?? ALL}
                  onChange={setChosen}
                  options={[
                    { value: ALL, label: 'All' },
                    ...engines.map(({ model, names }) => ({ value: model, label: names.join(', ') })),
                  ]}
                />
              )}
              {engines.length === 1 && engine !== undefined && <span className="muted">{engine.names.join(', ')}</span>}
            </div>
            {shown === null ? (
              past.isError ? (
                <ErrorState
                  error={past.error}
                  onRetry={() => {
                    void past.refetch();
                  }}
                />
              ) : (
                <Skeleton rows={6} height={48} />
              )
            ) : engines.length === 0 ? (
              <p className="muted">{isPast ? 'No data was recorded for this time.' : 'No model is loaded.'}</p>
            ) : engine === undefined ? (
              <>
                {!isPast && <TotalTiles total={totalOf(engines)} />}
                {!isPast && <EngineTable engines={engines} onSelect={setChosen} />}
                <LiveCharts
                  of="all"
                  shown={shown}
                  label="Chart of all engines"
                  charts={comparedViews(engines).map((view) => ({ view, now: null }))}
                />
              </>
            ) : (
              <>
                {!isPast && <EngineTiles engine={engine} />}
                <LiveCharts
                  of={engine.model}
                  shown={shown}
                  label="Chart of the engine"
                  charts={ENGINE_VIEWS.map((view) => ({
                    now: isPast ? null : inWords(view, engine),
                    limit: limitOf(view.limit),
                    view: {
                      ...view,
                      series: view.series.map((one) => ({ ...one, of: ofEngine(engine.model, one.of) })),
                    },
                  }))}
                />
              </>
            )}
          </section>
          <LiveSenders
            range={range}
            zoom={zoom}
            words={words}
            paused={paused}
            onZoom={(from, to) => {
              if (to - from >= MIN_ZOOM_S) setZoom({ from, to });
            }}
          />
          {shown !== null && (
            <section className="live-part" aria-label="Server charts">
              <h2>Requests and process</h2>
              <LiveCharts
                of="server"
                shown={shown}
                label="Chart of the server"
                charts={SERVER_VIEWS.map((view) => ({
                  view,
                  now: isPast || view.noNow === true ? null : inWords(view, latest as LiveSample),
                }))}
              />
            </section>
          )}
          <section className="live-part" aria-label="Prompt cache">
            <PromptCachePanel paused={paused} />
          </section>
          <Changes marks={changes} />
        </>
      )}
    </>
  );
}

/** Lists the setting changes that are marked by dashed lines in the charts. */
function Changes({ marks }: { marks: readonly LiveMark[] }): ReactNode {
  if (marks.length === 0) return null;
  return (
    <section className="live-part" aria-label="Changes">
      <h2>Setting changes in this range</h2>
      <ul className="live-changes">
        {marks
          .slice(-20)
          .reverse()
          .map((mark) => (
            <li key={`${mark.at} ${mark.action}`}>
              <time dateTime={mark.at}>{dateTime(mark.at)}</time> <code>{mark.action}</code> {mark.target}{' '}
              <span className="muted">{mark.by ?? 'operator API'}</span>
            </li>
          ))}
      </ul>
    </section>
  );
}

function Controls({ live, at }: { live: Live; at: string | undefined }): ReactNode {
  const { connection, paused, setPaused, retry } = live;
  return (
    <>
      <span className="row" role="status">
        {paused && at !== undefined ? (
          <Badge tone="warn" dot>
            Paused at {clock.format(Date.parse(at))}
          </Badge>
        ) : (
          <ConnectionBadge connection={connection} />
        )}
      </span>
      {connection.state === 'waiting' && (
        <Button size="small" onClick={retry}>
          <Icon name="refresh" /> Connect now
        </Button>
      )}
      <Button size="small" aria-pressed={paused} onClick={() => setPaused(!paused)}>
        <Icon name={paused ? 'play' : 'pause'} /> {paused ? 'Resume' : 'Pause'}
      </Button>
    </>
  );
}

const clock = new Intl.DateTimeFormat('en-GB', { hour: '2-digit', minute: '2-digit', second: '2-digit' });

function ConnectionBadge({ connection }: { connection: Connection }): ReactNode {
  const [, tick] = useState(0);
  const waits = connection.state === 'waiting';
  useEffect(() => {
    if (!waits) return undefined;
    const timer = setInterval(() => tick((n) => n + 1), 500);
    return () => clearInterval(timer);
  }, [waits]);
  if (connection.state === 'open')
    return (
      <Badge tone="ok" dot>
        Live
      </Badge>
    );
  if (connection.state === 'waiting') {
    const seconds = Math.max(0, Math.ceil((connection.until - Date.now()) / 1000));
    return (
      <Badge tone="danger" dot>
        <span title={connection.reason}>Disconnected, retrying in {plural(seconds, 'second')}</span>
      </Badge>
    );
  }
  return <Badge dot>Connecting</Badge>;
}
