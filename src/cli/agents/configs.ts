// For each coding agent: the path of its configuration file, and the settings that point the agent at a server.

import { homedir } from 'node:os';
import { join } from 'node:path';
import { KEY_VARIABLE } from '../client-key.js';
import type { Edit } from './json-file.js';

export interface AgentModel {
  readonly name: string;
  /** Context length in tokens; null if unknown. */
  readonly context: number | null;
  readonly maxOutput: number | null;
}

export interface AgentTarget {
  /** The server's address, without a trailing slash and without /v1. */
  readonly url: string;
  /** Name of the environment variable that contains the API key when the agent runs. */
  readonly keyVariable: string;
  /** The model that the agent uses. */
  readonly model: AgentModel;
  /** All models, for agents whose configuration lists them. */
  readonly models: readonly AgentModel[];
}

export type AgentConfig =
  | { readonly type: 'json'; readonly file: string; readonly edits: readonly Edit[] }
  /** `root`: lines for the top of the file. `table`: lines for the end of the file. */
  | { readonly type: 'toml'; readonly file: string; readonly root: string; readonly table: string };

type Environment = Readonly<Record<string, string | undefined>>;

const folderOf = (environment: Environment, variable: string, ...fallback: string[]): string =>
  environment[variable] || join(homedir(), ...fallback);

export const AGENTS: Readonly<Record<string, (target: AgentTarget, environment: Environment) => AgentConfig>> = {
  'claude-code': claudeCode,
  codex,
  opencode,
  'qwen-code': qwenCode,
  crush,
};

function claudeCode({ url, keyVariable, model }: AgentTarget, environment: Environment): AgentConfig {
  return {
    type: 'json',
    file: join(folderOf(environment, 'CLAUDE_CONFIG_DIR', '.claude'), 'settings.json'),
    edits: [
      { path: ['apiKeyHelper'], value: `printenv ${keyVariable}` },
      { path: ['env', 'ANTHROPIC_BASE_URL'], value: url },
      ...['OPUS', 'SONNET', 'HAIKU'].map((tier) => ({
        path: ['env', `ANTHROPIC_DEFAULT_${tier}_MODEL`],
        value: model.name,
      })),
    ],
  };
}

function codex({ url, keyVariable, model }: AgentTarget, environment: Environment): AgentConfig {
  const text = (value: string): string => JSON.stringify(value); // a basic string of TOML has the same escapes
  return {
    type: 'toml',
    file: join(folderOf(environment, 'CODEX_HOME', '.codex'), 'config.toml'),
    root: [
      `model = ${text(model.name)}`,
      'model_provider = "monolith"',
      ...(model.context === null ? [] : [`model_context_window = ${model.context}`]),
    ].join('\n'),
    table: [
      '[model_providers.monolith]',
      'name = "Monolith"',
      `base_url = ${text(`${url}/v1`)}`,
      `env_key = ${text(keyVariable)}`,
      'wire_api = "responses"',
    ].join('\n'),
  };
}

function opencode({ url, keyVariable, model, models }: AgentTarget, environment: Environment): AgentConfig {
  const limit = ({ context, maxOutput }: AgentModel): object =>
    context === null || maxOutput === null ? {} : { limit: { context, output: Math.min(maxOutput, context) } };
  return {
    type: 'json',
    file: join(folderOf(environment, 'XDG_CONFIG_HOME', '.config'), 'opencode', 'opencode.json'),
    edits: [
      { path: ['$schema'], value: 'https://opencode.ai/config.json', mode: 'default' },
      {
        path: ['provider', 'monolith'],
        mode: 'own',
        value: {
          npm: '@ai-sdk/openai-compatible',
          name: 'Monolith',
          options: { baseURL: `${url}/v1`, apiKey: `{env:${keyVariable}}` },
          models: Object.fromEntries(models.map((one) => [one.name, limit(one)])),
        },
      },
      { path: ['model'], value: `monolith/${model.name}` },
    ],
  };
}

function qwenCode({ url, keyVariable, model, models }: AgentTarget): AgentConfig {
  return {
    type: 'json',
    file: join(homedir(), '.qwen', 'settings.json'),
    edits: [
      {
        path: ['modelProviders', 'openai'],
        mode: 'list',
        // If the user chose the variable, entries for other servers may use it too, so the URL must also match.
        isOwn: (entry) =>
          entry['envKey'] === keyVariable && (keyVariable === KEY_VARIABLE || entry['baseUrl'] === `${url}/v1`),
        value: models.map(({ name, context }) => ({
          id: name,
          name,
          baseUrl: `${url}/v1`,
          envKey: keyVariable,
          ...(context === null ? {} : { generationConfig: { contextWindowSize: context } }),
        })),
      },
      { path: ['security', 'auth', 'selectedType'], value: 'openai' },
      { path: ['model', 'name'], value: model.name },
    ],
  };
}

function crush({ url, keyVariable, model, models }: AgentTarget, environment: Environment): AgentConfig {
  const chosen = { provider: 'monolith', model: model.name };
  return {
    type: 'json',
    file: join(folderOf(environment, 'XDG_CONFIG_HOME', '.config'), 'crush', 'crush.json'),
    edits: [
      { path: ['$schema'], value: 'https://charm.land/crush.json', mode: 'default' },
      {
        path: ['providers', 'monolith'],
        mode: 'own',
        value: {
          name: 'Monolith',
          type: 'openai-compat',
          base_url: `${url}/v1`,
          api_key: `$${keyVariable}`,
          models: models.map(({ name, context, maxOutput }) => ({
            id: name,
            name,
            ...(context === null ? {} : { context_window: context }),
            ...(maxOutput === null ? {} : { default_max_tokens: Math.min(maxOutput, Math.ceil((context ?? 4) / 4)) }),
          })),
        },
      },
      { path: ['models', 'large'], value: chosen },
      { path: ['models', 'small'], value: chosen },
    ],
  };
}
