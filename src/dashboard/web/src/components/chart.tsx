// Time-series charts, drawn by uPlot on a canvas, with a text legend and a table of the same numbers.
import { useEffect, useId, useMemo, useRef, useState } from 'react';
import type { ReactNode } from 'react';
import uPlot from 'uplot';
import { short } from '../format.js';
import { onThemeChange } from '../theme.js';

export interface ChartSeries {
  label: string;
  values: readonly (number | null)[];
  /** Palette index (0 to 7). Default: the series' position. */
  color?: number;
}

export interface ChartProps {
  title: string;
  /** Seconds since the Unix epoch, ascending. Each series has one value per time. */
  times: readonly number[];
  series: readonly ChartSeries[];
  /** bars: stacked, one bar per time; area: stacked; line: not stacked. */
  kind?: 'line' | 'area' | 'bars';
  format?: (value: number) => string;
  height?: number;
  /** Upper end of the value axis, such as 1 for fractions. Defaults to the largest value. */
  max?: number;
  /** Formats a time for the table and the legend. */
  formatTime?: (seconds: number) => string;
  /** Shows the axis and times in UTC. For data by day, because the server's days are UTC days. */
  utc?: boolean;
  /** Omits the table of numbers. Used for data that changes every second and is shown as text elsewhere. */
  noTable?: boolean;
  /** Times on the axis are shown without the date. */
  clockOnly?: boolean;
  /** Times of setting changes, drawn as vertical lines. */
  marks?: readonly number[];
  /** A horizontal line, named in the legend. Drawn only if the values come near it. */
  limit?: { label: string; value: number };
  /** Called after the user has dragged over a time range. */
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

// Colors are CSS custom properties that depend on the theme. They are set on a probe element, so that the browser
// resolves them.
function colorsOf(host: HTMLElement): { text: string; grid: string; series: string[] } {
  const probe = document.createElement('span');
  probe.style.transitionProperty = 'none'; // without this, each color would start a transition from the previous one
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

/**
 * Returns the values that the chart draws. Stacked series become running sums, starting with the last series, and are
 * drawn largest first.
 */
function drawn(times: readonly number[], series: readonly ChartSeries[], stacked: boolean): uPlot.AlignedData {
  if (!stacked) return [[...times], ...series.map(({ values }) => [...values])];
  const sums = new Array<number>(times.length).fill(0);
  // If no series has a value at a point in time, the chart shows a gap rather than zero.
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
          size: 64,
          space: 40,
          grid: { ...axis.grid },
          values: (_, ticks) => ticks.map((tick) => latest.current.format(tick)),
        },
      ],
      // Each stacked series is filled only down to the next one, so that translucent colors do not mix.
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
    // Depends only on the shape of `series`, because new values must not create a new chart. eslint-disable-next-line
    // react-hooks/exhaustive-deps
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
          <summary>Show as table</summary>
          <div className="table-frame scroll" tabIndex={0} role="region" aria-label={`${title}, as table`}>
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

/** Extends the axis up to the limit line if the values come near it. */
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

// A value without neighbors cannot be drawn as a line, so it is drawn as a point.
function lonely(u: uPlot, index: number): number[] {
  const values = u.data[index] ?? [];
  return Array.from(values, (_, i) => i).filter(
    (i) => values[i] != null && values[i - 1] == null && values[i + 1] == null,
  );
}

// Adds half a bar's width at both ends.
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
