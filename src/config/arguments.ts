// Splits a command line into flags and words. All commands use it, so their error messages are consistent.

import { parseArgs } from 'node:util';
import { didYouMean } from './did-you-mean.js';

/** An invalid command line. */
export class UsageError extends Error {
  constructor(message: string, cause?: unknown) {
    super(message, cause === undefined ? undefined : { cause });
    this.name = 'UsageError';
  }
}

/**
 * `value` takes one value, `values` may be repeated, `switch` takes no value, and `boolean` takes the next argument
 * only if that argument is a boolean.
 */
export type FlagKind = 'value' | 'values' | 'switch' | 'boolean';

export interface Flag {
  readonly kind: FlagKind;
  /** What the flag sets. Two flags with the same target cannot be combined. Default: the flag's own name. */
  readonly target?: string;
  /** Accepted, but not suggested. */
  readonly isHidden?: boolean;
}

export interface GivenFlag {
  readonly name: string;
  /** Null if the flag has no value. */
  readonly value: string | null;
}

export interface Arguments {
  /** In the order given. */
  readonly flags: readonly GivenFlag[];
  readonly words: readonly string[];
}

/** A command's own flags: `--name`, or `-x` for a short flag. */
export type OwnFlags = Readonly<Record<string, FlagKind>>;

/** Converts a command's own flags to the form that readArguments() expects, for a command that takes no settings. */
export const flagsOf = (own: OwnFlags): ReadonlyMap<string, Flag> =>
  new Map(Object.entries(own).map(([name, kind]) => [name, { kind }]));

/** Values of a command's own flags, and its positional arguments. */
export interface OwnArguments {
  /** The last value of each flag given; empty for a switch. */
  readonly values: ReadonlyMap<string, string>;
  /** All values of each flag given, in the order given. */
  readonly lists: ReadonlyMap<string, readonly string[]>;
  readonly words: readonly string[];
}

const BOOLEAN = /^(true|false|on|off|yes|no|1|0)$/i;

/** The name of a flag, without the value in `--flag=value`. */
const nameOf = (argument: string): string => argument.replace(/=.*$/s, '');

/** Whether --help or -h is among the flags. It takes precedence over other arguments. */
export function asksForHelp(argv: readonly string[]): boolean {
  const end = argv.indexOf('--');
  return (end < 0 ? argv : argv.slice(0, end)).some((argument) => argument === '--help' || argument === '-h');
}

/**
 * Reads `--flag value` and `--flag=value`. All arguments after `--` are words. Throws UsageError for an unknown flag, a
 * missing or unexpected value, and a repeated flag that takes a single value.
 */
export function readArguments(argv: readonly string[], known: ReadonlyMap<string, Flag>): Arguments {
  // In non-strict mode, parseArgs reports unknown flags and missing values as tokens instead of throwing its own
  // errors. It does not support optional values. A boolean flag is therefore declared as a flag without a value, and
  // parseArgs reports its value as the next positional argument.
  const { tokens } = parseArgs({
    args: [...argv],
    strict: false,
    allowPositionals: true,
    tokens: true,
    options: Object.fromEntries(
      [...known].map(([name, { kind }]) => {
        const type = kind === 'value' || kind === 'values' ? ('string' as const) : ('boolean' as const);
        return name.startsWith('--') ? [name.slice(2), { type }] : [name.slice(1), { type, short: name.slice(1) }];
      }),
    ),
  });
  const flags: GivenFlag[] = [];
  const words: string[] = [];
  const names = new Map<string, string>();
  for (let at = 0; at < tokens.length; at++) {
    const token = tokens[at];
    if (token?.kind === 'positional') words.push(token.value);
    if (token?.kind !== 'option') continue;
    // A short flag may be followed by its value, as in -n20.
    const name = known.has(token.rawName) ? token.rawName : nameOf(argv[token.index] as string);
    const flag = known.get(name);
    if (flag === undefined) throw unknownFlag(name, known);
    let value = token.value ?? null;
    const next = tokens[at + 1];
    if (flag.kind === 'boolean' && value === null && next?.kind === 'positional' && BOOLEAN.test(next.value)) {
      value = next.value;
      at++;
    }
    check(name, flag.kind, value, token.inlineValue === true ? null : known);
    if (flag.kind !== 'values') {
      const target = flag.target ?? name;
      const before = names.get(target);
      if (before !== undefined) throw new UsageError(`${name}: ${repeated(name, before)}`);
      names.set(target, name);
    }
    flags.push({ name, value });
  }
  return { flags, words };
}

/** `known` is null if the argument contains the value, as in `--flag=value`. */
function check(name: string, kind: FlagKind, value: string | null, known: ReadonlyMap<string, Flag> | null): void {
  if (kind === 'switch' && value !== null) throw new UsageError(`${name}: does not take a value.`);
  if (kind !== 'value' && kind !== 'values') return;
  // If the next argument is the name of a flag, the value was most likely omitted. `--flag=--other` is accepted.
  if (value === null || (known !== null && (value === '--' || known.has(nameOf(value)))))
    throw new UsageError(`${name}: requires a value.`);
}

const repeated = (name: string, before: string): string =>
  name === before ? 'must not be repeated.' : `cannot be combined with ${before}, which sets the same value.`;

function unknownFlag(name: string, known: ReadonlyMap<string, Flag>): UsageError {
  const suggested = [...known].filter(([, { isHidden }]) => isHidden !== true).map(([one]) => one);
  return new UsageError(`${name}: unknown flag.${didYouMean(name, [...suggested, '--help'])}`);
}

/** Selects the flags listed in `own`. The arguments may also contain other flags. */
export function ownArguments({ flags, words }: Arguments, own: OwnFlags): OwnArguments {
  const lists = new Map<string, string[]>();
  for (const { name, value } of flags)
    if (Object.hasOwn(own, name)) lists.set(name, [...(lists.get(name) ?? []), value ?? '']);
  return { lists, words, values: new Map([...lists].map(([name, all]) => [name, all.at(-1) ?? ''])) };
}

export function noWords(words: readonly string[]): void {
  if (words.length > 0) throw new UsageError(`unexpected argument "${words[0] as string}"`);
}
