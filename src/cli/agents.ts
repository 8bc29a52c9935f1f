// monolith agents: prints or writes the configuration that points a coding agent at this server.

import { chmodSync, existsSync, readFileSync, realpathSync, renameSync, statSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { noWords, UsageError, type OwnFlags } from '../config/arguments.js';
import { didYouMean } from '../config/did-you-mean.js';
import type { Config } from '../config/settings.js';
import { configuredModels } from '../server/engine-settings.js';
import { KEY_VARIABLE, URL_VARIABLE } from './client-key.js';
import { commandConfig } from './command-config.js';
import { commandName } from './command-name.js';
import { askedForHelp } from './output.js';
import { AGENTS, type AgentConfig, type AgentModel, type AgentTarget } from './agents/configs.js';
import { editJson } from './agents/json-file.js';
import { editToml } from './agents/toml-file.js';
import { makeFolder } from '../shared/make-folder.js';

const HELP = `
Usage: monolith agents AGENT [MODEL] [--url URL] [--key-env NAME] [--write [--replace]] [--file FILE]

Prints the configuration that makes a coding agent use this server. AGENT is claude-code, codex, opencode, qwen-code or
crush. MODEL is the model that the agent uses (default: the first model). --url is the server's address (default:
MONOLITH_URL, or else the address in the settings). The agent reads the API key from the environment variable that
--key-env names (default MONOLITH_KEY). If that variable is set, the models and their context lengths come from the
server, otherwise from the settings.

--write adds the configuration to the agent's user configuration file, or to --file. Other settings in the file are
kept. If an existing setting conflicts, nothing is written and the exit status is 1; --replace overwrites it. A file
that cannot be edited safely is not written either.

Examples:
  monolith agents claude-code
  monolith agents codex my-model --write
  monolith agents opencode --url https://llm.example.com
`;

export const FLAGS: OwnFlags = {
  '--url': 'value',
  '--key-env': 'value',
  '--file': 'value',
  '--write': 'switch',
  '--replace': 'switch',
};

/** Minimum context length for coding agents, in tokens: their own prompts are long. */
const MIN_CONTEXT = 32_768;
const ASK_MS = 3_000;

export async function agents(argv: string[]): Promise<number> {
  if (askedForHelp(argv, HELP)) return 0;
  const { config, values, words } = commandConfig(argv, FLAGS);
  const [agent, wanted, ...more] = words;
  noWords(more);
  const names = Object.keys(AGENTS);
  const build = agent !== undefined && Object.hasOwn(AGENTS, agent) ? AGENTS[agent] : undefined;
  if (build === undefined)
    throw new UsageError(
      agent === undefined
        ? `agents: expected the name of an agent: ${names.join(', ')}`
        : `agents: unknown agent "${agent}".${didYouMean(agent, names)} Expected one of ${names.join(', ')}.`,
    );
  if (values.has('--replace') && !values.has('--write')) throw new UsageError('agents: --replace requires --write');
  const target = await targetOf(config, wanted, values);
  const made = build(target, process.env);
  const file = values.get('--file') ?? made.file;
  warnOfContext(target);
  if (!values.has('--write')) {
    process.stdout.write(textOf(made));
    note(`add this to ${file}, or run "${commandName()} agents ${agent} --write"`);
    noteKey(target);
    return 0;
  }
  return write({ ...made, file }, values.has('--replace'), target);
}

function note(text: string): void {
  process.stderr.write(`monolith: ${text}\n`);
}

function noteKey({ keyVariable }: AgentTarget): void {
  if ((process.env[keyVariable] ?? '') === '')
    note(`export ${keyVariable} where the agent runs; "${commandName()} keys create" creates a key`);
}

function warnOfContext({ model }: AgentTarget): void {
  if (model.context !== null && model.context < MIN_CONTEXT)
    note(`${model.name} has a context of ${model.context} tokens; agents need at least ${MIN_CONTEXT}`);
}

async function targetOf(
  config: Config,
  wanted: string | undefined,
  values: ReadonlyMap<string, string>,
): Promise<AgentTarget> {
  const given = values.get('--url') ?? (process.env[URL_VARIABLE] || undefined);
  const url = given === undefined ? ownAddress(config) : addressOf(given);
  const keyVariable = values.get('--key-env') ?? KEY_VARIABLE;
  if (!/^[A-Za-z_]\w*$/.test(keyVariable))
    throw new UsageError('agents: --key-env must be the name of an environment variable');
  const asked = await askServer(url, process.env[keyVariable] ?? '');
  const models = asked ?? (given === undefined ? modelsOf(config) : []);
  const model = wanted === undefined ? models[0] : models.find(({ name }) => name === wanted);
  if (model !== undefined) return { url, keyVariable, model, models };
  if (wanted === undefined)
    throw new UsageError(
      `agents: name the model, or set ${keyVariable} so that the server can be queried for its models`,
    );
  if (asked !== null)
    throw new UsageError(
      `agents: the server has no model "${wanted}"; it has ${models.map(({ name }) => name).join(', ') || 'none'}`,
    );
  const named = { name: wanted, context: null, maxOutput: null };
  return { url, keyVariable, model: named, models: [named, ...models] };
}

const modelsOf = (config: Config): AgentModel[] =>
  configuredModels(config)
    .filter(({ task = 'generation' }) => task === 'generation')
    .map(({ id }) => ({ name: id, context: null, maxOutput: null }));

function ownAddress({ host, port }: Config): string {
  const reachable = host === '0.0.0.0' || host === '::' ? '127.0.0.1' : host;
  return `http://${reachable.includes(':') ? `[${reachable}]` : reachable}:${port}`;
}

function addressOf(text: string): string {
  const url = URL.canParse(text) ? new URL(text) : null;
  if (url === null || !/^https?:$/.test(url.protocol) || url.search !== '' || url.hash !== '')
    throw new UsageError('agents: --url must be the address of a server, such as http://127.0.0.1:8080');
  return url.href.replace(/\/+$/, '').replace(/\/v1$/, '');
}

/** Returns null if no API key is available or the server does not respond. */
async function askServer(url: string, key: string): Promise<AgentModel[] | null> {
  if (key === '') return null;
  try {
    const response = await fetch(`${url}/v1/models`, {
      headers: { authorization: `Bearer ${key}` },
      signal: AbortSignal.timeout(ASK_MS),
    });
    if (!response.ok) throw new Error(`status ${response.status}`);
    const { data } = (await response.json()) as {
      data: { id: string; task?: string | null; context_window?: number; max_output_tokens?: number }[];
    };
    const generating = data.filter(({ task }) => (task ?? 'generation') === 'generation');
    return generating.map(({ id, context_window: context, max_output_tokens: maxOutput }) => ({
      name: id,
      context: context || null,
      maxOutput: maxOutput || null,
    }));
  } catch (error) {
    note(`could not get the models from ${url} (${(error as Error).message}); using the settings`);
    return null;
  }
}

function textOf(config: AgentConfig): string {
  if (config.type === 'toml') return `${config.root}\n\n${config.table}\n`;
  return editJson(null, config.edits)?.text ?? '';
}

function write(config: AgentConfig, replaces: boolean, target: AgentTarget): number {
  const { file } = config;
  const refuse = (reason: string): number => {
    note(`${file} is unchanged: ${reason}. Add this configuration by hand:`);
    process.stdout.write(textOf(config));
    return 1;
  };
  if (file.endsWith('opencode.json') && existsSync(`${file}c`)) return refuse(`${file}c exists and may have comments`);
  const before = existsSync(file) ? readFileSync(file, 'utf8') : null;
  let after: string | null;
  if (config.type === 'toml') {
    after = editToml(before, config);
    if (after === null) return refuse('it already sets model, model_provider or the provider monolith');
  } else {
    const edited = editJson(before, config.edits);
    if (edited === null) return refuse('it is not plain JSON');
    const { replaced } = edited;
    if (replaced.length > 0 && !replaces)
      return refuse(`it already has other values for ${replaced.join(', ')} (--replace overwrites them)`);
    if (replaced.length > 0) note(`replaced in ${file}: ${replaced.join(', ')}`);
    after = edited.text;
  }
  if (after === before) process.stdout.write(`${file} is up to date\n`);
  else {
    writeWhole(file, after);
    process.stdout.write(`wrote ${file}\n`);
  }
  noteKey(target);
  return 0;
}

/** Replaces the file atomically, so that it is never incomplete. If `file` is a symbolic link, replaces its target. */
function writeWhole(file: string, text: string): void {
  makeFolder(dirname(file));
  const real = existsSync(file) ? realpathSync(file) : file;
  const temporary = join(dirname(real), `.monolith-${process.pid}.tmp`);
  writeFileSync(temporary, text, { mode: 0o600 });
  if (existsSync(real)) chmodSync(temporary, statSync(real).mode & 0o777);
  renameSync(temporary, real);
}
