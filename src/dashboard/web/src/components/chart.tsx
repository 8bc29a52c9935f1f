// Charts over time: uPlot on a canvas, with a legend in text and the same numbers as a table.
import { useEffect, useId, useMemo, useRef, useState } from 'react';
import type { ReactNode } from 'react';
import uPlot from 'uplot';
import { short } from '../format.js';
import { onThemeChange } from '../theme.js';

export interface ChartSeries {
  label: string;
  values: readonly (number | null)[];
  /** Number of the colour in the palette (0 … 7); by position where it is not given. */
  color?: number;
}

export interface ChartProps {
  title: string;
  /** Seconds since 1970, ascending; one per value. */
  times: readonly number[];
  series: readonly ChartSeries[];
  /** bars: one per time, stacked; area: stacked; line: each by itself. */
  kind?: 'line' | 'area' | 'bars';
  format?: (value: number) => string;
  height?: number;
  /** Upper end of the axis, e.g. 1 for shares; fits the values where it is not given. */
  max?: number;
  /** How a time reads in the table and the legend. */
  formatTime?: (seconds: number) => string;
  /** Axis and times in UTC: for days, which the server counts so. */
  utc?: boolean;
  /** No table: for what changes every second and is said elsewhere in words. */
  noTable?: boolean;
  /** Times on the axis without the day. */
  clockOnly?: boolean;
  /** Moments at which something was changed: lines from top to bottom. */
  marks?: readonly number[];
  /** A line across, named in the legend; drawn where the values come near it. */
  limit?: { label: string; value: number };
  /** A span of time was dragged over. */
  onZoom?: (from: number, to: number) => void;
}

const defaultTime = new Intl.DateTimeFormat('en-GB', { dateStyle: 'medium', timeStyle: 'short' });
const utcDay = new Intl.DateTimeFormat('en-GB', { dateStyle: 'medium', timeZone: 'UTC' });
const HOUR_FORMATS: uPlot.Axis.Values = [
  [3600 * 24 * 365, '{YYYY}', null, null, null, null, null, null, 1],
  [3600 * 24 * 28, '{MMM}', '\n{YYYY}', null, null, null, null, null, 1],
  [3600 * 24, '{D} {MMM}', '\n{YYYY}', null, null, null, null, null, 1],
  [3600, '{HH}:00', '\n{D} {MMM}', null, '\n{D} {MMM}', null, null, null, 1],
  [60, '{HH}:{mm}', '\n{D} {MMM}', null, '\n{D} {MMM}', null, null, null, 1],
  [1, ':{ss}', '\n{HH}:{mm}', null, '\n{HH}:{mm}', null, '\n{HH}:{mm}', null, 1],
];

const CLOCK_FORMATS: uPlot.Axis.Values = [
  [60, '{HH}:{mm}', null, null, null, null, null, null, 1],
  [1, '{HH}:{mm}:{ss}', null, null, null, null, null, null, 1],
];

// Colours are custom properties that depend on the theme: the browser computes them on an element.
function colorsOf(host: HTMLElement): { text: string; grid: string; series: string[] } {
  const probe = document.createElement('span');
  probe.style.transitionProperty = 'none'; // else each colour would begin as the one before
  host.append(probe);
  const read = (name: string): string => {
    probe.style.color = `var(${name})`;
    return getComputedStyle(probe).color;
  };
  const colors = {
    text: read('--text-2'),
    grid: read('--border'),
    series: Array.from({ length: 8 }, (_, i) => read(`--series-${i}`)),
  };
  probe.remove();
  return colors;
}

const translucent = (color: string, alpha: number): string =>
  `color-mix(in srgb, ${color} ${alpha * 100}%, transparent)`;

/** What is drawn: the values, or for stacks sums from the last series up, drawn from the largest to the smallest. */
function drawn(times: readonly number[], series: readonly ChartSeries[], stacked: boolean): uPlot.AlignedData {
  if (!stacked) return [[...times], ...series.map(({ values }) => [...values])];
  const sums = new Array<number>(times.length).fill(0);
  // Where no series has a value there is nothing, not nought.
  const rows = [...series].reverse().map(({ values }) =>
    sums.map((sum, i) => {
      sums[i] = sum + (values[i] ?? 0);
      return series.some((one) => one.values[i] != null) ? sums[i] : null;
    }),
  );
  return [[...times], ...rows.reverse()];
}

export function Chart({
  title,
  times,
  series,
  kind = 'line',
  format = short,
  height = 240,
  max,
  utc = false,
  formatTime = (at) => (utc ? utcDay : defaultTime).format(at * 1000),
  noTable = false,
  clockOnly = false,
  marks,
  limit,
  onZoom,
}: ChartProps): ReactNode {
  const host = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const [theme, setTheme] = useState(0);
  const [hovered, setHovered] = useState<number | null>(null);
  const id = useId();
  const stacked = kind !== 'line';
  const shape = series.map(({ label, color }) => `${label}\u0000${color ?? ''}`).join('\u0001');
  const data = useMemo(() => drawn(times, series, stacked), [times, series, stacked]);
  const latest = useRef({ data, format, marks, limit, onZoom });
  latest.current = { data, format, marks, limit, onZoom };

  useEffect(() => onThemeChange(() => setTheme((n) => n + 1)), []);

  useEffect(() => {
    const element = host.current;
    if (element === null) return undefined;
    const colors = colorsOf(element);
    const bars = uPlot.paths.bars?.({ size: [0.7, 48], gap: 1 });
    const axis = {
      stroke: colors.text,
      grid: { stroke: colors.grid, width: 1 },
      ticks: { stroke: colors.grid, width: 1, size: 4 },
      font: '11px system-ui, sans-serif',
    };
    const options: uPlot.Options = {
      width: Math.max(200, element.clientWidth),
      height,
      legend: { show: false },
      ...(utc ? { tzDate: (at: number) => uPlot.tzDate(new Date(at * 1000), 'Etc/UTC') } : {}),
      cursor: {
        y: false,
        points: { show: kind !== 'bars' },
        drag: { x: onZoom !== undefined, y: false, setScale: false },
      },
      scales: {
        x: { time: true, ...(kind === 'bars' ? { range: barRange } : {}) },
        y: { range: (_, __, top) => [0, max ?? (top > 0 ? niceTop(withLimit(top, latest.current.limit?.value)) : 1)] },
      },
      axes: [
        { ...axis, values: clockOnly ? CLOCK_FORMATS : HOUR_FORMATS, space: 72, ...(clockOnly ? { size: 28 } : {}) },
        {
          ...axis,
          size: 56,
          space: 40,
          grid: { ...axis.grid },
          values: (_, ticks) => ticks.map((tick) => latest.current.format(tick)),
        },
      ],
      // Of a stack each series fills down to the next one only: colours do not mix.
      ...(kind === 'area' ? { bands: series.slice(1).map((_, i): uPlot.Band => ({ series: [i + 1, i + 2] })) } : {}),
      series: [
        {},
        ...series.map((one, i): uPlot.Series => {
          const color = colors.series[(one.color ?? i) % colors.series.length] ?? colors.text;
          return {
            label: one.label,
            stroke: color,
            width: kind === 'bars' ? 0 : 1.5,
            points: kind === 'bars' ? { show: false } : { show: true, size: 4, width: 0, fill: color, filter: lonely },
            ...(kind === 'bars' ? { fill: color, ...(bars === undefined ? {} : { paths: bars }) } : {}),
            ...(kind === 'area' ? { fill: translucent(color, 0.4) } : {}),
          };
        }),
      ],
      hooks: {
        setCursor: [(u) => setHovered(u.cursor.idx ?? null)],
        draw: [(u) => drawLines(u, latest.current.marks ?? [], latest.current.limit?.value, colors.text)],
        setSelect: [
          (u) => {
            const { left, width } = u.select;
            if (width < 8) return;
            u.setSelect({ left: 0, width: 0, top: 0, height: 0 }, false);
            latest.current.onZoom?.(u.posToVal(left, 'x'), u.posToVal(left + width, 'x'));
          },
        ],
      },
    };
    const made = new uPlot(options, latest.current.data, element);
    plot.current = made;
    const observer = new ResizeObserver(() => {
      const width = element.clientWidth;
      if (width > 0 && width !== made.width) made.setSize({ width, height });
    });
    observer.observe(element);
    return () => {
      observer.disconnect();
      made.destroy();
      plot.current = null;
    };
    // `series` only by its shape: new values do not make a new chart.
    // eslint-disable-next-line react-hooks/exhaustive-deps
  }, [kind, height, max, shape, theme, utc]);

  useEffect(() => {
    plot.current?.setData(data);
  }, [data]);

  const at = hovered !== null && hovered < times.length ? hovered : null;
  return (
    <figure className="chart" aria-labelledby={id}>
      <figcaption id={id} className="visually-hidden">
        {title}
      </figcaption>
      <div className="chart-legend" aria-hidden="true">
        {series.map((one, i) => (
          <span key={one.label} className="chart-key">
            <span className="chart-swatch" style={{ background: `var(--series-${(one.color ?? i) % 8})` }} />
            {one.label}
            {at !== null && <b>{one.values[at] == null ? '–' : format(one.values[at])}</b>}
          </span>
        ))}
        {limit !== undefined && (
          <span className="chart-key">
            <span className="chart-limit" />
            {limit.label} <b>{format(limit.value)}</b>
          </span>
        )}
        {at !== null && times[at] !== undefined && <span className="chart-time">{formatTime(times[at])}</span>}
      </div>
      <div className="chart-canvas" ref={host} aria-hidden="true" style={{ height }} />
      {!noTable && (
        <details className="chart-table">
          <summary>Show as a table</summary>
          <div className="table-frame scroll" tabIndex={0} role="region" aria-label={`${title}, as a table`}>
            <table className="table plain">
              <caption className="visually-hidden">{title}</caption>
              <thead>
                <tr>
                  <th scope="col">Time</th>
                  {series.map(({ label }) => (
                    <th key={label} scope="col" className="numeric">
                      {label}
                    </th>
                  ))}
                </tr>
              </thead>
              <tbody>
                {times.map((time, i) => (
                  <tr key={time}>
                    <th scope="row">{formatTime(time)}</th>
                    {series.map((one) => (
                      <td key={one.label} className="numeric">
                        {one.values[i] == null ? '–' : format(one.values[i])}
                      </td>
                    ))}
                  </tr>
                ))}
              </tbody>
            </table>
          </div>
        </details>
      )}
    </figure>
  );
}

/** The axis reaches up to a limit that the values come near. */
const withLimit = (top: number, limit: number | undefined): number =>
  limit !== undefined && limit > top && top >= 0.3 * limit ? limit : top;

function drawLines(u: uPlot, marks: readonly number[], limit: number | undefined, color: string): void {
  const {
    ctx,
    bbox: { left, top, width, height },
  } = u;
  const line = (x1: number, y1: number, x2: number, y2: number): void => {
    ctx.beginPath();
    ctx.moveTo(x1, y1);
    ctx.lineTo(x2, y2);
    ctx.stroke();
  };
  ctx.save();
  ctx.strokeStyle = color;
  ctx.lineWidth = devicePixelRatio;
  ctx.setLineDash([4 * devicePixelRatio, 3 * devicePixelRatio]);
  for (const at of marks) {
    const x = u.valToPos(at, 'x', true);
    if (x >= left && x <= left + width) line(x, top, x, top + height);
  }
  const y = limit === undefined ? -1 : u.valToPos(limit, 'y', true);
  if (y >= top && y <= top + height) line(left, y, left + width, y);
  ctx.restore();
}

// A value with nothing on either side is no line: it is drawn as a point.
function lonely(u: uPlot, index: number): number[] {
  const values = u.data[index] ?? [];
  return Array.from(values, (_, i) => i).filter(
    (i) => values[i] != null && values[i - 1] == null && values[i + 1] == null,
  );
}

// Half a bar's room at both ends.
function barRange(u: uPlot, min: number, max: number): [number, number] {
  const times = u.data[0];
  const step = times.length > 1 ? (times[1] as number) - (times[0] as number) : 3600;
  return [min - step / 2, max + step / 2];
}

function niceTop(top: number): number {
  const size = 10 ** Math.floor(Math.log10(top));
  const steps = [1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10];
  return (steps.find((step) => step * size >= top * 1.02) ?? 10) * size;
}
