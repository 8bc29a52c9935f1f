// CSV files (RFC 4180). Rows are read in pages. The memory for the file counts toward the limit on unread responses.

import { apiError } from '../../shared/errors.js';
import type { Exchange } from '../../http/exchange.js';

/** A CSV field. Text that a spreadsheet would interpret as a formula is prefixed with an apostrophe. */
export function csvField(value: string | number | boolean | null): string {
  if (value === null) return '';
  if (typeof value !== 'string') return String(value);
  const text = /^[=+\-@\t\r]/.test(value) ? `'${value}` : value;
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

export function csvLine<C extends string>(
  row: Readonly<Record<C, string | number | boolean | null>>,
  columns: readonly C[],
): string {
  return `${columns.map((column) => csvField(row[column])).join(',')}\r\n`;
}

export interface CsvFile {
  /** The file name for the download. */
  readonly file: string;
  readonly columns: readonly string[];
  /** Maximum number of lines. */
  readonly rows: number;
}

/**
 * Reads pages until `next` is null and sends all lines as one file. Rejects with ApiError 400 if there are too many
 * lines, and with 503 if too many large responses are held in memory.
 */
export async function sendCsv<N>(
  exchange: Exchange,
  { file, columns, rows }: CsvFile,
  page: (after: N | null) => Promise<{ lines: readonly string[]; next: N | null }>,
): Promise<void> {
  const pieces = [Buffer.from(`${columns.join(',')}\r\n`)];
  let count = 0;
  for (let after: N | null = null; ; ) {
    const { lines, next }: { lines: readonly string[]; next: N | null } = await page(after);
    if (exchange.aborted) return;
    count += lines.length;
    if (count > rows)
      throw apiError(
        'invalid_query_parameter',
        `More than ${rows} rows match. Use a shorter range, or more filters.`,
        'from',
      );
    const piece = Buffer.from(lines.join(''));
    exchange.reserve(piece.length);
    pieces.push(piece);
    if (next === null) break;
    after = next;
  }
  exchange.setHeader('Content-Disposition', `attachment; filename="${file}"`);
  exchange.text(200, 'text/csv; charset=utf-8', Buffer.concat(pieces));
}
