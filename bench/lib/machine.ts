// Describes the machine that a measurement ran on and the source that it measured. Stored in every result file, so that
// the file is self-contained.
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

/**
 * Returns the commit of the measured source, with `+changes` if the working tree differs from it, or 'unknown' outside
 * a checkout.
 */
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
