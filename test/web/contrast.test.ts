// Tests that the dashboard's colors meet WCAG AA: a contrast of 4.5:1 for text and 3:1 for control borders, meters and
// chart lines.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'tap';
import { root } from '../e2e/monolith.js';

const tokens = readFileSync(join(root, 'src/dashboard/web/src/styles/tokens.css'), 'utf8');
const colors = new Map(
  [...tokens.matchAll(/--([\w-]+): light-dark\((#[0-9a-f]{6}), (#[0-9a-f]{6})\)/g)].map(([, name, light, dark]) => [
    name as string,
    { light: light as string, dark: dark as string },
  ]),
);

function luminance(color: string): number {
  const [r = 0, g = 0, b = 0] = [1, 3, 5].map((at) => {
    const part = parseInt(color.slice(at, at + 2), 16) / 255;
    return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}

function contrast(a: string, b: string): number {
  const [light = 0, dark = 0] = [luminance(a), luminance(b)].sort((x, y) => y - x);
  return (light + 0.05) / (dark + 0.05);
}

const grounds = ['bg', 'surface', 'surface-2'];
const pairs: [ink: string, ground: string, least: number][] = [
  ...['text', 'text-2', 'accent', 'danger'].flatMap((ink) =>
    grounds.map((ground): [string, string, number] => [ink, ground, 4.5]),
  ),
  ['on-accent', 'accent', 4.5],
  ['on-accent', 'accent-hover', 4.5],
  ['on-danger', 'danger', 4.5],
  ['on-danger', 'danger-hover', 4.5],
  ['bg', 'text', 4.5],
  ...['accent', 'danger', 'warn', 'ok'].flatMap((tone): [string, string, number][] => [
    [tone, `${tone}-soft`, 4.5],
    ['text', `${tone}-soft`, 4.5],
  ]),
  ...['border-strong', 'focus'].flatMap((edge) =>
    ['bg', 'surface'].map((ground): [string, string, number] => [edge, ground, 3]),
  ),
  ...['accent', 'warn', 'danger'].map((fill): [string, string, number] => [fill, 'surface-3', 3]),
  ...Array.from({ length: 8 }, (_, i): [string, string, number] => [`series-${i}`, 'surface', 3]),
];

for (const scheme of ['light', 'dark'] as const) {
  test(`text and controls have enough contrast in the ${scheme} scheme`, (t) => {
    for (const [ink, ground, least] of pairs) {
      const a = colors.get(ink)?.[scheme];
      const b = colors.get(ground)?.[scheme];
      const ratio = a === undefined || b === undefined ? 0 : contrast(a, b);
      t.ok(ratio >= least, `${ink} on ${ground}: ${ratio.toFixed(2)} of ${least}`);
    }
    t.end();
  });
}
