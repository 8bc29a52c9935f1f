// Reads traces in Mooncake's format (FAST 2025; kvcache-ai/Mooncake, FAST25-release/traces): JSON lines with
// `timestamp` in milliseconds, `input_length` and `output_length` in tokens, and `hash_ids`, one number per block of
// 512 prompt tokens. Two prompts that share a number have identical tokens up to the end of that block.

import { LoadError } from '../load-error.js';
import type { TraceRow } from '../types.js';
import { countIn, fileLines, MAX_ROWS, wrongLine } from './file-lines.js';

export const MOONCAKE_BLOCK_TOKENS = 512;
const LONGEST = 10_000_000;

/** The rows in chronological order. Throws a LoadError that names the file and line. */
export async function readMooncake(path: string): Promise<TraceRow[]> {
  const rows: TraceRow[] = [];
  for await (const { line, text } of fileLines(path)) {
    let value: unknown;
    try {
      value = JSON.parse(text);
    } catch (error) {
      throw wrongLine(path, line, `is not valid JSON: ${(error as Error).message}`);
    }
    if (typeof value !== 'object' || value === null || Array.isArray(value))
      throw wrongLine(path, line, 'is not a JSON object');
    const { timestamp, input_length: input, output_length: output, hash_ids: ids } = value as Record<string, unknown>;
    if (ids !== undefined && (!Array.isArray(ids) || !ids.every((id) => Number.isSafeInteger(id))))
      throw wrongLine(path, line, 'hash_ids must be a list of whole numbers');
    rows.push({
      at: countIn(timestamp, 'timestamp', path, line, Number.MAX_SAFE_INTEGER),
      promptTokens: Math.max(1, Math.round(countIn(input, 'input_length', path, line, LONGEST))),
      outputTokens: Math.max(1, Math.round(countIn(output, 'output_length', path, line, LONGEST))),
      ...(ids === undefined ? {} : { blocks: ids as number[] }),
    });
    if (rows.length === MAX_ROWS) break;
  }
  if (rows.length === 0) throw new LoadError(`${path}: has no requests`);
  return fromZero(rows);
}

/** The requests, sorted by time and shifted so that the first one is at 0. */
export function fromZero(rows: readonly TraceRow[]): TraceRow[] {
  const sorted = [...rows].sort((a, b) => a.at - b.at);
  const first = sorted[0]?.at ?? 0;
  return sorted.map((row) => ({ ...row, at: row.at - first }));
}
