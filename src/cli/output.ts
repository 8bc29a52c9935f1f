// Shared by the commands: help, tables and errors.

import { asksForHelp, UsageError } from '../config/arguments.js';
import { stdoutPaint } from '../shared/terminal-color.js';
import type { Paint } from '../shared/terminal-color.js';

/**
 * Columns padded to their widest entry, with two spaces in between. For standard output only: on a terminal with
 * colors, a first row in capitals counts as the header and is dimmed.
 */
export function table(rows: readonly (readonly string[])[], paint: Paint = stdoutPaint()): string {
  const widths: number[] = [];
  for (const row of rows)
    row.forEach((cell, i) => {
      widths[i] = Math.max(widths[i] ?? 0, cell.length);
    });
  return rows
    .map((row) => row.map((cell, i) => (i === row.length - 1 ? cell : cell.padEnd(widths[i] ?? 0))).join('  '))
    .map((line, i) => `${i === 0 && line === line.toUpperCase() ? paint('dim', line) : line}\n`)
    .join('');
}

/** Prints the help if --help or -h was given. Returns whether the help was printed. */
export function askedForHelp(argv: readonly string[], help: string): boolean {
  if (!asksForHelp(argv)) return false;
  process.stdout.write(`${help.trim()}\n`);
  return true;
}

/** Reports the addon's errors as usage errors, because their cause is a file or argument that the user specified. */
export async function ofAddon<T>(call: () => T | Promise<T>): Promise<T> {
  try {
    return await call();
  } catch (error) {
    throw new UsageError(`debug: ${(error as Error).message}`, error);
  }
}
