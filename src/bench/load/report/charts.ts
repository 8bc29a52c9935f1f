// A report's charts as SVG: curves, time series, scatter plots and phase bars. Colors come from the page's style sheet,
// which handles light and dark mode. Pure; callers limit the number of points.

import { logTicks, ticks } from './scale.js';

export interface Curve {
  readonly name: string;
  readonly points: readonly (readonly [x: number, y: number])[];
}

export interface Axes {
  readonly title: string;
  readonly x: string;
  readonly y: string;
  readonly logX?: boolean;
  readonly most?: number;
}

const WIDTH = 620,
  HEIGHT = 300,
  LEFT = 62,
  RIGHT = 18,
  TOP = 46,
  BOTTOM = 42;

export const escape = (text: string): string => text.replace(/[&<>"']/g, (c) => `&#${c.charCodeAt(0)};`);
const round = (value: number): string => String(Math.round(value * 10) / 10);
const label = (x: number, y: number, words: string, more = ''): string =>
  `<text x="${round(x)}" y="${round(y)}" ${more}>${escape(words)}</text>`;
const shown = (value: number): string =>
  Math.abs(value) >= 1000 ? `${Number((value / 1000).toPrecision(3))}k` : String(Number(value.toPrecision(3)));

interface Frame {
  readonly parts: string[];
  readonly px: (x: number) => number;
  readonly py: (y: number) => number;
}

function frame(axes: Axes, xs: readonly number[], ys: readonly number[], names: readonly string[]): Frame {
  const yTicks = ticks(axes.most ?? ys.reduce((most, y) => Math.max(most, y), 0));
  const yMost = yTicks.at(-1) ?? 1;
  const positive = axes.logX === true ? xs.filter((x) => x > 0) : xs;
  const least = axes.logX === true ? positive.reduce((low, x) => Math.min(low, x), Infinity) : 0;
  const most = positive.reduce((high, x) => Math.max(high, x), axes.logX === true ? 0 : 1e-9);
  const isLog = axes.logX === true && positive.length > 0;
  const xTicks = isLog ? logTicks(least, most) : ticks(most);
  const scaled = (x: number): number => (isLog ? Math.log10(Math.max(x, xTicks[0] as number)) : x);
  const [from, to] = [scaled(xTicks[0] ?? 0), scaled(xTicks.at(-1) ?? 1)];
  const px = (x: number): number => LEFT + ((scaled(x) - from) / (to - from || 1)) * (WIDTH - LEFT - RIGHT);
  const py = (y: number): number => HEIGHT - BOTTOM - (Math.min(y, yMost) / yMost) * (HEIGHT - TOP - BOTTOM);
  const parts = [
    label(LEFT, 16, axes.title, 'class="title"'),
    ...yTicks.map(
      (y) =>
        `<line class="grid" x1="${LEFT}" x2="${WIDTH - RIGHT}" y1="${round(py(y))}" y2="${round(py(y))}"/>${label(LEFT - 6, py(y) + 4, shown(y), 'class="tick" text-anchor="end"')}`,
    ),
    ...xTicks.map((x) => label(px(x), HEIGHT - BOTTOM + 16, shown(x), 'class="tick" text-anchor="middle"')),
    label((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 8, axes.x, 'class="tick" text-anchor="middle"'),
    label(6, TOP - 8, axes.y, 'class="tick"'),
  ];
  let at = WIDTH - RIGHT;
  for (const [index, name] of [...names.entries()].reverse()) {
    if (names.length < 2) break;
    at -= name.length * 7 + 22;
    parts.push(
      `<rect class="fill${index % 6}" x="${at}" y="26" width="10" height="10"/>${label(at + 14, 35, name, 'class="tick"')}`,
    );
  }
  return { parts, px, py };
}

const drawing = (title: string, parts: readonly string[], height = HEIGHT): string =>
  `<svg viewBox="0 0 ${WIDTH} ${height}" role="img" aria-label="${escape(title)}">${parts.join('')}</svg>`;

/** Lines that connect points in the given order. */
export function curves(axes: Axes, lines: readonly Curve[]): string {
  const all = lines.flatMap(({ points }) => points);
  const { parts, px, py } = frame(
    axes,
    all.map(([x]) => x),
    all.map(([, y]) => y),
    lines.map(({ name }) => name),
  );
  lines.forEach(({ points }, index) =>
    parts.push(
      `<polyline class="line${index % 6}" points="${points.map(([x, y]) => `${round(px(x))},${round(py(y))}`).join(' ')}"/>`,
    ),
  );
  return drawing(axes.title, parts);
}

/** A scatter plot in which each dot has a tooltip. */
export function dots(
  axes: Axes,
  groups: readonly {
    readonly name: string;
    readonly points: readonly { readonly x: number; readonly y: number; readonly words: string }[];
  }[],
): string {
  const all = groups.flatMap(({ points }) => points);
  const { parts, px, py } = frame(
    axes,
    all.map(({ x }) => x),
    all.map(({ y }) => y),
    groups.map(({ name }) => name),
  );
  groups.forEach(({ points }, index) => {
    for (const { x, y, words } of points)
      parts.push(
        `<circle class="fill${index % 6}" cx="${round(px(x))}" cy="${round(py(y))}" r="2.2"><title>${escape(words)}</title></circle>`,
      );
  });
  return drawing(axes.title, parts);
}

export interface Bar {
  readonly name: string;
  readonly from: number;
  readonly parts: readonly number[];
  readonly words: string;
}

/** Rows of consecutive segments on a common time axis. */
export function bars(title: string, x: string, names: readonly string[], rows: readonly Bar[]): string {
  const row = 16;
  const height = TOP + rows.length * row + BOTTOM;
  const ends = rows.map(({ from, parts }) => from + parts.reduce((sum, part) => sum + part, 0));
  const first = rows.reduce((least, { from }) => Math.min(least, from), Infinity);
  const xTicks = ticks(ends.reduce((most, end) => Math.max(most, end), 0) - (rows.length === 0 ? 0 : first));
  const px = (value: number): number => LEFT + (value / (xTicks.at(-1) ?? 1)) * (WIDTH - LEFT - RIGHT);
  const parts = [
    label(LEFT, 16, title, 'class="title"'),
    label((LEFT + WIDTH - RIGHT) / 2, height - 8, x, 'class="tick" text-anchor="middle"'),
  ];
  for (const tick of xTicks)
    parts.push(
      `<line class="grid" x1="${round(px(tick))}" x2="${round(px(tick))}" y1="${TOP}" y2="${height - BOTTOM}"/>${label(px(tick), height - BOTTOM + 16, shown(tick), 'class="tick" text-anchor="middle"')}`,
    );
  names.forEach((name, index) =>
    parts.push(
      `<rect class="fill${index}" x="${LEFT + index * 130}" y="26" width="10" height="10"/>${label(LEFT + index * 130 + 14, 35, name, 'class="tick"')}`,
    ),
  );
  rows.forEach(({ name, from, parts: lengths, words }, at) => {
    const y = TOP + at * row + 2;
    let start = from - first;
    const boxes = lengths.map((length, index) => {
      const box = `<rect class="fill${index}" x="${round(px(start))}" y="${y}" width="${round(Math.max(0.5, px(start + length) - px(start)))}" height="${row - 4}"/>`;
      start += length;
      return box;
    });
    parts.push(
      `<g><title>${escape(words)}</title>${label(LEFT - 6, y + 10, name, 'class="tick" text-anchor="end"')}${boxes.join('')}</g>`,
    );
  });
  return drawing(title, parts, height);
}
