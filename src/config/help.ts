// Descriptions of the settings: the lines of --help, `monolith settings --short`, docs/reference/settings.md.

import { declared } from './settings.js';
import type { Declared } from './settings.js';

function shownDefault(one: Declared): string {
  const { shown, default: value } = one.setting;
  if (shown !== undefined) return shown;
  if (value === null) return 'off';
  return typeof value === 'number' ? value.toLocaleString('en-US').replace(/^(\d),(\d{3})$/, '$1$2') : String(value);
}

const SECTIONS: Readonly<Record<string, string>> = {
  '': 'Server',
  http: 'HTTP',
  limits: 'Limits of organizations',
  counters: 'Limits shared by processes',
  engine: 'Engine',
  structured_outputs: 'Structured output',
  images: 'Images',
  hub: 'Hub of models',
  messages: 'Messages',
  responses: 'Stored responses',
  ws: 'WebSockets',
  state: 'Shared database',
  secrets: 'Secrets',
  models: 'Models',
  upstream: 'Models that run elsewhere',
  accounts: 'Accounts',
  oidc: 'Sign-in by OpenID Connect',
  dashboard: 'Dashboard',
  mail: 'Mail',
  admin: 'Operator API',
  usage: 'Usage',
  requests: 'Request log',
  webhooks: 'Webhooks',
  metrics: 'Metrics',
  telemetry: 'Traces',
};

/** The settings part of --help: those most people touch, or with `all` every one, by section. */
export function settingsHelp({ all = false } = {}): string {
  const rows = declared
    .filter((one) => all || one.setting.main === true)
    .map((one) => ({
      section: one.key.includes('.') || Object.hasOwn(SECTIONS, one.key) ? (one.key.split('.')[0] as string) : '',
      left: `${one.aliasFlag ?? one.flag}${one.setting.kind.bare === true ? '' : ` ${one.setting.kind.metavar}`}`,
      right: `${one.setting.help} [${shownDefault(one)}]`,
    }));
  const told = (some: typeof rows): string => {
    const width = Math.max(...some.map(({ left }) => left.length)) + 4;
    return some
      .map(({ left, right }) => `  ${left.padEnd(width - 2)}${wrap(right, 100 - width).join(`\n${' '.repeat(width)}`)}`)
      .join('\n');
  };
  if (!all) return told(rows);
  const sections = [...new Set(rows.map(({ section }) => section))];
  return sections
    .map((section) => `${SECTIONS[section] ?? section}:\n${told(rows.filter((row) => row.section === section))}`)
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

/** The table of `monolith settings --short`: the most used settings. */
export function settingsSummary(): string {
  const rows = declared
    .filter((one) => one.setting.main === true)
    .map(
      (one) =>
        `| \`${one.aliasFlag ?? one.flag}\` | \`${one.aliasVariable ?? one.variable}\` | ${shownDefault(one)} | ${one.setting.help.replace(/\|/g, '\\|')} |`,
    );
  return `| flag | variable | default | what it does |\n|---|---|---|---|\n${rows.join('\n')}\n`;
}

/** docs/reference/settings.md, whole. */
export function settingsMarkdown(): string {
  const escape = (text: string): string => text.replace(/\|/g, '\\|');
  const rows = declared.map((one) => {
    const flags = [one.flag, one.aliasFlag]
      .filter((flag) => flag !== null && flag !== undefined)
      .map((flag) => `\`${flag}\``);
    return `| \`${one.key}\` | ${[...new Set(flags)].join(', ')} | ${[one.variable, ...one.others].map((name) => `\`${name}\``).join(', ')} | ${escape(one.setting.kind.expects)} | ${escape(shownDefault(one))} | ${escape(one.setting.help)} |`;
  });
  return `# Settings

Generated from \`src/config/settings.ts\` by \`npm run docs:settings\`.

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
