// Creates small SVG charts: line charts with spread bars, and stacked horizontal bars. Uses no library, script or
// embedded font. The background is white, so a chart looks the same on light and dark pages.

import { ticks } from '../../src/bench/load/report/scale.js';

export interface LinePoint {
  x: number;
  y: number;
  low?: number;
  high?: number;
  label?: string;
}
export interface Line {
  name: string;
  points: LinePoint[];
}
export interface LineChart {
  title: string;
  note: string;
  x: string;
  y: string;
  logX?: boolean;
  lines: Line[];
}
export interface Part {
  name: string;
  value: number;
  dark: number;
} // `dark`: the fraction of the bar drawn solid, 0 to 1
export interface BarChart {
  title: string;
  note: string;
  unit: string;
  bars: { name: string; parts: Part[] }[];
}

const COLORS = ['#2463c8', '#d2622a', '#2f8f5b', '#8a4fbf', '#b08900', '#5c6b7a', '#c23d6d', '#3aa0a8'];
const WIDTH = 760;

const escape = (text: string): string =>
  text.replace(/[&<>"]/g, (c) => ({ '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;' })[c] ?? c);
const round = (value: number): string => value.toFixed(1).replace(/\.0$/, '');
const text = (x: number, y: number, words: string, more = ''): string =>
  `<text x="${round(x)}" y="${round(y)}" ${more}>${escape(words)}</text>`;
const color = (index: number): string => COLORS[index % COLORS.length] ?? '#000';

function card(height: number, title: string, note: string, body: string[]): string {
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${height}" width="${WIDTH}" height="${height}" font-family="system-ui, sans-serif" font-size="12" fill="#222">`,
    `<rect width="${WIDTH}" height="${height}" rx="6" fill="#fff"/>`,
    text(16, 26, title, 'font-size="15" font-weight="600"'),
    text(16, 44, note, 'fill="#666"'),
    ...body,
    '</svg>',
    '',
  ].join('\n');
}

export function lineChart(chart: LineChart): string {
  const height = 400,
    left = 64,
    right = 170,
    top = 64,
    bottom = 52;
  const points = chart.lines.flatMap((line) => line.points);
  const yTicks = ticks(Math.max(...points.map((point) => point.high ?? point.y)));
  const yMost = yTicks.at(-1) ?? 1;
  const xs = [...new Set(points.map((point) => point.x))].sort((a, b) => a - b);
  const scaled = (x: number): number => (chart.logX === true ? Math.log2(Math.max(x, 1)) : x);
  const xLeast = chart.logX === true ? scaled(xs[0] ?? 1) : 0,
    xMost = scaled(xs.at(-1) ?? 1);
  const px = (x: number): number => left + ((scaled(x) - xLeast) / (xMost - xLeast || 1)) * (WIDTH - left - right);
  const py = (y: number): number => height - bottom - (y / yMost) * (height - top - bottom);
  const xTicks = chart.logX === true ? xs : ticks(xs.at(-1) ?? 1).filter((x) => x <= (xs.at(-1) ?? 1) * 1.001);
  const body = [
    ...yTicks.map(
      (y) =>
        `<line x1="${left}" x2="${WIDTH - right}" y1="${round(py(y))}" y2="${round(py(y))}" stroke="#e4e4e4"/>${text(left - 8, py(y) + 4, y.toLocaleString('en'), 'text-anchor="end" fill="#666"')}`,
    ),
    ...xTicks.map((x) => text(px(x), height - bottom + 18, x.toLocaleString('en'), 'text-anchor="middle" fill="#666"')),
    text((left + WIDTH - right) / 2, height - 14, chart.x, 'text-anchor="middle"'),
    text(left, top - 8, chart.y),
  ];
  chart.lines.forEach((line, index) => {
    const stroke = color(index);
    body.push(
      `<polyline fill="none" stroke="${stroke}" stroke-width="2" points="${line.points.map((point) => `${round(px(point.x))},${round(py(point.y))}`).join(' ')}"/>`,
    );
    for (const point of line.points) {
      if (point.low !== undefined && point.high !== undefined)
        body.push(
          `<line x1="${round(px(point.x))}" x2="${round(px(point.x))}" y1="${round(py(point.low))}" y2="${round(py(point.high))}" stroke="${stroke}"/>`,
        );
      body.push(`<circle cx="${round(px(point.x))}" cy="${round(py(point.y))}" r="3.5" fill="${stroke}"/>`);
      if (point.label !== undefined)
        body.push(text(px(point.x) + 6, py(point.y) - 6, point.label, `fill="${stroke}" font-size="11"`));
    }
    body.push(
      `<rect x="${WIDTH - right + 16}" y="${top + 20 * index}" width="12" height="12" fill="${stroke}"/>`,
      text(WIDTH - right + 34, top + 10 + 20 * index, line.name),
    );
  });
  return card(height, chart.title, chart.note, body);
}

export function barChart(chart: BarChart): string {
  const left = 150,
    right = 60,
    top = 62,
    row = 34;
  const names = [...new Set(chart.bars.flatMap((bar) => bar.parts.map((part) => part.name)))];
  const legendTop = top + row * chart.bars.length + 34,
    perLine = 3;
  const height = legendTop + 20 * Math.ceil(names.length / perLine) + 12;
  const xTicks = ticks(Math.max(...chart.bars.map((bar) => bar.parts.reduce((sum, part) => sum + part.value, 0))));
  const most = xTicks.at(-1) ?? 1;
  const px = (value: number): number => left + (value / most) * (WIDTH - left - right);
  const body = xTicks.map(
    (x) =>
      `<line x1="${round(px(x))}" x2="${round(px(x))}" y1="${top}" y2="${top + row * chart.bars.length}" stroke="#e4e4e4"/>${text(px(x), top + row * chart.bars.length + 16, `${x.toLocaleString('en')}${chart.unit}`, 'text-anchor="middle" fill="#666"')}`,
  );
  chart.bars.forEach((bar, index) => {
    const y = top + row * index + 6;
    body.push(text(left - 8, y + 15, bar.name, 'text-anchor="end"'));
    let at = 0;
    for (const part of bar.parts) {
      const fill = color(names.indexOf(part.name)),
        width = px(part.value) - px(0);
      body.push(
        `<rect x="${round(px(at))}" y="${y}" width="${round(width)}" height="22" fill="${fill}" fill-opacity="0.35"/>`,
      );
      body.push(
        `<rect x="${round(px(at))}" y="${y}" width="${round(width * Math.min(1, part.dark))}" height="22" fill="${fill}"/>`,
      );
      at += part.value;
    }
  });
  names.forEach((name, index) => {
    const x = 16 + (index % perLine) * 245,
      y = legendTop + 20 * Math.floor(index / perLine);
    body.push(`<rect x="${x}" y="${y}" width="12" height="12" fill="${color(index)}"/>`, text(x + 18, y + 10, name));
  });
  return card(height, chart.title, chart.note, body);
}
