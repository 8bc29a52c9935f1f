// If TEST_UPSTREAM is set to an API format, servers started by tests run no model themselves. A second process serves
// the models, and the server uses this process as an upstream in that format. `npm run test:upstream` sets the variable
// for the suites that run the official clients.
import type { UpstreamApi } from '../../src/config/upstream.js';

export interface Start {
  args?: string[];
  env?: Record<string, string>;
  /** File descriptor for the server's stderr, in place of a pipe that the test reads. */
  stderr?: number;
}

/** Upstream format if the models run in a second process; undefined if they run in the first process. */
export const askedIn = process.env['TEST_UPSTREAM'] as UpstreamApi | undefined;

/**
 * Options for the process that runs the engine: the models and how to compute them. Limits, storage and threads are
 * options of the first process.
 */
export function engineOf({ args = [], env = {} }: Start): Start {
  const isEngines = (name: string): boolean =>
    /^(--)?(model|threads|engine|images|structured[-_]outputs|device|backend)([-_=]|$)/.test(name);
  return {
    args: [
      ...chosen(args, isEngines),
      '--limits-rpm',
      'off',
      '--limits-tpm',
      'off',
      '--limits-concurrency',
      'off',
      '--limits-event-loop-ms',
      'off',
      '--requests-days',
      '0',
    ],
    env: Object.fromEntries(
      Object.entries(env).filter(([name]) => isEngines(name.replace(/^MONOLITH_/, '').toLowerCase())),
    ),
  };
}

/** The options in `start`, with its models replaced by upstream models. */
export function askingOf(
  { args = [], env = {} }: Start,
  api: UpstreamApi,
  server: { url: string; key: string; models: readonly { id: string; images: boolean }[] },
): Start {
  const set = JSON.parse(env['MONOLITH_MODELS'] ?? '{}') as Record<string, object>;
  const upstreams = server.models.map(({ id, images }) => [
    id,
    {
      ...set[id],
      upstream: {
        url: `${server.url}/v1`,
        api,
        key: server.key,
        images,
        ...(api === 'chat-completions' ? { structured_outputs: 'monolith' } : {}),
      },
    },
  ]);
  return {
    args: [
      ...chosen(args, (name) => name !== '--model'),
      ...server.models.flatMap(({ id }) => ['--model', `${id}=${server.url}/v1`]),
    ],
    env: { ...env, MONOLITH_MODELS: JSON.stringify({ ...set, ...Object.fromEntries(upstreams) }) },
  };
}

/** Selects flags by name, with their values. */
function chosen(args: readonly string[], isChosen: (name: string) => boolean): string[] {
  const kept: string[] = [];
  for (let at = 0; at < args.length; ) {
    let end = at + 1;
    while (end < args.length && !args[end]!.startsWith('--')) end++;
    if (isChosen(args[at]!.split('=')[0]!)) kept.push(...args.slice(at, end));
    at = end;
  }
  return kept;
}
