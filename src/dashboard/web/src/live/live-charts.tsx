// The live view's charts: in a grid or, on narrow screens, one at a time. Dragging over a range zooms in.
import { useEffect, useMemo, useState } from 'react';
import type { ReactNode } from 'react';
import { Chart } from '../components/chart.js';
import { Select } from '../components/field.js';
import type { Span } from './ranges.js';
import type { Samples } from './samples.js';
import type { ServerSeries, View } from './views.js';

const clock = new Intl.DateTimeFormat('en-GB', { hour: '2-digit', minute: '2-digit', second: '2-digit' });
const dayAndClock = new Intl.DateTimeFormat('en-GB', { dateStyle: 'medium', timeStyle: 'short' });
/** Update interval of charts, in samples, if the user prefers reduced motion. Numbers are updated with every sample. */
const CALM_EVERY_S = 5;
/** Times on the axis include the date if the range is longer than this. */
const CLOCK_ONLY_S = 6 * 3_600;

export interface Shown {
  samples: Samples;
  version: number;
  /** The range of the time axis. Null selects the last five minutes, or the last minute until there is more data. */
  span: Span | null;
  words: string;
  marks: readonly number[];
  onZoom: (from: number, to: number) => void;
}

/** `now`: the newest sample's values as text; null for past ranges. */
export interface ChartOf {
  view: View<ServerSeries>;
  now: string | null;
  limit?: { label: string; value: number } | undefined;
}

/** `of`: the subject of the charts, such as an engine. It is part of their keys, because a view can show charts for
 * several subjects. */
export function LiveCharts({
  of,
  shown,
  charts,
  label,
}: {
  of: string;
  shown: Shown;
  charts: readonly ChartOf[];
  label: string;
}): ReactNode {
  const isNarrow = useMedia('(max-width: 720px)');
  const [chosen, setChosen] = useState('');
  const only = charts.find(({ view }) => view.title === chosen) ?? charts[0];
  return (
    <>
      {isNarrow && (
        <Select
          label={label}
          hideLabel
          value={only?.view.title ?? ''}
          onChange={(event) => setChosen(event.target.value)}
          options={charts.map(({ view: { title } }) => ({ value: title, label: title }))}
        />
      )}
      <div className="charts">
        {(isNarrow && only !== undefined ? [only] : charts).map((chart) => (
          <LiveChart key={`${of} ${chart.view.title}`} of={of} shown={shown} {...chart} />
        ))}
      </div>
    </>
  );
}

function LiveChart({
  of,
  shown: { samples, version, span, words, marks, onZoom },
  view,
  now,
  limit,
}: { of: string; shown: Shown } & ChartOf): ReactNode {
  const calm = useMedia('(prefers-reduced-motion: reduce)');
  const moment = calm && span === null ? Math.floor(version / CALM_EVERY_S) : version;
  const key = view.series.map(({ label }) => label).join();
  const { times, series } = useMemo(() => {
    const [at, ...columns] = samples.columns(view.series.map(({ of: value }) => value));
    // New samples enter at the right end.
    const last = span?.to ?? at.at(-1) ?? 0;
    const first = span?.from ?? last - Math.min(300, Math.max(60, last - (at[0] ?? 0)));
    const head = at.length > 0 && at[0]! > first + 1 ? [first, at[0]! - 1] : [];
    const tail = span !== null && at.length > 0 && at.at(-1)! < last ? [last] : [];
    return {
      times: [...head, ...at, ...tail],
      series: view.series.map(({ label, color }, index) => ({
        label,
        values: [...head.map(() => null), ...columns[index]!, ...tail.map(() => null)],
        ...(color === undefined ? {} : { color }),
      })),
    };
    // The view's functions are recreated on each render, but read the same data. eslint-disable-next-line
    // react-hooks/exhaustive-deps
  }, [samples, moment, view.title, key, of, span]);
  const isShort = span === null || span.to - span.from <= CLOCK_ONLY_S;
  return (
    <div className="panel live-chart">
      <header>
        <h3>{view.title}</h3>
        {now !== null && <span className="live-now">{now}</span>}
      </header>
      <Chart
        title={`${view.title}, ${words}.${now === null ? '' : ` Now: ${now}.`} ${view.help}`}
        times={times}
        series={series}
        kind={view.kind ?? 'line'}
        height={168}
        noTable
        clockOnly={isShort}
        format={(value) => view.show(value)}
        formatTime={(at) => (isShort ? clock : dayAndClock).format(at * 1000)}
        marks={marks}
        onZoom={onZoom}
        {...(view.max === undefined ? {} : { max: view.max })}
        {...(limit === undefined ? {} : { limit })}
      />
      <p className="hint">{view.help}</p>
    </div>
  );
}

function useMedia(text: string): boolean {
  const [holds, setHolds] = useState(() => matchMedia(text).matches);
  useEffect(() => {
    const query = matchMedia(text);
    const follow = (): void => setHolds(query.matches);
    follow();
    query.addEventListener('change', follow);
    return () => query.removeEventListener('change', follow);
  }, [text]);
  return holds;
}
