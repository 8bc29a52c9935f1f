// The command line. Each command's module is loaded on demand, so that commands such as --help and keys start fast.

import { parseArgs } from 'node:util';
import { asksForHelp, noWords, readArguments } from '../config/arguments.js';
import { stderrPaint } from '../shared/terminal-color.js';
import { VERSION } from '../shared/version.js';

interface Command {
  name: string;
  summary: string;
  run(argv: string[]): Promise<number>;
}

const commands: readonly Command[] = [
  {
    name: 'serve',
    summary: 'start the server (default)',
    run: async (argv) => (await import('./serve.js')).serve(argv),
  },
  {
    name: 'chat',
    summary: 'chat with a model in the terminal',
    run: async (argv) => (await import('./chat.js')).chat(argv),
  },
  {
    name: 'keys',
    summary: 'create, list, rotate and revoke API keys',
    run: async (argv) => (await import('./keys.js')).keys(argv),
  },
  {
    name: 'data',
    summary: 'check, back up and restore the database',
    run: async (argv) => (await import('./data.js')).data(argv),
  },
  {
    name: 'state',
    summary: 'import a data directory into a shared PostgreSQL database',
    run: async (argv) => (await import('./state.js')).state(argv),
  },
  {
    name: 'models',
    summary: 'list models; add and remove downloaded models',
    run: async (argv) => (await import('./models.js')).models(argv),
  },
  {
    name: 'pull',
    summary: 'download a model: monolith pull OWNER/REPO[:QUANTIZATION]',
    run: async (argv) => (await import('./pull.js')).pull(argv),
  },
  {
    name: 'inspect',
    summary: 'show the metadata of a model file and the memory it needs',
    run: async (argv) => (await import('./inspect.js')).inspect(argv),
  },
  {
    name: 'agents',
    summary: 'point a coding agent at this server: monolith agents claude-code',
    run: async (argv) => (await import('./agents.js')).agents(argv),
  },
  {
    name: 'settings',
    summary: 'print all settings as a Markdown page',
    run: async (argv) => (await import('./settings.js')).settings(argv),
  },
  {
    name: 'bench',
    summary: 'measure a server (bench serve) or tune a running one (bench tune)',
    run: async (argv) => (await import('./bench.js')).bench(argv),
  },
  {
    name: 'debug',
    summary: 'print tokens and logits of a model, to compare engines',
    run: async (argv) => (await import('./debug.js')).debug(argv),
  },
];

/** `words`: the arguments other than --help, which may include settings. */
async function help(words: readonly string[]): Promise<string> {
  const [{ declared }, { loadConfig }, { settingsHelp }] = await Promise.all([
    import('../config/settings.js'),
    import('../config/load.js'),
    import('../config/help.js'),
  ]);
  const { own } = loadConfig({ argv: words.filter((one) => one !== '--help' && one !== '-h') }, { '--all': 'switch' });
  noWords(own.words);
  const all = own.values.has('--all');
  return `monolith ${VERSION}: LLM inference server

Usage: monolith [command] [flags]

Commands:
${commands.map((command) => `  ${command.name.padEnd(9)} ${command.summary}`).join('\n')}

"monolith <command> --help" shows the help of a command.

If a model cannot be loaded, the server logs the error and serves the other models. Requests for that
model get 503 model_unavailable, and /readyz returns 503. The start fails if no model can be loaded.

Settings: every flag is also an environment variable (--http-keepalive-ms: MONOLITH_HTTP_KEEPALIVE_MS)
and a key of the JSON file given by --config FILE (http.keepalive_ms). A flag takes precedence over a
variable, and a variable over the file.${
    all
      ? ''
      : `
The common settings follow; "monolith serve --help --all" shows all ${declared.length}.`
  }

${settingsHelp({ all })}
`;
}

async function dispatch(argv: string[]): Promise<number> {
  const [first = ''] = argv;
  if (first === '--version' || first === '-v') {
    noWords(readArguments(argv.slice(1), new Map()).words);
    process.stdout.write(`${VERSION}\n`);
    return 0;
  }
  if (first === '--help' || first === '-h' || first === 'help') {
    process.stdout.write(await help(argv.slice(1)));
    return 0;
  }
  if (first === '' || first.startsWith('-')) return (commands[0] as Command).run(argv);
  const command = commands.find((one) => one.name === first);
  if (command === undefined) {
    const { didYouMean } = await import('../config/did-you-mean.js');
    process.stderr.write(
      `monolith: unknown command "${first}".${didYouMean(
        first,
        commands.map((one) => one.name),
      )} See monolith --help.\n`,
    );
    return 2;
  }
  if (command.name === 'serve' && asksForHelp(argv)) {
    process.stdout.write(await help(argv.slice(1)));
    return 0;
  }
  return command.run(argv.slice(1));
}

/** Whether the settings enable debug logging. False if the settings are invalid. */
function debugging(argv: readonly string[]): boolean {
  const { values } = parseArgs({ args: [...argv], strict: false, options: { 'log-level': { type: 'string' } } });
  return (values['log-level'] ?? process.env['MONOLITH_LOG_LEVEL']) === 'debug';
}

// Errors whose message is sufficient. For all other errors, the place where they were thrown may be needed too.
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
    // The cause of an error is hidden from API clients, but shown to an operator who runs a command.
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
