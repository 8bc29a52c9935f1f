// Reads a file line by line, because it may be larger than memory, and counts the lines. Also formats errors about a
// line.

import { createReadStream } from 'node:fs';
import { createInterface } from 'node:readline';
import { LoadError } from '../load-error.js';

/** Maximum number of requests read from a file. */
export const MAX_ROWS = 1_000_000;
const LONGEST_LINE = 16 * 1024 * 1024;

export const wrongLine = (path: string, line: number, what: string): LoadError =>
  new LoadError(`${path}:${line}: ${what}`);

/** The non-empty lines. Throws LoadError if the file cannot be read. */
export async function* fileLines(path: string): AsyncGenerator<{ line: number; text: string }> {
  const stream = createReadStream(path, 'utf8');
  // A stream error alone does not end the line iterator.
  const failed = new Promise<never>((_, reject) => {
    stream.once('error', (error) => reject(new LoadError(`${path}: ${plain(error)}`, error)));
  });
  failed.catch(() => undefined);
  const lines = createInterface({ input: stream, crlfDelay: Infinity })[Symbol.asyncIterator]();
  try {
    for (let line = 1; ; line++) {
      const next = await Promise.race([lines.next(), failed]);
      if (next.done === true) break;
      if (next.value.length > LONGEST_LINE) throw wrongLine(path, line, `longer than ${LONGEST_LINE} characters`);
      const text = line === 1 ? next.value.replace(/^\uFEFF/, '') : next.value;
      if (text.trim() !== '') yield { line, text };
    }
    if (stream.errored !== null) throw new LoadError(`${path}: ${plain(stream.errored)}`, stream.errored);
  } finally {
    stream.destroy();
  }
}

export function plain(error: Error): string {
  const { code } = error as NodeJS.ErrnoException;
  return code === 'ENOENT'
    ? 'does not exist'
    : code === 'EISDIR'
      ? 'is a folder'
      : code === 'EACCES'
        ? 'permission denied'
        : error.message;
}

/** Checks that `value` is a number from 0 to `most`. `what`: the field's name, for the error. */
export function countIn(value: unknown, what: string, path: string, line: number, most = 100_000_000): number {
  if (typeof value !== 'number' || !(value >= 0 && value <= most))
    throw wrongLine(
      path,
      line,
      `${what} is ${value === undefined ? 'missing' : `${JSON.stringify(value)}, not a number from 0 to ${most}`}`,
    );
  return value;
}
