// monolith doctor: checks the machine and the settings, and reports what to do.

import { noWords } from '../config/arguments.js';
import type { OwnFlags } from '../config/arguments.js';
import { commandConfig } from './command-config.js';
import { examine } from './doctor-checks.js';
import type { Finding } from './doctor-checks.js';
import { askedForHelp, table } from './output.js';

const HELP = `
Usage: monolith doctor [--json] [settings]

Checks Node.js, the engine, build tools (in a checkout), memory, the configured models, the GPU, disk space, the
permissions of the data directory and the model cache, the ports, and whether the hub is reachable. For each problem, it
prints what to do. The checks leave no files behind. The exit status is 1 if a check failed; warnings do not count.

Examples:
  monolith doctor
  monolith doctor --config /etc/monolith/config.json
  monolith doctor --port 80 --device cuda
`;

export const FLAGS: OwnFlags = { '--json': 'switch' };

export async function doctor(argv: string[]): Promise<number> {
  if (askedForHelp(argv, HELP)) return 0;
  const { config, values, words } = commandConfig(argv, FLAGS);
  noWords(words);
  const found = await examine(config);
  process.stdout.write(values.has('--json') ? `${JSON.stringify(found)}\n` : report(found));
  return found.some(({ result }) => result === 'fail') ? 1 : 0;
}

export function report(found: readonly Finding[]): string {
  const rows = found.flatMap(({ check, result, message, advice }) => [
    [result, check, message],
    ...(advice === null ? [] : [['', '', `→ ${advice}`]]),
  ]);
  const failed = found.filter(({ result }) => result === 'fail').length;
  const warned = found.filter(({ result }) => result === 'warn').length;
  const count = (number: number, what: string): string => `${number} ${what}${number === 1 ? '' : 's'}`;
  const end =
    failed + warned === 0 ? 'No problems found.' : `${count(failed, 'failure')}, ${count(warned, 'warning')}.`;
  return `${table(rows)}\n${end}\n`;
}
