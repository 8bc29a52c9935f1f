// Finds the command that a command line names and runs it. commands.ts declares the commands.

import { parseArgs } from 'node:util';
import { asksForHelp, noWords, readArguments } from '../config/arguments.js';
import { stderrPaint } from '../shared/terminal-color.js';
import { VERSION } from '../shared/version.js';
import { commands } from './commands.js';
import type { Command } from './command.js';

/** The text of `monolith --help`, which lists the commands. With --all, it also contains all settings. */
async function help(words: readonly string[]): Promise<string> {
  const all = words.includes('--all');
  readArguments(
    words.filter((word) => word !== '--all'),
    new Map([
      ['--help', { kind: 'switch' }],
      ['-h', { kind: 'switch' }],
    ]),
  );
  const width = Math.max(...commands.map(({ name }) => name.length)) + 2;
  return `monolith ${VERSION}: LLM inference server

Usage: monolith [command] [flags]

Commands:
${commands.map(({ name, summary }) => `  ${name.padEnd(width)}${summary}`).join('\n')}

"monolith COMMAND --help" shows the help of a command, with examples. "monolith serve --help" also shows the common
settings, and "monolith serve --help --all" shows all of them.

Examples:
  monolith                                   serve the demonstration models
  monolith run qwen3-4b                      download a model, serve it and chat with it
  monolith serve path/to/model.gguf          serve a file
  monolith models --recommended              models to start with, by memory
  monolith doctor                            check this machine
${all ? `\n${(await import('./serve-help.js')).serveHelp(['--all'])}` : ''}`;
}

async function dispatch(argv: string[]): Promise<number> {
  const [first = '', second = ''] = argv;
  if (first === '--version' || first === '-v') {
    noWords(readArguments(argv.slice(1), new Map()).words);
    process.stdout.write(`${VERSION}\n`);
    return 0;
  }
  // "monolith help serve" is "monolith serve --help".
  if (first === 'help' && second !== '' && !second.startsWith('-')) return await dispatch([...argv.slice(1), '--help']);
  if (first === '--help' || first === '-h' || first === 'help') {
    process.stdout.write(await help(argv.slice(1)));
    return 0;
  }
  const command = first === '' || first.startsWith('-') ? commands[0] : commands.find((one) => one.name === first);
  const rest = first === '' || first.startsWith('-') ? argv : argv.slice(1);
  if (command === undefined) return await unknown(first);
  return await runCommand(command, rest);
}

async function runCommand(command: Command, argv: string[]): Promise<number> {
  if (command.name === 'serve' && asksForHelp(argv)) {
    process.stdout.write((await import('./serve-help.js')).serveHelp(argv));
    return 0;
  }
  return (await command.load()).run(argv);
}

/** If the command is unknown but looks like a file or repository, it is most likely a model to serve. */
async function unknown(name: string): Promise<number> {
  const { didYouMean } = await import('../config/did-you-mean.js');
  const isModel = name.includes('/') || name.endsWith('.gguf');
  const hint = isModel
    ? ` To serve a model: monolith serve ${name}.`
    : didYouMean(
        name,
        commands.map((one) => one.name),
      );
  process.stderr.write(`monolith: unknown command "${name}".${hint} See monolith --help.\n`);
  return 2;
}

/** Whether the settings enable debug logging. False if the settings are invalid. */
function debugging(argv: readonly string[]): boolean {
  const { values } = parseArgs({ args: [...argv], strict: false, options: { 'log-level': { type: 'string' } } });
  return (values['log-level'] ?? process.env['MONOLITH_LOG_LEVEL']) === 'debug';
}

// The names of the errors whose message is sufficient. For all other errors, the stack trace may be needed too.
const PLAIN_ERRORS = new Set([
  'ConfigError',
  'StartError',
  'StorageError',
  'CatalogError',
  'UsageError',
  'HubError',
  'LoadError',
]);

/** Runs a command, reports a failure on stderr, and resolves to the exit code. */
export async function runCommandLine(argv: string[]): Promise<number> {
  try {
    return await dispatch(argv);
  } catch (error) {
    const thrown = error instanceof Error ? error : new Error(String(error));
    // An error's cause is hidden from API clients, but shown to operators who run a command.
    const {
      name,
      message,
      stack = message,
    } = thrown.name === 'ApiError' && thrown.cause instanceof Error && PLAIN_ERRORS.has(thrown.cause.name)
      ? thrown.cause
      : thrown;
    const text = PLAIN_ERRORS.has(name) ? message : `${message} (--log-level debug shows where)`;
    process.stderr.write(`${stderrPaint()('red', 'monolith:')} ${debugging(argv) ? stack : text}\n`);
    return thrown.name === 'ConfigError' || thrown.name === 'UsageError' ? 2 : 1;
  }
}
