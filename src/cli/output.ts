// Shared by the commands: help, tables and errors.

import { asksForHelp, UsageError } from '../config/arguments.js';

/** Columns padded to their widest entry, with two spaces in between. */
export function table(rows: readonly (readonly string[])[]): string {
  const widths: number[] = [];
  for (const row of rows)
    row.forEach((cell, i) => {
      widths[i] = Math.max(widths[i] ?? 0, cell.length);
    });
  return rows
    .map((row) => `${row.map((cell, i) => (i === row.length - 1 ? cell : cell.padEnd(widths[i] ?? 0))).join('  ')}\n`)
    .join('');
}

/** Prints the help if --help or -h was given. Returns whether it did. */
export function askedForHelp(argv: readonly string[], help: string): boolean {
  if (!asksForHelp(argv)) return false;
  process.stdout.write(`${help.trim()}\n`);
  return true;
}

/** Reports the addon's errors as usage errors, because they are about a file or argument that the user specified. */
export async function ofAddon<T>(call: () => T | Promise<T>): Promise<T> {
  try {
    return await call();
  } catch (error) {
    throw new UsageError(`debug: ${(error as Error).message}`, error);
  }
}
