// Parses the flags of `monolith bench serve`. Reads workload files, but does not contact a server.

import { readFileSync } from 'node:fs';
import { LoadError } from '../bench/load/load-error.js';
import { parseObjectives } from '../bench/load/objectives.js';
import { DIALECTS } from '../bench/load/types.js';
import type { Arrival, Dialect, RunLength, Lengths, Objective, WorkloadSpec } from '../bench/load/types.js';
import { parseLengths, showLengths } from '../bench/load/lengths.js';
import { readBurstGpt } from '../bench/load/files/burst-gpt.js';
import { MOONCAKE_BLOCK_TOKENS, readMooncake } from '../bench/load/files/mooncake.js';
import { readShareGpt } from '../bench/load/files/share-gpt.js';
import { UsageError } from '../config/arguments.js';
import type { OwnFlags } from '../config/arguments.js';

export const FLAGS = {
  '--url': 'value',
  '--model': 'value',
  '--dialect': 'value',
  '--header': 'values',
  '--body': 'values',
  '--ignore-eos': 'switch',
  '--timeout': 'value',
  '--concurrency': 'value',
  '--rate': 'value',
  '--arrival': 'value',
  '--burstiness': 'value',
  '--bursts': 'value',
  '--as-traced': 'switch',
  '--speed': 'value',
  '--max-concurrency': 'value',
  '--requests': 'value',
  '--duration': 'value',
  '--warmup': 'value',
  '--grace': 'value',
  '--runs': 'value',
  '--rounds': 'value',
  '--seed': 'value',
  '--threads': 'value',
  '--prompt-tokens': 'value',
  '--output-tokens': 'value',
  '--prefixes': 'value',
  '--prefix-tokens': 'value',
  '--turns': 'value',
  '--think': 'value',
  '--stored': 'switch',
  '--schema': 'value',
  '--sharegpt': 'value',
  '--mooncake': 'value',
  '--burstgpt': 'value',
  '--slo': 'value',
  '--out': 'value',
  '--json': 'switch',
} as const satisfies OwnFlags;
type Flag = keyof typeof FLAGS;

/** Values by flag, in command-line order. */
export type Given = ReadonlyMap<string, readonly string[]>;

const last = (given: Given, flag: Flag): string | undefined => given.get(flag)?.at(-1);
const wrong = (flag: Flag, value: string, wanted: string): UsageError =>
  new UsageError(`bench serve: ${flag}: "${value}" is not ${wanted}`);

function numberOf(given: Given, flag: Flag, fallback: number, least: number, isWhole = true): number {
  const value = last(given, flag);
  if (value === undefined) return fallback;
  const read = Number(value.replace(/[_,]/g, ''));
  if (value.trim() === '' || !Number.isFinite(read) || read < least || (isWhole && !Number.isInteger(read)))
    throw wrong(flag, value, `a ${isWhole ? 'whole ' : ''}number${least > 0 ? ` of ${least} or more` : ''}`);
  return read;
}

const UNITS: Readonly<Record<string, number>> = { ms: 1, s: 1000, m: 60_000, h: 3_600_000 };

/** Returns milliseconds. A number without a unit is in seconds. */
function timeOf(given: Given, flag: Flag, fallback: number): number {
  const value = last(given, flag);
  return value === undefined ? fallback : time(value, flag);
}

function time(value: string, flag: Flag): number {
  const [, digits, unit = 's'] = /^\s*([0-9]*\.?[0-9]+)\s*(ms|s|m|h)?\s*$/.exec(value) ?? [];
  if (digits === undefined) throw wrong(flag, value, 'a time such as 500ms, 30s or 5m');
  return Number(digits) * (UNITS[unit] ?? 1000);
}

/** Parses the length of a run: either a number of requests or a duration. */
function lengthOf(value: string | undefined, flag: Flag): RunLength {
  if (value === undefined) return { requests: null, durationMs: null };
  if (/^\s*[0-9][0-9_,]*\s*$/.test(value))
    return { requests: Number(value.replace(/[_,]/g, '')) || null, durationMs: null };
  return { requests: null, durationMs: time(value, flag) };
}

export interface Wanted {
  readonly url: string | undefined;
  readonly model: string | undefined;
  readonly dialect: Dialect;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Readonly<Record<string, unknown>>;
  readonly ignoreEos: boolean;
  readonly timeoutMs: number;
  readonly arrival: Arrival;
  readonly maxConcurrency: number | null;
  readonly length: RunLength;
  readonly warmup: RunLength;
  readonly graceMs: number;
  readonly runs: number;
  /** How many times each run's requests are sent, one round after another. */
  readonly rounds: number;
  readonly seed: number;
  readonly threads: number;
  readonly conversation: 'history' | 'stored';
  readonly objectives: readonly Objective[];
  readonly workload: WorkloadSpec;
  /** A description of the workload, for the report. */
  readonly about: string;
  readonly out: string;
  readonly isJson: boolean;
}

/** Throws a UsageError that names the flag, or the file and line. */
export async function wantedOf(given: Given, now: Date): Promise<Wanted> {
  try {
    return await read(given, now);
  } catch (error) {
    throw error instanceof LoadError ? new UsageError(`bench serve: ${error.message}`, error) : error;
  }
}

async function read(given: Given, now: Date): Promise<Wanted> {
  const arrival = arrivalOf(given);
  const length = {
    requests: given.has('--requests') ? numberOf(given, '--requests', 0, 1) : null,
    durationMs: given.has('--duration') ? timeOf(given, '--duration', 0) : null,
  };
  const { workload, about } = await workloadOf(given);
  const isEndless = length.requests === null && length.durationMs === null && workload.kind !== 'trace';
  const rounds = numberOf(given, '--rounds', 1, 1);
  if (rounds > 1 && length.durationMs !== null)
    throw new UsageError('bench serve: --rounds needs --requests, not --duration: each round sends the same requests');
  const slo = last(given, '--slo');
  const dialect = dialectOf(given);
  if (given.has('--stored') && dialect !== 'responses')
    throw new UsageError('bench serve: --stored needs --dialect responses');
  if (arrival.kind === 'trace' && workload.kind !== 'trace')
    throw new UsageError('bench serve: --as-traced needs --mooncake or --burstgpt');
  return {
    url: last(given, '--url'),
    model: last(given, '--model'),
    dialect,
    headers: headersOf(given),
    body: bodyOf(given),
    ignoreEos: given.has('--ignore-eos'),
    timeoutMs: timeOf(given, '--timeout', 600_000),
    arrival,
    maxConcurrency: given.has('--max-concurrency') ? numberOf(given, '--max-concurrency', 0, 1) : null,
    length: isEndless ? { requests: 100, durationMs: null } : length,
    warmup: lengthOf(last(given, '--warmup'), '--warmup'),
    graceMs: timeOf(given, '--grace', 30_000),
    runs: numberOf(given, '--runs', 1, 1),
    rounds,
    seed: numberOf(given, '--seed', 1, 0),
    threads: numberOf(given, '--threads', 1, 1),
    conversation: given.has('--stored') ? 'stored' : 'history',
    objectives: slo === undefined ? [] : parseObjectives(slo),
    workload,
    about,
    out: last(given, '--out') ?? `bench-${now.toISOString().slice(0, 19).replace(/[-:]/g, '').replace('T', '-')}`,
    isJson: given.has('--json'),
  };
}

function dialectOf(given: Given): Dialect {
  const value = last(given, '--dialect') ?? 'chat';
  const found = DIALECTS.find((one) => one === value);
  if (found === undefined) throw wrong('--dialect', value, `one of ${DIALECTS.join(', ')}`);
  return found;
}

function headersOf(given: Given): Record<string, string> {
  return Object.fromEntries(
    (given.get('--header') ?? []).map((one) => {
      const [, name, value = ''] = /^([!#$%&'*+.^_`|~0-9A-Za-z-]+)\s*:\s*([\t\x20-\x7e\x80-\xff]*)$/.exec(one) ?? [];
      // The error does not quote the value, because it may be a secret.
      if (name === undefined) throw new UsageError('bench serve: --header: not "Name: value"');
      return [name.toLowerCase(), value];
    }),
  );
}

function objectIn(text: string, flag: Flag, source: string): Record<string, unknown> {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    throw new UsageError(`bench serve: ${flag}: ${source} is not valid JSON: ${(error as Error).message}`, error);
  }
  if (typeof value !== 'object' || value === null || Array.isArray(value))
    throw new UsageError(`bench serve: ${flag}: ${source} is not a JSON object`);
  return value as Record<string, unknown>;
}

const bodyOf = (given: Given): Record<string, unknown> =>
  Object.assign({}, ...(given.get('--body') ?? []).map((text) => objectIn(text, '--body', 'the value'))) as Record<
    string,
    unknown
  >;

function schemaOf(given: Given): Record<string, unknown> | null {
  const path = last(given, '--schema');
  if (path === undefined) return null;
  let text: string;
  try {
    text = readFileSync(path, 'utf8');
  } catch (error) {
    throw new UsageError(`bench serve: --schema: ${(error as Error).message}`, error);
  }
  return objectIn(text, '--schema', path);
}

function arrivalOf(given: Given): Arrival {
  const kinds = (['--concurrency', '--rate', '--bursts', '--as-traced'] as const).filter((flag) => given.has(flag));
  if (kinds.length > 1)
    throw new UsageError(
      `bench serve: ${kinds.join(' and ')} cannot be combined (--max-concurrency limits an open loop)`,
    );
  const [kind] = kinds;
  const only = (flag: Flag, with_: Flag): void => {
    if (given.has(flag) && kind !== with_) throw new UsageError(`bench serve: ${flag} needs ${with_}`);
  };
  only('--arrival', '--rate');
  only('--burstiness', '--rate');
  only('--speed', '--as-traced');
  if (given.has('--max-concurrency') && (kind === undefined || kind === '--concurrency'))
    throw new UsageError('bench serve: --max-concurrency needs --rate, --bursts or --as-traced');
  if (kind === '--as-traced') return { kind: 'trace', speed: numberOf(given, '--speed', 1, 1e-6, false) };
  if (kind === '--bursts') {
    const value = last(given, '--bursts') ?? '';
    const [, size, every] = /^\s*([0-9]+)\s*\/\s*(.+)$/.exec(value) ?? [];
    if (size === undefined || every === undefined || Number(size) === 0)
      throw wrong('--bursts', value, 'a number of requests and a time, such as 20/5s');
    return { kind: 'bursts', size: Number(size), everyMs: time(every, '--bursts') };
  }
  if (kind !== '--rate') return { kind: 'closed', concurrency: numberOf(given, '--concurrency', 1, 1) };
  const rate = numberOf(given, '--rate', 1, 1e-6, false);
  const process = last(given, '--arrival') ?? (given.has('--burstiness') ? 'gamma' : 'poisson');
  if (process === 'gamma') return { kind: 'gamma', rate, burstiness: numberOf(given, '--burstiness', 1, 1e-3, false) };
  if (given.has('--burstiness')) throw new UsageError('bench serve: --burstiness needs --arrival gamma');
  if (process !== 'poisson' && process !== 'constant')
    throw wrong('--arrival', process, 'one of poisson, constant, gamma');
  return { kind: process, rate };
}

const lengthsOf = (given: Given, flag: Flag, fallback: string): Lengths =>
  parseLengths(last(given, flag) ?? fallback, flag);
const ONE: Lengths = { kind: 'fixed', tokens: 1 };

async function workloadOf(given: Given): Promise<{ workload: WorkloadSpec; about: string }> {
  const files = (['--sharegpt', '--mooncake', '--burstgpt'] as const).filter((flag) => given.has(flag));
  if (files.length > 1) throw new UsageError(`bench serve: ${files.join(' and ')} cannot be combined`);
  const [file] = files;
  const common = { seed: numberOf(given, '--seed', 1, 0), schema: schemaOf(given) };
  const path = file === undefined ? '' : (last(given, file) ?? '');
  const refuse = (...flags: Flag[]): void => {
    const given_ = flags.find((flag) => given.has(flag));
    if (given_ !== undefined && file !== undefined)
      throw new UsageError(`bench serve: ${given_} cannot be combined with ${file}, which defines the lengths`);
  };
  if (file === '--mooncake' || file === '--burstgpt') {
    refuse('--prompt-tokens', '--output-tokens', '--prefixes', '--prefix-tokens', '--turns', '--think');
    const { rows, left } =
      file === '--mooncake' ? { rows: await readMooncake(path), left: 0 } : await readBurstGpt(path);
    return {
      workload: { kind: 'trace', rows, blockTokens: MOONCAKE_BLOCK_TOKENS, ...common },
      about: `${path}: ${rows.length} requests${left > 0 ? `, ${left} without a response skipped` : ''}`,
    };
  }
  const thinkMs = timeOf(given, '--think', 0);
  if (file === '--sharegpt') {
    refuse('--prompt-tokens', '--prefixes', '--prefix-tokens');
    const turns = lengthsOf(given, '--turns', '1');
    const output = given.has('--output-tokens') ? lengthsOf(given, '--output-tokens', '1') : null;
    if (turns.kind !== 'fixed' || (output !== null && output.kind !== 'fixed'))
      throw new LoadError('--sharegpt: --turns and --output-tokens must be single numbers');
    const sessions = await readShareGpt(path, {
      turns: turns.tokens,
      most: 20_000,
      outputTokens: output?.tokens ?? null,
      thinkMs,
    });
    return {
      workload: { kind: 'conversations', sessions, ...common },
      about: `${path}: ${sessions.length} conversations`,
    };
  }
  const [prompt, output, turns] = [
    lengthsOf(given, '--prompt-tokens', '256'),
    lengthsOf(given, '--output-tokens', '128'),
    given.has('--turns') ? lengthsOf(given, '--turns', '1') : ONE,
  ];
  if (given.has('--prefixes') && !given.has('--prefix-tokens'))
    throw new UsageError('bench serve: --prefixes needs --prefix-tokens');
  const prefixes = given.has('--prefix-tokens')
    ? { count: numberOf(given, '--prefixes', 1, 1), tokens: numberOf(given, '--prefix-tokens', 0, 1) }
    : null;
  const about = [
    `prompts of ${showLengths(prompt)} tokens, outputs of ${showLengths(output)}`,
    ...(prefixes === null
      ? []
      : [`after ${prefixes.count === 1 ? 'one prefix' : `one of ${prefixes.count} prefixes`} of ${prefixes.tokens}`]),
    ...(turns === ONE ? [] : [`${showLengths(turns)} turns`]),
    ...(common.schema === null ? [] : ['outputs constrained by a schema']),
  ].join(', ');
  return { workload: { kind: 'synthetic', prompt, output, prefixes, turns, thinkMs, ...common }, about };
}
