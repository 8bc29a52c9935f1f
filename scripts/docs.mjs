// npm run docs: writes the generated reference pages (settings, errors, cli, metrics) from the declarations in src.
// npm run docs -- --check: lists pages that are out of date, without writing anything.
import { spawnSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { parseArgs } from 'node:util';
import { root, run, SetupError } from './setup.mjs';

/** The directory that holds the pages, relative to the root of the checkout. */
export const folder = join('docs', 'reference');

/** A guide with a generated part, relative to `folder`. */
const kModelsGuide = join('..', 'guides', 'models.md');

/** Page name → content. `built`: the directory that holds the compiled sources. */
export async function pages(built = join(root, 'dist')) {
  const load = (...path) => import(pathToFileURL(join(built, ...path)).href);
  const [{ settingsMarkdown }, errors, { declaredMetrics }, { declaredVllmMetrics }] = await Promise.all([
    load('config', 'help.js'),
    load('shared', 'error-codes.js'),
    load('telemetry', 'instruments.js'),
    load('telemetry', 'vllm-names.js'),
  ]);
  return {
    'settings.md': settingsMarkdown(),
    'errors.md': errorsPage(errors),
    'metrics.md': metricsPage(declaredMetrics(), declaredVllmMetrics()),
    'cli.md': await cliPage(built, load),
    [kModelsGuide]: await modelsGuide(load),
  };
}

/** Names of the pages in the directory `at` whose content differs from `wanted`. */
export function stalePages(wanted, at = join(root, folder)) {
  return Object.entries(wanted)
    .filter(([name, text]) => contentOf(join(at, name)) !== text)
    .map(([name]) => name);
}

function contentOf(path) {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return null;
  }
}

const cell = (text) => text.replace(/\|/g, '\\|').replace(/\n/g, ' ');

const table = (head, rows) =>
  [head, head.map(() => '---'), ...rows].map((row) => `${`| ${row.map(cell).join(' | ')}`.trimEnd()} |\n`).join('');

function errorsPage({ ERRORS, ERROR_TYPES }) {
  const sections = Object.entries(ERROR_TYPES).map(([status, type]) => {
    const rows = Object.entries(ERRORS)
      .filter(([, error]) => String(error.status) === status)
      .map(([code, { meaning, cause, action }]) => [`\`${code}\``, meaning, cause, action]);
    return `## ${status} \`${type}\`\n\n${table(['code', 'meaning', 'cause', 'what to do'], rows)}`;
  });
  return `# Errors

Generated from \`src/shared/error-codes.ts\` by \`npm run docs\`.

Every error has a stable \`code\`. Clients should act on the code and the HTTP status, not on the message. Codes may be
added in minor releases; existing codes are never renamed.

Errors have the OpenAI format, except on \`/v1/messages\`. \`param\` is the path of the field that caused the error, or
\`null\`:

\`\`\`json
{"error": {"message": "\`temperature\` must be between 0 and 2 (got 3).", "type": "unprocessable_entity", "param": "temperature", "code": "value_out_of_range"}}
\`\`\`

\`/v1/messages\` returns errors in the Anthropic format, as do \`/v1/models\` and unknown paths if the request has an
\`anthropic-version\` or \`x-api-key\` header:

\`\`\`json
{"type": "error", "error": {"type": "rate_limit_error", "message": "...", "param": null, "code": "rpm_limit_exceeded",
  "details": {"error_code": "rpm_limit_exceeded"}}, "request_id": "req_..."}
\`\`\`

- **Request ID.** Every response has the header \`x-request-id\`. Use it to find the request in the server log.
- **Retries.** 429 and 503 responses have \`Retry-After\` (whole seconds, 1 to 60) and \`retry-after-ms\`. Do not retry
  if the response has \`x-should-retry: false\`.
- **Upstream errors.** If an upstream server caused the error, \`details.upstream_status\` is its HTTP status.
- **Errors in a stream.** An error after the start of a stream is sent as an event with the same fields. The HTTP status
  remains 200.
- **Different status per format.** A few errors have a different status in some formats, because the clients of that
  format act on it. For example, an unusable image is 400 in the messages format. See [compatibility](compatibility.md).

${sections.join('\n')}`;
}

function metricsPage(metrics, vllm) {
  const labels = (names) => (names.length === 0 ? '' : names.map((name) => `\`${name}\``).join(', '));
  return `# Metrics

Generated from \`src/telemetry\` by \`npm run docs\`.

\`GET /metrics\` returns all metrics in the Prometheus text format. It requires the token set in
\`metrics.token\` or an operator's API key; \`metrics.public\` removes the requirement
([security](security.md#metrics-and-health)). Counters are the sums over all HTTP workers of the process. Times are in
seconds, sizes in bytes. See [monitoring](../guides/monitoring.md) for dashboards and alerts.

## Monolith metrics

Exported unless \`metrics.names\` is \`vllm\`. A histogram has the series \`NAME_bucket\`, \`NAME_sum\` and
\`NAME_count\`.

${table(
  ['metric', 'type', 'labels', 'description'],
  metrics.map((one) => [`\`${one.name}\``, one.type, labels(one.labels), one.help]),
)}
| label | values |
|---|---|
| \`model\` | name of the model |
| \`endpoint\` | path of the API route |
| \`status\`, \`code\` | HTTP status, and the [error code](errors.md) (empty if there was no error) |
| \`outcome\` | \`completed\`, \`refused\`, \`failed\` or \`cancelled\` for requests; \`answered\`, \`failed\` or \`other\` for upstream requests; for others see the metric |
| \`kind\` | \`http\`, \`websocket\` or \`background\` for requests; the name of the call for Redis calls |
| \`stage\` | stage in which a request was cancelled: \`queue\`, \`prefill\` or \`decode\` |
| \`reason\` | finish reason |
| \`server\` | host and port of the upstream server |

## vLLM metrics

Exported unless \`metrics.names\` is \`monolith\`. Dashboards and gateways built for vLLM can use them. The labels are
\`model_name\` and \`engine\` (always \`0\`); \`vllm:request_success_total\` also has \`finished_reason\`. Histogram
buckets are the same as for the Monolith metric.

${table(
  ['metric', 'type', 'Monolith metric', 'description'],
  vllm.map((one) => [`\`${one.name}\``, one.type, one.source === null ? '' : `\`${one.source}\``, one.help]),
)}`;
}

/** The guide with the table of recommended models between its two markers. */
async function modelsGuide(load) {
  const { recommendedMarkdown } = await load('cli', 'recommended-text.js');
  const [start, end] = ['<!-- recommended -->\n', '<!-- /recommended -->'];
  const text = readFileSync(join(root, folder, kModelsGuide), 'utf8');
  if (!text.includes(start) || !text.includes(end))
    throw new SetupError(`docs/guides/models.md has no ${start.trim()}`);
  return text.slice(0, text.indexOf(start) + start.length) + recommendedMarkdown() + text.slice(text.indexOf(end));
}

async function cliPage(built, load) {
  const sections = [];
  // The environment is empty so that the help does not depend on this machine's settings.
  const program = (...args) => {
    const { stdout, stderr, status } = spawnSync(process.execPath, [join(built, 'main.js'), ...args, '--help'], {
      encoding: 'utf8',
      env: { MONOLITH_DATA_DIR: join(root, 'none') },
    });
    if (status !== 0) throw new SetupError(`monolith ${args.join(' ')} --help failed: ${stderr.trim()}`);
    return stdout.replace(/^monolith \S+:/, 'monolith:').trim();
  };
  const add = (title, text) => sections.push(`## ${title}\n\n\`\`\`text\n${text}\n\`\`\`\n`);
  add('monolith', program());
  add('monolith serve', program('serve'));
  const { commands } = await load('cli', 'commands.js');
  for (const { name, actions, load: loaded } of commands.filter(({ name }) => name !== 'serve')) {
    const { run: runCommand, actionFlags = {} } = await loaded();
    add(`monolith ${name}`, await printed(() => runCommand(['--help'])));
    // Subcommands with their own flags have their own help.
    for (const action of actions ?? [])
      if (action in actionFlags) add(`monolith ${name} ${action}`, await printed(() => runCommand([action, '--help'])));
  }
  return `# Command line

Generated from the commands' help text by \`npm run docs\`.

In a checkout, run \`./monolith\` instead of \`monolith\`. \`monolith\` without a command starts the server. Every
setting in [settings](settings.md) is also a flag of the commands that use it. \`monolith --version\` prints the
version.

The exit status is 0 on success, 1 on failure, and 2 if the arguments are invalid.

${sections.join('\n')}`;
}

/** Returns what `call` writes to stdout. */
async function printed(call) {
  const { write } = process.stdout;
  let text = '';
  process.stdout.write = (chunk) => {
    text += chunk;
    return true;
  };
  try {
    await call();
  } finally {
    process.stdout.write = write;
  }
  return text.trim();
}

async function main() {
  const { values } = parseArgs({ options: { check: { type: 'boolean', default: false } } });
  const wanted = await pages();
  const stale = stalePages(wanted);
  if (values.check) {
    if (stale.length > 0)
      throw new SetupError(`Out of date: ${stale.map((name) => join(folder, name)).join(', ')}. Run npm run docs.`);
    return;
  }
  for (const name of stale) writeFileSync(join(root, folder, name), wanted[name]);
}

if (process.argv[1] !== undefined && resolve(process.argv[1]) === fileURLToPath(import.meta.url)) await run(main);
