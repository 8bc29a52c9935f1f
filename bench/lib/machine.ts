// Where and from what a figure was measured: goes into every result file, so that it can be read without its folder.
import { execFileSync } from 'node:child_process';
import { cpus, totalmem } from 'node:os';

export interface Machine {
  cpu: string;
  cores: number;
  memoryBytes: number;
  node: string;
}

export function machine(): Machine {
  return {
    cpu: cpus()[0]?.model.trim() ?? 'unknown',
    cores: cpus().length,
    memoryBytes: totalmem(),
    node: process.version,
  };
}

/** The commit of the source measured, with `+changes` if the tree differs from it; 'unknown' outside a checkout. */
export function commit(): string {
  const git = (...args: string[]): string =>
    execFileSync('git', args, { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] }).trim();
  try {
    return (
      git('rev-parse', '--short=12', 'HEAD') +
      (git('status', '--porcelain', '--untracked-files=no', '--', 'native', 'src') === '' ? '' : '+changes')
    );
  } catch {
    return 'unknown';
  }
}
