// Every setting of the service, declared once in `settings` below. From each declaration come its flag
// (--http-keepalive-ms), its variable (MONOLITH_HTTP_KEEPALIVE_MS), its key in the JSON file
// (http.keepalive_ms), its default, its check, and its line in --help and docs/settings.md.
// Precedence: flag > variable > file > default. The result is frozen.

import { readFileSync } from 'node:fs';
import { homedir } from 'node:os';
import { join, resolve } from 'node:path';
import type { z } from 'zod';
import * as kind from './config-kinds.js';
import type { Kind } from './config-kinds.js';

export interface Setting<T> {
  kind: Kind<T>;
  default: T;
  help: string;
  /** How the default reads in help, where the value itself says too little. */
  shown?: string;
  /** A second, shorter flag and variable. */
  alias?: string;
  secret?: boolean;
  /** Among the few that the README shows. */
  main?: boolean;
}

function setting<T>(kindOf: Kind<T>, fallback: T, help: string, more: Omit<Setting<T>, 'kind' | 'default' | 'help'> = {}): Setting<T> {
  return { kind: kindOf, default: fallback, help, ...more };
}

const defaultDataDir = join(process.env['XDG_DATA_HOME'] ?? join(homedir(), '.local', 'share'), 'monolith');

const OPENAI_USER_AGENTS = ['OpenAI/', 'AsyncOpenAI/', 'codex', 'Agents/', 'ai-sdk', 'ai/', 'langchainjs-openai/', 'opencode/'];

export const settings = {
  host: setting(kind.text(1, 255), '127.0.0.1', 'Address to listen on. 0.0.0.0 or :: for every interface.', { main: true }),
  port: setting(kind.integer(0, 65_535), 8080, 'Port to listen on; 0 takes any free one, named in the ready line.', { main: true }),
  data_dir: setting(kind.path, defaultDataDir, 'Folder of the database. Created if absent.', { shown: '~/.local/share/monolith', main: true }),
  api_key: setting(kind.nullable(kind.text(8, 256)), null, 'A key of your choice that is accepted, instead of one created on the first start.', { secret: true, shown: 'created', main: true }),
  log: setting(kind.choice('text', 'json'), 'text', 'Form of the log lines and of the ready line.', { main: true }),
  log_level: setting(kind.choice('debug', 'info', 'warn', 'error', 'silent'), 'info', 'Least severe log lines shown.'),
  model: setting(kind.modelFiles, [], 'Serve this GGUF file, or this Hugging Face folder, under this name; repeatable. Replaces the built-in models.', { shown: 'the built-in models', main: true }),

  http: {
    max_body_bytes: setting(kind.bytes(1024, 1024 ** 3), 33_554_432, 'Largest request body, before and after decompression; above it 413.'),
    max_header_bytes: setting(kind.bytes(4096, 1_048_576), 16_384, 'Most bytes of a request line and its headers together; above it 400.'),
    max_reading_bytes: setting(kind.bytes(1024, 1024 ** 4), 536_870_912, 'Bytes of bodies being read and decompressed that are held at once, half of it for one organization; above it 503. Two whole bodies always fit.'),
    keepalive_ms: setting(kind.integer(100, 3_600_000), 15_000, 'Silence after which a stream gets a keep-alive; also how long headers wait for the first event.'),
    cors_origins: setting(kind.list, ['*'], 'Origins browsers may call from, or *.', { shown: '*' }),
    threads: setting(kind.integer(1, 64), 1, 'Threads that answer requests. Above 1 each is a worker beside the one that accepts connections; engine, limits and database are shared.', { main: true }),
    trust_proxy: setting(kind.flag, false, 'A proxy in front sets X-Forwarded-For and X-Forwarded-Proto: take the client\'s address and scheme from them.'),
    allowed_hosts: setting(kind.list, [], 'Host names accepted besides loopback names, addresses and `host`; * accepts all. Guards against DNS rebinding.', { shown: 'none' }),
    stream_buffer_bytes: setting(kind.bytes(16_384, 1024 ** 3), 1_048_576, 'Bytes kept for a slow reader of a stream; past it the connection is dropped and the generation cancelled.'),
  },

  limits: {
    rpm: setting(kind.nullable(kind.integer(1, 1e9)), 9_999, 'Requests per minute of an organization on one model; off for none.'),
    tpm: setting(kind.nullable(kind.integer(1, 1e9)), 999_999, 'Tokens per minute of an organization on one model; off for none.'),
    read_rpm: setting(kind.nullable(kind.integer(1, 1e9)), null, 'Requests per minute of one key on what generates nothing: models, counts, stored responses; off for none.', { shown: 'off' }),
    concurrency: setting(kind.nullable(kind.integer(1, 1e6)), 99, 'Requests an organization may have unfinished on one model; off for none.'),
    loop_ms: setting(kind.nullable(kind.integer(1, 1_000)), 250, 'Milliseconds of every second that each answering thread spends at most on reading and checking an organization\'s large requests (16 KiB and more), ten seconds\' worth at once; above it 429. off for none.'),
    tpm_default_reservation: setting(kind.integer(1, 1e9), 4_096, 'Output tokens reserved for a request that states no cap.'),
    max_n: setting(kind.integer(1, 128), 8, 'Most choices (`n`) of one request.'),
    overrides: setting(kind.limitOverrides, {}, 'Limits of one organization and model: {"org_…": {"hal-1.0": {"rpm": 10, "tpm": null}}}; * stands for any.', { shown: 'none' }),
  },

  engine: {
    threads: setting(kind.integer(0, 1024), 0, 'Threads that compute; 0 takes one per core.', { alias: 'threads', main: true }),
    device: setting(kind.device, 'cpu', 'Where models are computed: cpu, cuda (the first NVIDIA GPU), cuda:N, or auto: a GPU if there is one.', { alias: 'device', main: true }),
    isa: setting(kind.choice('auto', 'plain', 'avx2', 'avx512', 'neon', 'neon_i8mm'), 'auto', 'Instructions of the CPU kernels.', { alias: 'isa', main: true }),
    arithmetic: setting(kind.choice('production', 'exact'), 'production', 'exact: unrounded activations, slow; for comparing logits.', { alias: 'arithmetic' }),
    batch_invariant: setting(kind.flag, true, 'The bits of an answer never depend on what is computed beside it. false: a GPU may choose faster products by the number of rows; the CPU keeps it either way.'),
    cublaslt: setting(kind.nullable(kind.text(1, 4096)), 'auto', 'NVIDIA\'s cuBLASLt for long prompts of BF16 models on a GPU, with batch_invariant false only: auto takes the one installed, else its path; off for none.'),
    kv_type: setting(kind.choice('f16', 'q8_0', 'fp8', 'f32'), 'f16', 'Number type of the KV cache; q8_0 and fp8 (on a GPU) hold nearly twice the tokens in the same memory, q8_0 a little less exactly, fp8 less than that.', { alias: 'kv-type' }),
    max_context: setting(kind.integer(0, 16_777_216), 0, 'Longest prompt plus completion in tokens; 0 takes the file\'s own, as memory allows.', { alias: 'max-context', main: true }),
    kv_bytes: setting(kind.bytes(0, 2 ** 46), 0, 'Memory for KV pages of one model, e.g. 2GiB; 0 makes room for a few full contexts.', { alias: 'kv-bytes', main: true }),
    max_batch_tokens: setting(kind.integer(0, 65_536), 0, 'Tokens computed per step, decodes first; 0 takes 256 on the CPU and 2,048 on a GPU.', { main: true }),
    max_sequences: setting(kind.integer(1, 4_096), 32, 'Sequences running at once.', { main: true }),
    step_ms: setting(kind.integer(0, 60_000), 250, 'Aimed-at longest pause, in ms, that other requests\' prompts put between two tokens of a running answer; 0 for no bound.', { main: true }),
    queue_max: setting(kind.integer(1, 1_000_000), 512, 'Requests waiting per model; above it 503.'),
    queue_max_tokens: setting(kind.integer(1, 1e9), 4_000_000, 'Prompt tokens waiting per model; above it 503.'),
    queue_wait_ms: setting(kind.integer(1, 3_600_000), 30_000, 'Longest wait in the queue; then 503.'),
    max_generation_ms: setting(kind.integer(1, 86_400_000), 3_600_000, 'Longest generation; then it ends as `length`.'),
    drain_ms: setting(kind.integer(0, 3_600_000), 30_000, 'Time running requests get at shutdown; then they end as `length`.'),
    stall_ms: setting(kind.integer(100, 3_600_000), 30_000, 'Not ready if there is work and no step ended for this long.'),
    prefix_cache: setting(kind.flag, true, 'Reuse the KV pages of prompts seen before.'),
    speculation: setting(kind.choice('auto', 'off'), 'auto', 'Several tokens of one answer in a step, where it repeats its prompt or itself, or its draft knows it: the same tokens, sooner. auto: as long as measured to pay.'),
  },

  structured_outputs: {
    white_space: setting(kind.choice('compact', 'flexible'), 'compact', 'White space in JSON answers to response_format and its kin: none, or as the model likes.'),
    call_white_space: setting(kind.choice('compact', 'flexible'), 'flexible', 'The same in the arguments of tool calls, which models have learned to write with some.'),
  },

  images: {
    max_bytes: setting(kind.bytes(1024, 1024 ** 3), 20_971_520, 'Largest image, decoded from base64 or fetched.'),
    max_pixels: setting(kind.integer(1, 1e9), 50_000_000, 'Most pixels of one image.'),
    max_per_request: setting(kind.integer(1, 10_000), 100, 'Most images of one request, those of its chain included.'),
    allowed_hosts: setting(kind.list, [], 'Hosts that images may be fetched from over https, e.g. images.example.com; *.example.com for all below; * for every public host. Others are refused.', { shown: 'none' }),
    fetch_timeout_ms: setting(kind.integer(100, 600_000), 10_000, 'Longest time fetching one image may take, redirects included.'),
  },

  messages: {
    foreign_thinking: setting(kind.choice('reject', 'drop'), 'reject', 'What becomes of thinking blocks sent back with a signature that is not ours: refused, or left out.'),
  },

  responses: {
    retention_days: setting(kind.integer(1, 36_500), 30, 'Days a stored response can be retrieved and continued.'),
    reasoning_events: setting(kind.choice('auto', 'openai', 'openresponses'), 'auto', 'Names of the raw-reasoning stream events; auto goes by the client\'s User-Agent.'),
    openai_user_agents: setting(kind.list, OPENAI_USER_AGENTS, 'Beginnings of a User-Agent that auto takes for an OpenAI client, besides every one with x-stainless headers.', { shown: OPENAI_USER_AGENTS.join(', ') }),
    compact_max_tokens: setting(kind.integer(1, 65_535), 2_048, 'Longest summary of a compacted conversation, in tokens.'),
  },

  ws: {
    max_age_s: setting(kind.integer(1, 86_400), 3_600, 'Seconds after which a WebSocket connection takes no further turn.'),
    max_connections: setting(kind.integer(1, 1_000_000), 100, 'WebSocket connections an organization may have open.'),
  },

  secrets: {
    signing_keys: setting(kind.list, [], 'Keys that sign thinking blocks and seal reasoning, 64 hex digits each: the current one first, then those still accepted. Made and kept in the database if none is given.', { secret: true, shown: 'created' }),
  },

  models: setting(kind.modelSettings, { aliases: {}, overrides: {} }, 'Per model: {"hal-1.0": {"context_window", "max_output_tokens", "default_effort", "sampling", "display_name", "image_input", "lifecycle", "deprecated_at", "retires_at", "successor", "quantize", "draft"}}; further names of models: {"aliases": {"gpt-4o": "hal-1.0"}}.', { shown: 'models/catalog.json' }),

  accounts: {
    signup: setting(kind.choice('auto', 'open', 'invited'), 'auto', 'Who may sign up on the dashboard: anybody, or with an invitation. auto: anybody as long as the server listens on this machine only. The first user always may, beyond this machine with the code shown at the start.'),
    organizations_per_user: setting(kind.integer(1, 50), 5, 'Organizations one person may own: each has limits of its own. Operators may own more.'),
  },

  dashboard: {
    enabled: setting(kind.flag, true, 'Serve the dashboard and its API.'),
    url: setting(kind.nullable(kind.url('https', 'http')), null, 'Where people reach the dashboard, e.g. https://models.example.com: for links in mail, the allowed Origin, and Secure cookies.', { shown: 'as it is reached' }),
  },

  mail: {
    smtp_url: setting(kind.nullable(kind.url('smtps', 'smtp')), null, 'Server for outgoing mail, e.g. smtps://user:password@mail.example.com; needs dashboard.url. Without it, links for invitations and passwords are shown to whoever asks for them with the right, and never sent.', { secret: true, shown: 'none' }),
    from: setting(kind.text(3, 256), 'Monolith <monolith@localhost>', 'Sender of mail.'),
  },

  admin: {
    token: setting(kind.nullable(kind.text(16, 512)), null, 'Bearer token of the operator API; without it there is none.', { secret: true, shown: 'none' }),
    host: setting(kind.text(1, 255), '127.0.0.1', 'Address the operator API listens on.'),
    port: setting(kind.integer(0, 65_535), 8081, 'Port of the operator API.'),
  },

  usage: {
    row_days: setting(kind.integer(1, 36_500), 90, 'Days a row of usage per request is kept.'),
    aggregate_days: setting(kind.integer(1, 36_500), 730, 'Days hourly sums of usage are kept.'),
  },

  metrics: {
    token: setting(kind.nullable(kind.text(16, 512)), null, 'Bearer token that reads /metrics and all of /readyz, for what scrapes them; without it an operator\'s API key does.', { secret: true, shown: 'none' }),
    public: setting(kind.flag, false, 'Serve /metrics to everybody.'),
  },
} as const satisfies SettingTree;

type SettingTree = { readonly [name: string]: Setting<never> | Setting<unknown> | SettingTree };

type ValueOf<T> = T extends { kind: Kind<infer V> } ? V : { readonly [K in keyof T]: ValueOf<T[K]> };

/** The checked, frozen settings of one process. Names are those of the file keys: `config.http.max_body_bytes`. */
export type Config = ValueOf<typeof settings> & {
  /** Settings that were not left to their default, by key, with the flag, the variable or the place in a file that gave them. */
  readonly given: Readonly<Record<string, string>>;
};

export interface Declared {
  key: string;          // http.keepalive_ms
  flag: string;         // --http-keepalive-ms
  variable: string;     // MONOLITH_HTTP_KEEPALIVE_MS
  aliasFlag: string | null;
  aliasVariable: string | null;
  setting: Setting<unknown>;
}

function isSetting(node: unknown): node is Setting<unknown> {
  return typeof node === 'object' && node !== null && 'kind' in node;
}

function* declarations(tree: object, prefix: string): Generator<Declared> {
  for (const [name, node] of Object.entries(tree) as [string, unknown][]) {
    const key = prefix + name;
    if (!isSetting(node)) {
      yield* declarations(node as object, `${key}.`);
      continue;
    }
    const alias = node.alias ?? null;
    yield {
      key,
      flag: `--${key.replace(/[._]/g, '-')}`,
      variable: variableOf(key),
      aliasFlag: alias === null ? null : `--${alias}`,
      aliasVariable: alias === null ? null : variableOf(alias),
      setting: node,
    };
  }
}

const variableOf = (key: string): string => `MONOLITH_${key.replace(/[.-]/g, '_').toUpperCase()}`;

/** Every setting in the order of declaration. */
export const declared: readonly Declared[] = [...declarations(settings, '')];

/** A setting that cannot be used; the message begins with where it came from. */
export class ConfigError extends Error {
  constructor(source: string, problem: string) {
    super(`${source}: ${problem}`);
    this.name = 'ConfigError';
  }
}

export interface ConfigSources {
  argv?: readonly string[];
  env?: Readonly<Record<string, string | undefined>>;
}

export interface Loaded {
  config: Config;
  /** Arguments that are no settings, in order. */
  rest: string[];
  /** The file that was read, if any. */
  file: string | null;
}

type Values = Map<string, { raw: unknown; source: string }>;

/**
 * Reads flags, variables and the file. Flags of a command that are not settings go into `own` (name →
 * whether it takes a value) and come back in `rest` as they are. Throws ConfigError.
 */
export function loadConfig(sources: ConfigSources = {}, own: Readonly<Record<string, boolean>> = {}): Loaded {
  const env = sources.env ?? process.env;
  const { values: flags, rest, file: flagFile } = readFlags(sources.argv ?? [], own);
  const variables = readVariables(env);
  const early = (key: string): unknown => flags.get(key)?.raw ?? variables.get(key)?.raw;
  const asked = flagFile ?? env['MONOLITH_CONFIG'];
  const dataDir = early('data_dir');
  const fallback = join(typeof dataDir === 'string' && dataDir !== '' ? resolve(dataDir) : defaultDataDir, 'config.json');
  const file = readFile(asked === undefined || asked === '' ? fallback : resolve(asked), asked !== undefined && asked !== '');

  return { config: checked((key) => flags.get(key) ?? variables.get(key) ?? file.values.get(key)), rest, file: file.path };
}

/** Defaults with some values replaced, checked like file keys: for tests and embedding. */
export function configWith(overrides: object = {}): Config {
  const values: Values = new Map();
  flatten(overrides, '', 'configWith', values);
  return checked((key) => values.get(key));
}

function checked(find: (key: string) => { raw: unknown; source: string } | undefined): Config {
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
  // Within an object of settings the place says more than what the whole must be.
  if (typeof issue?.path[0] === 'string') throw new ConfigError(source, `${issue.path.join('.')}: ${issue.message.replace(/\.$/, '')}.`);
  const at = issue !== undefined && issue.path.length > 0 ? `${issue.path.join('.')}: ` : '';
  const got = declaration.secret === true || typeof raw === 'object' ? '' : `; got ${JSON.stringify(raw)}`;
  throw new ConfigError(source, `${at}must be ${declaration.kind.expects}${got}.${issue?.code === 'custom' ? ` ${issue.message}` : ''}`);
}

function readFlags(argv: readonly string[], own: Readonly<Record<string, boolean>>): { values: Values; rest: string[]; file: string | undefined } {
  const values: Values = new Map();
  const rest: string[] = [];
  let file: string | undefined;
  const byFlag = new Map<string, Declared>();
  for (const one of declared) {
    byFlag.set(one.flag, one);
    if (one.aliasFlag !== null) byFlag.set(one.aliasFlag, one);
  }
  for (let i = 0; i < argv.length; i++) {
    const argument = argv[i] as string;
    if (argument === '--') {
      rest.push(...argv.slice(i + 1));
      break;
    }
    if (!argument.startsWith('--')) {
      rest.push(argument);
      continue;
    }
    const equals = argument.indexOf('=');
    const name = equals < 0 ? argument : argument.slice(0, equals);
    const next = (): string => {
      if (equals >= 0) return argument.slice(equals + 1);
      const value = argv[++i];
      if (value === undefined) throw new ConfigError(name, 'needs a value.');
      return value;
    };
    if (Object.hasOwn(own, name)) {
      if (own[name] !== true && equals >= 0) throw new ConfigError(name, 'takes no value.');
      rest.push(name);
      if (own[name] === true) rest.push(next());
      continue;
    }
    if (name === '--config') {
      file = next();
      continue;
    }
    const one = byFlag.get(name);
    const negated = name.startsWith('--no-') ? byFlag.get(`--${name.slice(5)}`) : undefined;
    if (one !== undefined) {
      const bare = one.setting.kind.bare === true && equals < 0 && !/^(true|false|on|off|yes|no|1|0)$/i.test(argv[i + 1] ?? '');
      const raw = bare ? true : next();
      const before = values.get(one.key);
      // A repeatable setting collects; any other takes the last flag.
      const merged = one.setting.kind.repeatable === true ? [...((before?.raw as string[] | undefined) ?? []), raw] : raw;
      values.set(one.key, { raw: merged, source: name });
    } else if (negated?.setting.kind.bare === true && equals < 0) {
      values.set(negated.key, { raw: false, source: name });
    } else {
      throw new ConfigError(name, `no such flag.${didYouMean(name, [...byFlag.keys(), ...Object.keys(own), '--config', '--help'])}`);
    }
  }
  return { values, rest, file };
}

function readVariables(env: Readonly<Record<string, string | undefined>>): Values {
  const values: Values = new Map();
  for (const one of declared) {
    for (const name of [one.aliasVariable, one.variable]) {
      const text = name === null ? undefined : env[name];
      // An empty variable is how shells and compose files spell "not set".
      if (name !== null && text !== undefined && text !== '') values.set(one.key, { raw: text, source: name });
    }
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
    throw new ConfigError(path, `cannot be read (${code ?? String(error)}).`);
  }
  let content: unknown;
  try {
    content = JSON.parse(text);
  } catch (error) {
    throw new ConfigError(path, `is not JSON: ${(error as Error).message}.`);
  }
  if (typeof content !== 'object' || content === null || Array.isArray(content)) throw new ConfigError(path, 'must hold one JSON object.');
  flatten(content, '', path, values);
  return { values, path };
}

/** Nested objects and dotted keys alike: {"http": {"keepalive_ms": 1}} and {"http.keepalive_ms": 1}. */
function flatten(content: object, prefix: string, path: string, values: Values): void {
  for (const [name, value] of Object.entries(content) as [string, unknown][]) {
    const key = prefix + name;
    const source = `${path}: ${key}`;
    const organization = /^limits\.(org_[0-9A-Za-z]+|\*)$/.exec(key)?.[1];
    if (organization !== undefined) {
      const before = values.get('limits.overrides');
      const raw = { ...(before?.raw as object | undefined), [organization]: value };
      values.set('limits.overrides', { raw, source: before?.source ?? source });
    } else if (declared.some((one) => one.key === key)) {
      values.set(key, { raw: value, source });
    } else if (declared.some((one) => one.key.startsWith(`${key}.`)) && typeof value === 'object' && value !== null && !Array.isArray(value)) {
      flatten(value, `${key}.`, path, values);
    } else {
      throw new ConfigError(source, `no such setting.${didYouMean(key, declared.map((one) => one.key))}`);
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

/** ` Did you mean …?` for the nearest name by edit distance, or nothing if none is near. */
export function didYouMean(name: string, candidates: readonly string[]): string {
  let best = '';
  let bestDistance = Math.max(2, Math.floor(name.length / 3)) + 1;
  for (const candidate of candidates) {
    const distance = editDistance(name, candidate);
    if (distance < bestDistance) {
      best = candidate;
      bestDistance = distance;
    }
  }
  return best === '' ? '' : ` Did you mean ${best}?`;
}

function editDistance(a: string, b: string): number {
  let row = Array.from({ length: b.length + 1 }, (_, j) => j);
  for (let i = 1; i <= a.length; i++) {
    const next = [i];
    for (let j = 1; j <= b.length; j++) {
      next.push(Math.min((next[j - 1] as number) + 1, (row[j] as number) + 1, (row[j - 1] as number) + (a[i - 1] === b[j - 1] ? 0 : 1)));
    }
    row = next;
  }
  return row[b.length] as number;
}

function shownDefault(one: Declared): string {
  const { shown, default: value } = one.setting;
  if (shown !== undefined) return shown;
  if (value === null) return 'off';
  return typeof value === 'number' ? value.toLocaleString('en-US').replace(/^(\d),(\d{3})$/, '$1$2') : String(value);
}

const SECTIONS: Readonly<Record<string, string>> = {
  '': 'Server', http: 'HTTP', limits: 'Limits of organizations', engine: 'Engine', structured_outputs: 'Structured output', images: 'Images',
  messages: 'Messages', responses: 'Stored responses', ws: 'WebSockets', secrets: 'Secrets', models: 'Models', accounts: 'Accounts',
  dashboard: 'Dashboard', mail: 'Mail', admin: 'Operator API', usage: 'Usage', metrics: 'Metrics',
};

/** The settings part of --help: those most people touch, or with `all` every one, by section. */
export function settingsHelp({ all = false } = {}): string {
  const rows = declared.filter((one) => all || one.setting.main === true).map((one) => ({
    section: one.key.includes('.') || Object.hasOwn(SECTIONS, one.key) ? one.key.split('.')[0] as string : '',
    left: `${one.aliasFlag ?? one.flag}${one.setting.kind.bare === true ? '' : ` ${one.setting.kind.metavar}`}`,
    right: `${one.setting.help} [${shownDefault(one)}]`,
  }));
  const told = (some: typeof rows): string => {
    const width = Math.max(...some.map(({ left }) => left.length)) + 4;
    return some.map(({ left, right }) => `  ${left.padEnd(width - 2)}${wrap(right, 100 - width).join(`\n${' '.repeat(width)}`)}`).join('\n');
  };
  if (!all) return told(rows);
  const sections = [...new Set(rows.map(({ section }) => section))];
  return sections.map((section) => `${SECTIONS[section] ?? section}:\n${told(rows.filter((row) => row.section === section))}`).join('\n\n');
}

function wrap(text: string, width: number): string[] {
  const lines: string[] = [];
  let line = '';
  for (const word of text.split(' ')) {
    if (line !== '' && line.length + 1 + word.length > width) {
      lines.push(line);
      line = word;
    } else {
      line = line === '' ? word : `${line} ${word}`;
    }
  }
  return [...lines, line];
}

/** The table of the README: the settings most people touch. */
export function settingsSummary(): string {
  const rows = declared.filter((one) => one.setting.main === true).map((one) =>
    `| \`${one.aliasFlag ?? one.flag}\` | \`${one.aliasVariable ?? one.variable}\` | ${shownDefault(one)} | ${one.setting.help.replace(/\|/g, '\\|')} |`);
  return `| flag | variable | default | what it does |\n|---|---|---|---|\n${rows.join('\n')}\n`;
}

/** docs/settings.md, whole. */
export function settingsMarkdown(): string {
  const escape = (text: string): string => text.replace(/\|/g, '\\|');
  const rows = declared.map((one) => {
    const flags = [one.flag, one.aliasFlag].filter((flag) => flag !== null && flag !== undefined).map((flag) => `\`${flag}\``);
    return `| \`${one.key}\` | ${[...new Set(flags)].join(', ')} | \`${one.variable}\` | ${escape(one.setting.kind.expects)} | ${escape(shownDefault(one))} | ${escape(one.setting.help)} |`;
  });
  return `# Settings

Generated from \`src/config.ts\` by \`npm run docs:settings\`.

Flag wins over variable, variable over file, file over default. The file is JSON, nested or dotted
(\`{"http": {"keepalive_ms": 5000}}\` or \`{"http.keepalive_ms": 5000}\`): \`--config FILE\` or
\`MONOLITH_CONFIG\`, else \`config.json\` in the data folder if there is one. An unknown flag or key is
an error. Sizes take \`KiB\`, \`MiB\`, \`GiB\`.

What an operator changed of a running engine (batch, concurrency, queue: "Tunables" on the dashboard) is kept and used by
later starts that do not give the setting. A start that gives it, by flag, variable or file, goes by that, forgets the
change, and says so in its log.

| key | flag | variable | value | default | what it does |
|---|---|---|---|---|---|
${rows.join('\n')}
`;
}
