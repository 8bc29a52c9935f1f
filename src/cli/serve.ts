// monolith serve: starts the server, prints the ready line, and ends it by signal.

import { commandName } from './command-name.js';
import { loadConfig } from '../config/load.js';
import type { Config } from '../config/settings.js';
import { checkAddresses } from '../http/listen-problem.js';
import { HUB_SCHEME } from '../hub/model-ref.js';
import { startServer } from '../server/server.js';
import type { Server } from '../server/server.js';
import { createTelemetry } from '../telemetry/telemetry.js';
import { closeAnsweringThreads } from '../server/workers/answering-threads.js';
import { HeapRest, tellCollector } from '../server/workers/heap-rest.js';
import { withFetchedModels } from './fetched-models.js';
import { noWords } from './output.js';

// Ctrl-C under npm or timeout reaches the process twice: from the terminal and from its parent.
const DUPLICATE_MS = 50;
/** What threads get for closing their connections when the process is to exit at once: it would be aborted otherwise. */
const EXIT_MS = 1_000;

export async function serve(argv: string[]): Promise<number> {
  const { config: asked, rest, file } = loadConfig({ argv });
  noWords(rest);
  const telemetry = createTelemetry({
    format: asked.log,
    level: asked.log_level,
    metricNames: asked.metrics.names,
    traces: asked.telemetry.traces,
  });
  if (file !== null) telemetry.log.info({ file }, 'settings read');

  // Signals count from the start: loading a large model takes time too.
  let server: Server | null = null;
  let signalledAt: number | null = null;
  const ended = new Promise<void>((resolve, reject) => {
    const onSignal = (signal: NodeJS.Signals): void => {
      const now = performance.now();
      if (signalledAt !== null && now - signalledAt < DUPLICATE_MS) return;
      if (signalledAt !== null || server === null) {
        telemetry.log.warn({ signal }, 'exiting at once');
        const code = signalledAt === null ? 0 : 1;
        void closeAnsweringThreads(EXIT_MS).then(() => process.exit(code));
        return;
      }
      signalledAt = now;
      telemetry.log.info({ signal }, 'shutting down; a second signal exits at once');
      server.drain().then(resolve, reject);
    };
    process.on('SIGTERM', onSignal);
    process.on('SIGINT', onSignal);
  });

  // After an uncaught exception the state of this thread is unknown: running requests may end, then a supervisor starts it afresh.
  let exitCode = 0;
  const failed = new Promise<void>((resolve, reject) => {
    process.on('uncaughtException', (error) => {
      telemetry.log.error(
        { err: error },
        exitCode === 0 ? 'uncaught exception: draining, then exiting with code 1' : 'uncaught exception while draining',
      );
      if (exitCode !== 0) return;
      exitCode = 1;
      if (server === null) void closeAnsweringThreads(EXIT_MS).then(() => process.exit(1));
      else server.drain().then(resolve, reject);
    });
  });
  process.on('unhandledRejection', (error) => telemetry.log.error({ err: error }, 'unhandled rejection'));

  tellCollector();
  if (asked.model.some(({ path }) => path.startsWith(HUB_SCHEME))) await checkAddresses(asked); // that may take hours; the start looks again
  const config = await withFetchedModels(asked, telemetry.log);
  server = await startServer(config, { telemetry });
  HeapRest.start(server.http); // to the process's end
  process.stdout.write(config.log === 'json' ? readyJson(server) : readyText(server, config));
  const lost = server.lost.then(async () => {
    await server?.drain();
    telemetry.log.error({ pid: process.pid }, 'ending without closing the database; to be started again');
    // No code of LMDB's runs any more: its end would sync anew, and call that written which the disk may have lost.
    process.kill(process.pid, 'SIGKILL');
    await new Promise(() => undefined);
  });
  await Promise.race([ended, failed, lost]);
  return exitCode;
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

function readyText(server: Server, config: Config): string {
  // A key that was chosen, or shown before, is not printed: terminals are logged.
  const shownKey = server.createdKey ?? '$MONOLITH_API_KEY';
  const keyLines =
    server.createdKey !== null
      ? `  API key    ${server.createdKey}\n             Shown this once; "${commandName()} keys create" makes another.\n`
      : config.api_key !== null
        ? '  API key    the one you chose\n'
        : `  API key    as shown on the first start; "${commandName()} keys create" makes another\n`;
  const failedLine =
    server.failed.length === 0
      ? ''
      : `  Failed     ${server.failed.map(({ name }) => name).join(', ')}; the log says why\n`;
  const dashboardLines =
    server.dashboardUrl === null
      ? ''
      : server.setupUrl === null
        ? `  Dashboard  ${server.dashboardUrl}\n`
        : `  Dashboard  ${server.dashboardUrl}\n             The first user, who becomes the operator, signs up here:\n             ${server.setupUrl}\n`;
  const demonstrations = server.pool.list().some(({ model }) => model.demonstration === true)
    ? `             Small demonstration models. For a real one: ${commandName()} pull OWNER/REPO\n`
    : '';
  const body = JSON.stringify({
    model: server.models.at(-1) ?? '',
    stream: true,
    messages: [{ role: 'user', content: 'Hello!' }],
  });
  return `
Monolith is ready at ${server.url}

  Models     ${server.models.join(', ')}
${demonstrations}${failedLine}${dashboardLines}${keyLines}
Try it:

  curl -N ${server.url}/v1/chat/completions \\
    -H "Authorization: Bearer ${shownKey}" -H "Content-Type: application/json" \\
    -d '${body}'

`;
}
