// Formats the settings for --help, `monolith settings` and docs/reference/settings.md.

import { MODEL_HELP, showBytes } from './kinds.js';
import type { FieldHelp } from './kinds.js';
import { OIDC_ROLES_HELP } from './oidc-roles.js';
import { declared } from './settings.js';
import type { Declared } from './settings.js';
import { UPSTREAM_HELP } from './upstream.js';

function shownDefault(one: Declared): string {
  const { shown, default: value } = one.setting;
  if (shown !== undefined) return shown;
  if (value === null) return 'off';
  if (typeof value === 'number' && value > 0 && one.setting.kind.metavar === 'SIZE') return showBytes(value);
  return typeof value === 'number' ? value.toLocaleString('en-US').replace(/^(\d),(\d{3})$/, '$1$2') : String(value);
}

const SECTIONS: Readonly<Record<string, string>> = {
  '': 'Server',
  http: 'HTTP',
  limits: 'Rate limits',
  redis: 'Shared rate limits (Redis)',
  engine: 'Engine',
  kv: 'KV cache on disk',
  replay: 'Tokens of tool calls and reasoning',
  structured_outputs: 'Structured output',
  images: 'Images',
  hub: 'Model hub',
  chat: 'Chat Completions API',
  responses: 'Responses API',
  files: 'Files',
  batches: 'Batches',
  ollama: 'Ollama API',
  tools: 'Server tools',
  mcp: 'MCP servers',
  ws: 'WebSockets',
  database: 'Shared database (PostgreSQL)',
  backups: 'Backups',
  secrets: 'Secrets',
  models: 'Models',
  adapters: 'LoRA adapters',
  upstream: 'Upstream models',
  accounts: 'Accounts',
  oidc: 'OpenID Connect sign-in',
  dashboard: 'Dashboard',
  mail: 'Mail',
  admin: 'Operator API',
  usage: 'Usage',
  requests: 'Request log',
  alerts: 'Alerts',
  webhooks: 'Webhooks',
  metrics: 'Metrics',
  telemetry: 'Traces',
};

const sectionOf = ({ key }: Declared): string =>
  key.includes('.') || Object.hasOwn(SECTIONS, key) ? (key.split('.')[0] as string) : '';

/** The settings part of --help: the common settings or, with `all`, every setting, by section. */
export function settingsHelp({ all = false } = {}): string {
  const rows = declared
    .filter((one) => all || one.setting.main === true)
    .map((one) => ({
      section: sectionOf(one),
      left: `${one.aliasFlag ?? one.flag}${one.setting.kind.bare === true ? '' : ` ${one.setting.kind.metavar}`}`,
      right: `${one.setting.help} [${shownDefault(one)}]`,
    }));
  const format = (some: typeof rows): string => {
    const width = Math.max(...some.map(({ left }) => left.length)) + 4;
    return some
      .map(({ left, right }) => `  ${left.padEnd(width - 2)}${wrap(right, 100 - width).join(`\n${' '.repeat(width)}`)}`)
      .join('\n');
  };
  if (!all) return format(rows);
  const sections = [...new Set(rows.map(({ section }) => section))];
  return sections
    .map((section) => `${SECTIONS[section] ?? section}:\n${format(rows.filter((row) => row.section === section))}`)
    .join('\n\n');
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

/** A table of the common settings, for `monolith settings --short`. */
export function settingsSummary(): string {
  const rows = declared
    .filter((one) => one.setting.main === true)
    .map(
      (one) =>
        `| \`${one.aliasFlag ?? one.flag}\` | \`${one.aliasVariable ?? one.variable}\` | ${shownDefault(one)} | ${one.setting.help.replace(/\|/g, '\\|')} |`,
    );
  return `| flag | variable | default | description |\n|---|---|---|---|\n${rows.join('\n')}\n`;
}

const fields = (all: Readonly<Record<string, FieldHelp>>): string =>
  `| field | value | default | description |\n|---|---|---|---|\n${Object.entries(all)
    .map(([name, { expects, fallback, help }]) => `| \`${name}\` | ${expects} | ${fallback} | ${help} |\n`)
    .join('')}`;

/** The content of docs/reference/settings.md. */
export function settingsMarkdown(): string {
  const escape = (text: string): string => text.replace(/\|/g, '\\|');
  const row = (one: Declared): string => {
    const flags = [one.flag, one.aliasFlag]
      .filter((flag) => flag !== null && flag !== undefined)
      .map((flag) => `\`${flag}\``);
    return `| \`${one.key}\` | ${[...new Set(flags)].join(', ')} | ${[one.variable, ...one.others].map((name) => `\`${name}\``).join(', ')} | ${escape(one.setting.kind.expects)} | ${escape(shownDefault(one))} | ${escape(one.setting.help)} |`;
  };
  const sections = [...new Set(declared.map(sectionOf))].map(
    (section) =>
      `## ${SECTIONS[section] ?? section}\n\n| key | flag | variable | value | default | description |\n|---|---|---|---|---|---|\n${declared
        .filter((one) => sectionOf(one) === section)
        .map(row)
        .join('\n')}\n`,
  );
  return `# Settings

Generated from \`src/config/settings\` by \`npm run docs\`.

Each setting can be set by a flag, an environment variable or a key of the configuration file. A flag takes precedence
over a variable, a variable over the file, and the file over the default. An unknown flag or key is an error. A flag must
not be repeated, except \`--model\` and \`--adapter\`. An unknown variable that starts with \`MONOLITH_\` is an error if
it differs from a setting's variable by at most two letters; otherwise the server logs a warning.

The configuration file is JSON with nested or dotted keys: \`{"http": {"keepalive_ms": 5000}}\` or
\`{"http.keepalive_ms": 5000}\`. Set its path with \`--config FILE\` or \`MONOLITH_CONFIG\`. Without either, the server
reads \`config.json\` in the data directory, if it exists. Sizes accept the units \`KiB\`, \`MiB\`, \`GiB\` and \`TiB\`.

Operators can change some engine settings (batch, concurrency, queue) while the server runs, on the dashboard's
Tuning page. Such a change is stored and survives a restart, unless the next start specifies the same setting with a
flag, a variable or the file. In that case the server discards the stored change and logs a notice.

${sections.join('\n')}
## Settings of a model

Fields of \`models.<id>\`, for example \`--models '{"hal-1.0": {"idle_minutes": 30}}'\`:

${fields(MODEL_HELP)}
## Roles from OpenID Connect claims

Fields of \`oidc.roles\`. See [security](security.md#roles-from-claims).

${fields(OIDC_ROLES_HELP)}
## Upstream settings of a model

Fields of \`models.<id>.upstream\`. See [upstreams](../guides/upstreams.md).

${fields(UPSTREAM_HELP)}`;
}
