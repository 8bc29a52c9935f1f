// Prints the results of the prefix benchmark.
import type { Spread } from './statistics.js';

export const round = (value: number): string => value.toFixed(value < 100 ? 1 : 0);
export const shown = ({ median, min, max }: Pick<Spread, 'median' | 'min' | 'max'>): string =>
  `${round(median)} (${round(min)} to ${round(max)})`;
export const share = (part: number, whole: number): string => `${((100 * part) / whole).toFixed(1)}%`;
export const signed = (change: number): string => `${change < 0 ? '' : '+'}${(100 * change).toFixed(1)}%`;

export function print(title: string, rows: readonly (readonly [string, string])[]): void {
  process.stdout.write(`${title}\n${rows.map(([name, value]) => `  ${name.padEnd(46)}${value}\n`).join('')}\n`);
}
