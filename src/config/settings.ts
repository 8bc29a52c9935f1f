// All settings, in the order of --help and docs/reference/settings.md. Each is declared once, in settings/. A
// declaration yields a flag (--http-keepalive-ms), an environment variable (MONOLITH_HTTP_KEEPALIVE_MS), a key in the
// JSON file (http.keepalive_ms), a default, a validation schema, and a line in --help and docs/reference/settings.md.

import type { Kind } from './kinds.js';
import { accounts, oidc, dashboard, mail, admin } from './settings/accounts.js';
import { alerts } from './settings/alerts.js';
import { batches } from './settings/batches.js';
import { engine } from './settings/engine.js';
import { structured_outputs, images, chat, foreign_thinking, responses } from './settings/formats.js';
import { files } from './settings/files.js';
import { http, ws } from './settings/http.js';
import { kv } from './settings/kv.js';
import { replay } from './settings/replay.js';
import { limits, redis } from './settings/limits.js';
import { adapters, models, upstream, hub } from './settings/models.js';
import { webhooks, metrics, telemetry } from './settings/monitoring.js';
import { ollama } from './settings/ollama.js';
import { server } from './settings/server.js';
import { backups, database, secrets, usage, requests } from './settings/storage.js';
import { mcp } from './settings/mcp.js';
import { tools } from './settings/tools.js';
import type { Setting } from './settings/setting.js';

export const settings = {
  ...server,
  http,
  limits,
  redis,
  engine,
  kv,
  replay,
  structured_outputs,
  images,
  chat,
  foreign_thinking,
  responses,
  files,
  batches,
  ollama,
  tools,
  mcp,
  ws,
  database,
  backups,
  secrets,
  models,
  adapters,
  upstream,
  hub,
  accounts,
  oidc,
  dashboard,
  mail,
  admin,
  usage,
  requests,
  alerts,
  webhooks,
  metrics,
  telemetry,
} as const satisfies SettingTree;

type SettingTree = { readonly [name: string]: Setting<never> | Setting<unknown> | SettingTree };

type ValueOf<T> = T extends { kind: Kind<infer V> } ? V : { readonly [K in keyof T]: ValueOf<T[K]> };

/** The validated, frozen settings of one process. Properties are named like file keys: `config.http.max_body_bytes`. */
export type Config = ValueOf<typeof settings> & {
  /** Explicitly set settings: maps each key to the flag, variable or file position that set it. */
  readonly given: Readonly<Record<string, string>>;
};

export interface Declared {
  key: string; // http.keepalive_ms
  flag: string; // --http-keepalive-ms
  variable: string; // MONOLITH_HTTP_KEEPALIVE_MS
  aliasFlag: string | null;
  aliasVariable: string | null;
  /** Environment variables of other tools, which are read if the setting's own variables are not set. */
  others: readonly string[];
  /** Former names of the setting; null if it was never renamed. */
  former: FormerNames | null;
  setting: Setting<unknown>;
}

export interface FormerNames {
  readonly key: string;
  readonly flags: readonly string[];
  readonly variables: readonly string[];
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
      flag: flagOf(key),
      variable: variableOf(key),
      aliasFlag: alias === null ? null : flagOf(alias),
      aliasVariable: alias === null ? null : variableOf(alias),
      others: node.variables ?? [],
      former: node.renamedFrom === undefined ? null : formerNames(node.renamedFrom),
      setting: node,
    };
  }
}

function formerNames({ key, alias }: NonNullable<Setting<unknown>['renamedFrom']>): FormerNames {
  const names = alias === undefined ? [key] : [alias, key];
  return { key, flags: names.map(flagOf), variables: names.map(variableOf) };
}

const flagOf = (key: string): string => `--${key.replace(/[._]/g, '-')}`;
const variableOf = (key: string): string => `MONOLITH_${key.replace(/[.-]/g, '_').toUpperCase()}`;

/** Every setting, in declaration order. */
export const declared: readonly Declared[] = [...declarations(settings, '')];
