// monolith serve: starts the server, prints the ready message, and shuts down on a signal.

import { KEY_VARIABLE } from './client-key.js';
import { commandName } from './command-name.js';
import { loadConfig } from '../config/load.js';
import type { Config } from '../config/settings.js';
import { checkAddresses } from '../http/listen-problem.js';
import { taskOf } from '../engine/file-facts.js';
import { HUB_SCHEME } from '../hub/model-ref.js';
import { startServer } from '../server/server.js';
import type { Server } from '../server/server.js';
import { LogFile } from '../telemetry/log-file.js';
import { stderrLog } from '../telemetry/log-writer.js';
import { createTelemetry } from '../telemetry/telemetry.js';
import { closeAnsweringThreads } from '../server/workers/http-workers.js';
import { HeapRest, tuneCollector } from '../server/workers/heap-rest.js';
import { withFetchedModels } from './fetched-models.js';
import { inSystemd, keepFirstStart, notifySystemd } from './service-manager.js';
import type { OwnFlags } from '../config/arguments.js';
import { plain, stdoutPaint } from '../shared/terminal-color.js';
import type { Paint } from '../shared/terminal-color.js';
import { modelArgument } from './model-argument.js';

// With npm or timeout, Ctrl-C reaches the process twice, from the terminal and from the parent process. A second signal
// within this time is ignored.
const DUPLICATE_MS = 50;
/**
 * How long HTTP workers may take to close their connections when the process must exit immediately. If the connections
 * stayed open, the HTTP library would abort the process.
 */
const EXIT_MS = 1_000;

export const FLAGS: OwnFlags = {};

/** Converts the MODEL arguments to values of the setting `model`. */
export const modelsOf =
  (command: string) =>
  (words: readonly string[]): string[] =>
    words.map((word) => {
      const { name, source } = modelArgument(command, word);
      return `${name}=${source}`;
    });

export async function serve(argv: string[]): Promise<number> {
  try {
    return await runServer(argv);
  } finally {
    await stderrLog.flush();
  }
}

/** Exits without waiting for requests. */
async function exitNow(code: number): Promise<void> {
  await closeAnsweringThreads(EXIT_MS);
  await stderrLog.flush();
  process.exit(code);
}

async function runServer(argv: string[]): Promise<number> {
  const { config: asked, file, renamed, unknown } = loadConfig({ argv, modelsOf: modelsOf('serve') });
  const telemetry = createTelemetry({
    format: asked.log,
    level: asked.log_level,
    metricNames: asked.metrics.names,
    traces: asked.telemetry.traces,
  });
  const logFile = asked.log_file_bytes === 0 ? null : new LogFile(asked.data_dir, asked.log_file_bytes);
  if (logFile !== null) stderrLog.copy = (line) => logFile.write(line);
  if (file !== null) telemetry.log.info({ file }, 'settings read');
  for (const variable of unknown) telemetry.log.warn({ variable }, 'unknown setting, the variable has no effect');
  for (const one of renamed) telemetry.log.warn(one, 'setting renamed, update the configuration');

  // Signals are handled from the start, because loading a large model may take a long time.
  let server: Server | null = null;
  let signalledAt: number | null = null;
  const ended = new Promise<void>((resolve, reject) => {
    const onSignal = (signal: NodeJS.Signals): void => {
      const now = performance.now();
      if (signalledAt !== null && now - signalledAt < DUPLICATE_MS) return;
      if (signalledAt !== null || server === null) {
        telemetry.log.warn({ signal }, 'exiting immediately');
        void exitNow(signalledAt === null ? 0 : 1);
        return;
      }
      signalledAt = now;
      telemetry.log.info({ signal }, 'shutting down; a second signal exits immediately');
      void notifySystemd('STOPPING=1', telemetry.log);
      server.drain().then(resolve, reject);
    };
    process.on('SIGTERM', onSignal);
    process.on('SIGINT', onSignal);
  });

  // After an uncaught exception, the state of this thread is unknown. Running requests may finish; then the process
  // exits, so that a supervisor restarts it.
  let exitCode = 0;
  const failed = new Promise<void>((resolve, reject) => {
    process.on('uncaughtException', (error) => {
      telemetry.log.error(
        { err: error },
        exitCode === 0 ? 'uncaught exception: draining, then exiting with code 1' : 'uncaught exception while draining',
      );
      if (exitCode !== 0) return;
      exitCode = 1;
      if (server === null) void exitNow(1);
      else server.drain().then(resolve, reject);
    });
  });
  process.on('unhandledRejection', (error) => telemetry.log.error({ err: error }, 'unhandled rejection'));

  tuneCollector();
  // Downloads can take hours, so the addresses are checked first; startServer() checks them again.
  if (asked.model.some(({ path }) => path.startsWith(HUB_SCHEME))) await checkAddresses(asked);
  const config = await withFetchedModels(asked, telemetry.log);
  server = await startServer(config, { telemetry, onLocked: () => logFile?.open() });
  HeapRest.start(server.http); // runs until the process ends
  await stderrLog.flush(); // so that the log lines written during startup precede the startup message
  announce(server, config);
  await notifySystemd('READY=1', telemetry.log);
  const lost = server.lost.then(async () => {
    await server?.drain();
    telemetry.log.error({ pid: process.pid }, 'exiting without closing the database; restart the server');
    await stderrLog.flush();
    // LMDB must no longer be used: closing it would sync again, and that sync would report success although the disk
    // may have lost data.
    process.kill(process.pid, 'SIGKILL');
    await new Promise(() => undefined);
  });
  await Promise.race([ended, failed, lost]);
  return exitCode;
}

/** Prints the ready message. Under systemd, where stdout is logged, the secrets go to a file instead. */
function announce(server: Server, config: Config): void {
  const isSecret = server.createdKey !== null || server.setupUrl !== null;
  if (!isSecret || !inSystemd(process.env)) {
    process.stdout.write(config.log === 'json' ? readyJson(server) : readyText(server, config));
    return;
  }
  const file = keepFirstStart(config.data_dir, readyText(server, config, plain));
  const shown: Server = { ...server, createdKey: null, setupUrl: null };
  process.stdout.write(
    config.log === 'json'
      ? readyJson(shown)
      : `${readyText(shown, config)}The first API key and the sign-up link are in ${file}.\n`,
  );
}

function readyJson(server: Server): string {
  return `${JSON.stringify({
    event: 'ready',
    url: server.url,
    host: server.host,
    port: server.port,
    pid: process.pid,
    models: server.models,
    ...(server.adminUrl === null ? {} : { admin_url: server.adminUrl }),
    ...(server.failed.length === 0 ? {} : { failed: server.failed.map(({ name }) => name) }),
    ...(server.createdKey === null ? {} : { api_key: server.createdKey }),
    ...(server.dashboardUrl === null ? {} : { dashboard_url: server.dashboardUrl }),
    ...(server.setupUrl === null ? {} : { setup_url: server.setupUrl }),
  })}\n`;
}

/**
 * A command that prints the text of a response or, if there is none, the whole error. Minimal systems have `sed`, but
 * not `jq`.
 */
const TEXT_OF_RESPONSE = `sed -E 's/.*"content":"([^"]*)".*/\\1/'`;

function readyText(server: Server, config: Config, paint: Paint = stdoutPaint()): string {
  // A key that the user has set or that was shown before is not printed, because terminal output may be logged.
  const shownKey = server.createdKey ?? `$${KEY_VARIABLE}`;
  const row = (label: string, text: string, ...notes: string[]): string =>
    [`  ${paint('dim', label.padEnd(11))}${text}`, ...notes.map((note) => ' '.repeat(13) + note)].join('\n') + '\n';
  const keyLines =
    server.createdKey !== null
      ? row(
          'API key',
          paint('bold', server.createdKey),
          `Shown only once; "${commandName()} keys create" creates another.`,
        )
      : config.api_key !== null
        ? row('API key', 'as set in the settings')
        : row('API key', `as shown on the first start; "${commandName()} keys create" creates another`);
  const failedLine =
    server.failed.length === 0
      ? ''
      : row('Failed', `${paint('red', server.failed.map(({ name }) => name).join(', '))}; see the log`);
  const dashboardLines =
    server.dashboardUrl === null
      ? ''
      : server.setupUrl === null
        ? row('Dashboard', server.dashboardUrl)
        : row('Dashboard', server.dashboardUrl, 'Sign up as the first user and operator:', server.setupUrl);
  const demonstrations = server.pool.list().some(({ model }) => model.demonstration === true)
    ? [`Small demonstration models. For full-size models: ${commandName()} models --recommended`]
    : [];
  return `
${paint('green', `Monolith is ready at ${paint('bold', server.url)}`)}

${row('Models', server.models.join(', '), ...demonstrations)}${failedLine}${dashboardLines}${keyLines}
Try it:

${tryText(server, shownKey)}
`;
}

/**
 * Example request for the smallest chat model. If there are no chat models, the example is for an embedding model
 * or reranker.
 */
function tryText({ pool, url, models }: Server, key: string): string {
  const curl = (path: string, body: object): string => `  curl -sS -w '\\n' ${url}${path} \\
    -H "Authorization: Bearer ${key}" -H "Content-Type: application/json" \\
    -d '${JSON.stringify(body)}'`;
  // An unloaded model is assumed to generate text unless the catalog specifies another output type.
  const isOfTask = (name: string, wanted: string): boolean => {
    const pooled = pool.get(name);
    const loaded = pooled?.status.state === 'ready' ? taskOf(pooled.status.engine.info) : null;
    return (loaded ?? pooled?.model.task ?? 'generation') === wanted;
  };
  const ofTask = (wanted: string): string | undefined => models.filter((name) => isOfTask(name, wanted)).at(-1);
  const chat = ofTask('generation');
  if (chat !== undefined) {
    const messages = [{ role: 'user', content: 'What is the capital of France?' }];
    return `${curl('/v1/chat/completions', { model: chat, messages })} | ${TEXT_OF_RESPONSE}

or chat in the terminal:  ${commandName()} chat
`;
  }
  const embedding = ofTask('embedding');
  if (embedding !== undefined) return `${curl('/v1/embeddings', { model: embedding, input: 'A boat in the fog.' })}\n`;
  const documents = ['A boat in the fog.', 'A red car.'];
  return `${curl('/v1/rerank', { model: models.at(-1) ?? '', query: 'ships', documents })}\n`;
}
