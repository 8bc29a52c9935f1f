// monolith version: the version, and the build details that a bug report needs.

import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { flagsOf, noWords, readArguments } from '../config/arguments.js';
import type { OwnFlags } from '../config/arguments.js';
import { configWith } from '../config/load.js';
import { cudaProblem } from '../engine/cuda-probe.js';
import { loadAddon, packageRoot } from '../engine/load-addon.js';
import { loadOptions } from '../server/engine-settings.js';
import { VERSION } from '../shared/version.js';
import { askedForHelp, table } from './output.js';

const HELP = `
Usage: monolith version [--json]

Prints the version, the commit of a checkout, the platform, and what the native engine was built with.
"monolith --version" prints the version only.

Examples:
  monolith version
  monolith version --json
`;

export const FLAGS: OwnFlags = { '--json': 'switch' };

export interface BuildFacts {
  readonly version: string;
  /** Commit and date; null outside a checkout. */
  readonly commit: string | null;
  readonly node: string;
  readonly platform: string;
  /** Null if the engine cannot be loaded. In that case, `problem` contains the reason. */
  readonly engine: {
    readonly version: string;
    readonly instruction_sets: readonly string[];
    readonly cuda: string;
  } | null;
  readonly problem: string | null;
}

export async function version(argv: string[]): Promise<number> {
  if (askedForHelp(argv, HELP)) return 0;
  const { flags, words } = readArguments(argv, flagsOf(FLAGS));
  noWords(words);
  const facts = await buildFacts();
  if (flags.length > 0) process.stdout.write(`${JSON.stringify(facts)}\n`);
  else
    process.stdout.write(
      table([
        ['monolith', facts.version],
        ...(facts.commit === null ? [] : [['commit', facts.commit]]),
        ['node', facts.node],
        ['platform', facts.platform],
        ['engine', facts.engine === null ? `not available: ${facts.problem ?? ''}` : facts.engine.version],
        ...(facts.engine === null
          ? []
          : [
              ['cpu', facts.engine.instruction_sets.join(', ')],
              ['cuda', facts.engine.cuda],
            ]),
      ]),
    );
  return 0;
}

export async function buildFacts(): Promise<BuildFacts> {
  const base = { version: VERSION, commit: commit(), node: process.versions.node, platform: platform() };
  try {
    const addon = loadAddon();
    const cuda = (await cudaProblem(loadOptions(configWith({})))) ?? 'available';
    return { ...base, engine: { version: addon.version, instruction_sets: addon.isas, cuda }, problem: null };
  } catch (error) {
    return { ...base, engine: null, problem: (error as Error).message };
  }
}

/** For example `linux x64, glibc 2.36`. */
function platform(): string {
  const { glibcVersionRuntime: glibc } = (process.report.getReport() as { header: { glibcVersionRuntime?: string } })
    .header;
  return `${process.platform} ${process.arch}${glibc === undefined ? '' : `, glibc ${glibc}`}`;
}

function commit(): string | null {
  if (!existsSync(join(packageRoot, '.git'))) return null;
  const git = (...args: string[]): string | null => {
    const { status, stdout } = spawnSync('git', ['-C', packageRoot, ...args], { encoding: 'utf8', timeout: 5_000 });
    return status === 0 ? stdout.trim() : null;
  };
  const head = git('log', '-1', '--format=%h %cs');
  return head === null || head === '' ? null : head + (git('status', '--porcelain', '-uno') === '' ? '' : ', modified');
}
