// Reads BurstGPT traces (HPMLL/BurstGPT), which are CSV with a header: `Timestamp` in seconds, `Request tokens`,
// `Response tokens`. Rows without response tokens are failed requests and are skipped.

import { LoadError } from '../load-error.js';
import type { TraceRow } from '../types.js';
import { countIn, fileLines, MAX_ROWS, wrongLine } from './file-lines.js';
import { fromZero } from './mooncake.js';

const COLUMNS = ['Timestamp', 'Request tokens', 'Response tokens'] as const;
const LONGEST = 10_000_000;

/** The rows in chronological order. `left`: number of skipped rows. Throws a LoadError that names the file and line. */
export async function readBurstGpt(path: string): Promise<{ rows: TraceRow[]; left: number }> {
  const rows: TraceRow[] = [];
  let left = 0;
  let places: number[] | null = null;
  for await (const { line, text } of fileLines(path)) {
    const cells = text.split(',').map((cell) => cell.trim().replace(/^"(.*)"$/, '$1'));
    if (places === null) {
      const lower = cells.map((cell) => cell.toLowerCase());
      places = COLUMNS.map((column) => lower.indexOf(column.toLowerCase()));
      const missing = COLUMNS.find((_, at) => (places as number[])[at] === -1);
      if (missing !== undefined) throw wrongLine(path, line, `the header has no column "${missing}"`);
      continue;
    }
    const [at = 0, prompt = 0, output = 0] = places.map((place, column) => {
      const cell = cells[place];
      const name = COLUMNS[column] as string;
      if (cell === undefined || cell === '') throw wrongLine(path, line, `has no ${name}`);
      const value = Number(cell);
      if (Number.isNaN(value)) throw wrongLine(path, line, `${name} is "${cell}", not a number`);
      return countIn(value, name, path, line, column === 0 ? Number.MAX_SAFE_INTEGER : LONGEST);
    });
    if (output === 0 || prompt === 0) left++;
    else rows.push({ at: at * 1000, promptTokens: Math.round(prompt), outputTokens: Math.round(output) });
    if (rows.length === MAX_ROWS) break;
  }
  if (rows.length === 0) throw new LoadError(`${path}: has no requests with a response`);
  return { rows: fromZero(rows), left };
}
