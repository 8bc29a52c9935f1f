// Runs commands one after another in a process that stays loaded, because starting a process for each command would
// cost a second of CPU time. Use a real process for commands that read standard input, serve, or react to signals.
import { fork } from 'node:child_process';
import { once } from 'node:events';
import type { Test } from 'tap';

export interface Ended {
  status: number;
  out: string;
  err: string;
}

interface Call {
  args: string[];
  env: Record<string, string>;
}

const HOST = 'command-host';

/** Returns a function that runs a command like `monolith ARGS`. The process ends with the test. */
export function commandHost(
  t: Pick<Test, 'teardown'>,
  env: Record<string, string>,
): (args: string[]) => Promise<Ended> {
  const child = fork(import.meta.filename, [HOST]);
  t.teardown(() => child.kill('SIGKILL'));
  let last: Promise<unknown> = Promise.resolve();
  return (args) => {
    const ended = last.then(async () => {
      child.send({ args, env } satisfies Call);
      const [result] = (await once(child, 'message')) as [Ended];
      return result;
    });
    last = ended;
    return ended;
  };
}

async function runHere({ args, env }: Call): Promise<Ended> {
  const { runCommandLine } = await import('../../src/cli/command-line.js');
  const result: Ended = { status: 0, out: '', err: '' };
  Object.assign(process.env, env);
  process.stdout.write = (text: string | Uint8Array) => {
    result.out += String(text);
    return true;
  };
  process.stderr.write = (text: string | Uint8Array) => {
    result.err += String(text);
    return true;
  };
  result.status = await runCommandLine(args);
  return result;
}

if (process.argv[2] === HOST)
  process.on('message', (call: Call) => {
    void runHere(call).then((result) => process.send!(result));
  });
