// Reads flags, environment variables and the configuration file into one frozen Config. Precedence: flag, variable,
// file, default. Config.given records the source of each value that is not a default. A renamed setting is also
// accepted under its former names (Setting.renamedFrom), with the same precedence.

import { readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import type { z } from 'zod';
import { ownArguments, readArguments } from './arguments.js';
import type { Flag, OwnArguments, OwnFlags } from './arguments.js';
import { didYouMean } from './did-you-mean.js';
import { expanded } from './home.js';
import { declared } from './settings.js';
import { unknownVariables } from './unknown-variables.js';
import { defaultDataDir } from './settings/server.js';
import type { Config, Declared, FormerNames } from './settings.js';
import type { Setting } from './settings/setting.js';

/** An invalid setting. The message starts with the source of the value. */
export class ConfigError extends Error {
  constructor(source: string, problem: string) {
    super(`${source}: ${problem}`);
    this.name = 'ConfigError';
  }
}

export interface ConfigSources {
  argv?: readonly string[];
  env?: Readonly<Record<string, string | undefined>>;
  /**
   * For commands whose positional arguments are models to serve: converts the arguments to values of the setting
   * `model`, in addition to the flag's values. `Loaded.own` then does not contain the arguments.
   */
  modelsOf?: (words: readonly string[]) => readonly string[];
}

export interface Loaded {
  config: Config;
  /** The command's own flags, and the arguments that are not flags. */
  own: OwnArguments;
  /** Path of the configuration file that was read. */
  file: string | null;
  /** One entry for each former name found in the flags, the environment or the file. */
  renamed: readonly Renamed[];
  /** Variables that start with MONOLITH_ but have no effect. */
  unknown: readonly string[];
}

/** A setting that was given under a former name. */
export interface Renamed {
  /** The former and the current key in the configuration file, even if the source is a flag or a variable. */
  readonly old: string;
  readonly new: string;
  /** The flag, environment variable or position in the file that gave the value. */
  readonly source: string;
}

interface Value {
  raw: unknown;
  source: string;
  /** The name as written in the source: flag, variable or file key. */
  name: string;
  /** The former key, if `name` is a former name. */
  former: string | null;
}

/** The values from one source (flags, environment or file), keyed by the settings' file keys. */
type Values = Map<string, Value>;

/** A setting, and whether it was found under a former name. */
interface Named {
  one: Declared;
  isFormer: boolean;
}

/**
 * Reads flags, environment variables and the file. `ownFlags` declares a command's flags that are not settings; such a
 * flag hides a setting's flag of the same name. Throws ConfigError, or UsageError for an invalid command line.
 */
export function loadConfig(sources: ConfigSources = {}, ownFlags: OwnFlags = {}): Loaded {
  const env = sources.env ?? process.env;
  const read = readFlags(sources.argv ?? [], ownFlags);
  const { values: flags, file: flagFile } = read;
  const own = sources.modelsOf === undefined ? read.own : withModels(read.own, flags, sources.modelsOf);
  const variables = readVariables(env);
  const unknown = unknownVariables(env, variableNames);
  for (const { name, meant } of unknown)
    if (meant !== null) throw new ConfigError(name, `unknown setting. Did you mean ${meant}?`);
  const early = (key: string): unknown => flags.get(key)?.raw ?? variables.get(key)?.raw;
  const asked = flagFile ?? env['MONOLITH_CONFIG'];
  const dataDir = early('data_dir');
  const fallback = join(
    typeof dataDir === 'string' && dataDir !== '' ? expanded(dataDir) : defaultDataDir,
    'config.json',
  );
  const file = readFile(
    asked === undefined || asked === '' ? fallback : expanded(asked),
    asked !== undefined && asked !== '',
  );

  return {
    config: checked((key) => flags.get(key) ?? variables.get(key) ?? file.values.get(key)),
    own,
    file: file.path,
    renamed: [flags, variables, file.values].flatMap((values) =>
      [...values].flatMap(([key, { former, source }]) => (former === null ? [] : [{ old: former, new: key, source }])),
    ),
    unknown: unknown.map(({ name }) => name),
  };
}

/** Treats the positional arguments as values of the setting `model`. */
function withModels(
  own: OwnArguments,
  flags: Values,
  modelsOf: (words: readonly string[]) => readonly string[],
): OwnArguments {
  if (own.words.length === 0) return own;
  const before = (flags.get('model')?.raw ?? []) as readonly string[];
  put(flags, byFlag.get('--model') as Named, '--model', [...before, ...modelsOf(own.words)]);
  return { ...own, words: [] };
}

/** The defaults with some values replaced, validated like values in the file. For tests and embedding. */
export function configWith(overrides: object = {}): Config {
  const values: Values = new Map();
  flatten(overrides, '', 'configWith', values);
  return checked((key) => values.get(key));
}

function checked(find: (key: string) => Pick<Value, 'raw' | 'source'> | undefined): Config {
  const tree: Record<string, unknown> = {};
  const given: Record<string, string> = {};
  for (const one of declared) {
    const found = find(one.key);
    if (found !== undefined) given[one.key] = found.source;
    place(tree, one.key, found === undefined ? one.setting.default : check(one.setting, found.raw, found.source));
  }
  return freeze({ ...tree, given }) as Config;
}

function check(declaration: Setting<unknown>, raw: unknown, source: string): unknown {
  const result = (declaration.kind.schema as z.ZodType<unknown>).safeParse(raw);
  if (result.success) return result.data;
  const issue = result.error.issues[0];
  // If the invalid value is inside a JSON object, its path is more helpful than a description of the whole object.
  if (typeof issue?.path[0] === 'string')
    throw new ConfigError(source, `${issue.path.join('.')}: ${issue.message.replace(/\.$/, '')}.`);
  const at = issue !== undefined && issue.path.length > 0 ? `${issue.path.join('.')}: ` : '';
  const got = declaration.secret === true || typeof raw === 'object' ? '' : `; got ${JSON.stringify(raw)}`;
  const why = messageOf(result.error.issues);
  throw new ConfigError(source, `${at}must be ${declaration.kind.expects}${got}.${why === null ? '' : ` ${why}`}`);
}

/** The first message reported by the type's own schema, or null. */
function messageOf(issues: readonly z.core.$ZodIssue[]): string | null {
  for (const issue of issues) {
    const message =
      issue.code === 'custom' || issue.code === 'unrecognized_keys'
        ? issue.message
        : issue.code === 'invalid_union'
          ? issue.errors.map(messageOf).find((one) => one !== null)
          : undefined;
    if (message != null) return message;
  }
  return null;
}

const byKey = byName(
  ({ key }) => [key],
  ({ key }) => [key],
);
const byFlag = byName(
  ({ flag, aliasFlag }) => [flag, aliasFlag],
  ({ flags }) => flags,
);

function byName(
  names: (one: Declared) => readonly (string | null)[],
  formerNames: (former: FormerNames) => readonly string[],
): ReadonlyMap<string, Named> {
  const all = new Map<string, Named>();
  for (const one of declared) {
    for (const name of names(one)) if (name !== null) all.set(name, { one, isFormer: false });
    for (const name of one.former === null ? [] : formerNames(one.former)) all.set(name, { one, isFormer: true });
  }
  return all;
}

/** Names to suggest, excluding former names. */
const currentNames = (all: ReadonlyMap<string, Named>): string[] =>
  [...all].filter(([, { isFormer }]) => !isFormer).map(([name]) => name);

/** Replaces an earlier value. Throws ConfigError if one source sets both a setting's name and its former name. */
function put(values: Values, { one, isFormer }: Named, name: string, raw: unknown, source = name): void {
  const value: Value = { raw, source, name, former: isFormer ? (one.former?.key ?? null) : null };
  const before = values.get(one.key);
  if (before !== undefined && (before.former !== null) !== isFormer) {
    const [former, current] = isFormer ? [value, before] : [before, value];
    throw new ConfigError(
      former.source,
      `is the former name of ${current.name}, and both are set. Remove ${former.name}.`,
    );
  }
  values.set(one.key, value);
}

/** The flags of all settings, including flags that turn a boolean setting off. */
const settingFlags: ReadonlyMap<string, Flag> = new Map([
  ['--config', { kind: 'value' }],
  ...[...byFlag].flatMap(([name, { one, isFormer }]): [string, Flag][] => {
    const { bare, repeatable } = one.setting.kind;
    // The current and the former name have different targets, so that a command line with both can be parsed. put()
    // then reports the conflict.
    const target = isFormer ? `former ${one.key}` : one.key;
    const kind = bare === true ? 'boolean' : repeatable === true ? 'values' : 'value';
    const negated: [string, Flag] = [`--no-${name.slice(2)}`, { kind: 'switch', target, isHidden: true }];
    return [[name, { kind, target, isHidden: isFormer }], ...(bare === true ? [negated] : [])];
  }),
]);

function readFlags(
  argv: readonly string[],
  ownFlags: OwnFlags,
): { values: Values; own: OwnArguments; file: string | undefined } {
  const values: Values = new Map();
  let file: string | undefined;
  const known = new Map(settingFlags);
  for (const [name, kind] of Object.entries(ownFlags)) known.set(name, { kind });
  const given = readArguments(argv, known);
  for (const { name, value } of given.flags) {
    if (Object.hasOwn(ownFlags, name)) continue;
    if (name === '--config') {
      file = value ?? undefined;
      continue;
    }
    const named = byFlag.get(name) ?? byFlag.get(`--${name.slice('--no-'.length)}`);
    if (named === undefined) continue;
    const raw = value ?? byFlag.has(name);
    const before = values.get(named.one.key)?.raw as string[] | undefined;
    put(values, named, name, named.one.setting.kind.repeatable === true ? [...(before ?? []), raw] : raw);
  }
  return { values, own: ownArguments(given, ownFlags), file };
}

const variableNames: readonly string[] = declared.flatMap(({ others, variable, aliasVariable, former }) =>
  [variable, aliasVariable, ...others, ...(former?.variables ?? [])].filter((name) => name !== null),
);

function readVariables(env: Readonly<Record<string, string | undefined>>): Values {
  const values: Values = new Map();
  for (const one of declared) {
    const read = (name: string | null, isFormer: boolean): void => {
      const text = name === null ? undefined : env[name];
      // In shells and Compose files, an empty variable means "not set".
      if (name !== null && text !== undefined && text !== '') put(values, { one, isFormer }, name, text);
    };
    for (const name of one.former?.variables ?? []) read(name, true);
    for (const name of [...one.others, one.aliasVariable, one.variable]) read(name, false);
  }
  return values;
}

function readFile(path: string, required: boolean): { values: Values; path: string | null } {
  const values: Values = new Map();
  let text: string;
  try {
    text = readFileSync(path, 'utf8');
  } catch (error) {
    const code = (error as NodeJS.ErrnoException).code;
    if (!required && (code === 'ENOENT' || code === 'ENOTDIR')) return { values, path: null };
    if (!required && code === 'EACCES')
      throw new ConfigError(
        dirname(path),
        `user ${process.getuid?.() ?? '?'} cannot read this data directory. Run the command as its owner, or choose another directory with --data-dir.`,
      );
    throw new ConfigError(path, `cannot read the file (${code ?? String(error)}).`);
  }
  let content: unknown;
  try {
    content = JSON.parse(text);
  } catch (error) {
    throw new ConfigError(path, `is not valid JSON: ${(error as Error).message}.`);
  }
  if (typeof content !== 'object' || content === null || Array.isArray(content))
    throw new ConfigError(path, 'must contain one JSON object.');
  flatten(content, '', path, values);
  return { values, path };
}

/** Accepts both nested objects and dotted keys: {"http": {"keepalive_ms": 1}} and {"http.keepalive_ms": 1}. */
function flatten(content: object, prefix: string, path: string, values: Values): void {
  for (const [name, value] of Object.entries(content) as [string, unknown][]) {
    const key = prefix + name;
    const source = `${path}: ${key}`;
    const named = byKey.get(key);
    const organization = /^limits\.(org_[0-9A-Za-z]+|\*)$/.exec(key)?.[1];
    if (organization !== undefined) {
      const before = values.get('limits.overrides');
      const raw = { ...(before?.raw as object | undefined), [organization]: value };
      values.set('limits.overrides', { raw, source: before?.source ?? source, name: key, former: null });
    } else if (named !== undefined) {
      put(values, named, key, value, source);
    } else if (
      [...byKey.keys()].some((one) => one.startsWith(`${key}.`)) &&
      typeof value === 'object' &&
      value !== null &&
      !Array.isArray(value)
    ) {
      flatten(value, `${key}.`, path, values);
    } else {
      throw new ConfigError(source, `unknown setting.${didYouMean(key, currentNames(byKey))}`);
    }
  }
}

function place(tree: Record<string, unknown>, key: string, value: unknown): void {
  const parts = key.split('.');
  const last = parts.pop() as string;
  let node = tree;
  for (const part of parts) node = (node[part] ??= {}) as Record<string, unknown>;
  node[last] = value;
}

function freeze<T>(value: T): T {
  if (typeof value === 'object' && value !== null && !Object.isFrozen(value)) {
    for (const inner of Object.values(value)) freeze(inner);
    Object.freeze(value);
  }
  return value;
}
