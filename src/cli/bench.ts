// monolith bench: measures a server from the outside, with the subcommands serve and tune.

import { readArguments, UsageError } from '../config/arguments.js';
import { askedForHelp } from './output.js';

const HELP = `
Usage: monolith bench serve [flags]    measure a server with a chat completions, completions or responses API
       monolith bench tune [flags]     find the best engine settings and load of a running server for given objectives

"monolith bench serve --help" and "monolith bench tune --help" show the flags.

Examples:
  monolith bench serve --concurrency 16 --requests 200
  monolith bench tune --slo ttft_p99=500ms,itl_p99=50ms
`;

const PARTS: Readonly<Record<string, (argv: string[]) => Promise<number>>> = {
  serve: async (argv) => (await import('./bench-serve.js')).benchServe(argv),
  tune: async (argv) => (await import('./bench-tune.js')).benchTune(argv),
};

export async function bench(argv: string[]): Promise<number> {
  const [part = '', ...rest] = argv;
  const run = Object.hasOwn(PARTS, part) ? PARTS[part] : undefined;
  if (run !== undefined) return run(rest);
  if (argv.length === 0 || (part.startsWith('-') && askedForHelp(argv, HELP))) {
    if (argv.length === 0) process.stdout.write(`${HELP.trim()}\n`);
    return argv.length === 0 ? 2 : 0;
  }
  readArguments(argv, new Map());
  throw new UsageError(`bench: expected ${Object.keys(PARTS).join(' or ')}, not "${part}"`);
}
