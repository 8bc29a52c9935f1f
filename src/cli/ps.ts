// monolith ps: shows the server that uses the data directory, and its models.

import { showBytes } from '../config/kinds.js';
import type { OwnFlags } from '../config/arguments.js';
import { noWords } from '../config/arguments.js';
import type { LocalModel, LocalStatus } from '../shared/wire/local-status.js';
import { commandConfig } from './command-config.js';
import { commandName } from './command-name.js';
import { askedForHelp, table } from './output.js';
import { serverStatus } from './server-status.js';

const HELP = `
Usage: monolith ps [--json] [--data-dir PATH]

Shows the server that uses the data directory: its URL, process ID and uptime, and for each model its state, memory
(in use now, and the maximum), running streams and waiting requests. The exit status is 1 if no server runs.

Examples:
  monolith ps
  monolith ps --json | jq .models
  monolith ps --data-dir /var/lib/monolith
`;

export const FLAGS: OwnFlags = { '--json': 'switch' };

export async function ps(argv: string[]): Promise<number> {
  if (askedForHelp(argv, HELP)) return 0;
  const { config, values, words } = commandConfig(argv, FLAGS);
  noWords(words);
  const status = await serverStatus(config.data_dir);
  if (values.has('--json')) process.stdout.write(`${JSON.stringify(status)}\n`);
  else if (status !== null) process.stdout.write(statusText(status));
  else process.stderr.write(`monolith: no server uses ${config.data_dir}; "${commandName()} serve" starts one\n`);
  return status === null ? 1 : 0;
}

export function statusText({ url, pid, version, uptime_s: uptime, models }: LocalStatus): string {
  return `monolith ${version} at ${url}, process ${pid}, up ${duration(uptime)}

${table([['MODEL', 'STATE', 'MEMORY', 'MAXIMUM', 'DEVICE', 'CONTEXT', 'STREAMS', 'WAITING'], ...models.map(rowOf)])}`;
}

const STATES = {
  ready: 'loaded',
  idle: 'on demand',
  unloaded: 'unloaded',
  elsewhere: 'upstream',
  failed: 'failed',
  loading: 'loading',
} as const;

function rowOf(model: LocalModel): string[] {
  const { state, progress, problem, running, max_running: most } = model;
  const size = (bytes: number | null): string => (bytes === null ? '-' : showBytes(bytes));
  return [
    [...model.names, ...model.adapters].join(', '),
    progress === null ? STATES[state] : `${STATES[state]} ${Math.floor(100 * progress)} %`,
    size(model.memory_bytes),
    size(model.max_memory_bytes),
    model.device ?? '-',
    model.context === null ? '-' : String(model.context),
    most === null ? '-' : `${running} of ${most}`,
    problem === null ? String(model.waiting) : `${model.waiting}  ${problem}`,
  ];
}

/** `3 d 4 h`, `2 h 5 min`, `41 s`. */
export function duration(seconds: number): string {
  const units = [
    ['d', 86_400],
    ['h', 3_600],
    ['min', 60],
  ] as const;
  const at = units.findIndex(([, length]) => seconds >= length);
  if (at < 0) return `${seconds} s`;
  const [unit, length] = units[at] as (typeof units)[number];
  const next = units[at + 1];
  const rest = next === undefined ? seconds % 60 : Math.floor((seconds % length) / next[1]);
  return `${Math.floor(seconds / length)} ${unit}${rest === 0 ? '' : ` ${rest} ${next?.[0] ?? 's'}`}`;
}
