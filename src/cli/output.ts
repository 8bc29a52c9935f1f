// Shared by the commands: usage errors and tables.

/** An invalid command line. */
export class UsageError extends Error {
  constructor(message: string, cause?: unknown) {
    super(message, cause === undefined ? undefined : { cause });
    this.name = 'UsageError';
  }
}

/** Columns padded to their widest entry, two spaces apart. */
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
  if (!argv.includes('--help') && !argv.includes('-h')) return false;
  process.stdout.write(`${help.trim()}\n`);
  return true;
}

/**
 * Splits the arguments left over by commandConfig into a command's own flags and words. `flags` maps each flag to whether
 * it takes a value.
 */
export function ownFlags(
  rest: readonly string[],
  flags: Readonly<Record<string, boolean>>,
): { values: Map<string, string>; words: string[] } {
  const values = new Map<string, string>();
  const words: string[] = [];
  for (let i = 0; i < rest.length; i++) {
    const argument = rest[i] as string;
    if (!Object.hasOwn(flags, argument)) words.push(argument);
    else values.set(argument, flags[argument] === true ? (rest[++i] ?? '') : 'true');
  }
  return { values, words };
}

export function noWords(words: readonly string[]): void {
  if (words.length > 0) throw new UsageError(`unexpected argument "${words[0] as string}"`);
}

/** Reports the addon's errors as usage errors, because they concern a file or argument that the user typed. */
export async function ofAddon<T>(call: () => T | Promise<T>): Promise<T> {
  try {
    return await call();
  } catch (error) {
    throw new UsageError(`debug: ${(error as Error).message}`, error);
  }
}
