// monolith bench tune: finds the best settings and load for a running server under latency objectives. This process
// generates the load, and changes the settings through the operator API. A signal ends the run and restores the
// previous settings.

import { writeFileSync } from 'node:fs';
import { constants } from 'node:os';
import { commandConfig } from './command-config.js';
import type { Config } from '../config/settings.js';
import { loadAddon } from '../engine/load-addon.js';
import { newAccountId } from '../shared/ids.js';
import { MOONCAKE_BLOCK_TOKENS, readMooncake } from '../bench/load/files/mooncake.js';
import { readBurstGpt } from '../bench/load/files/burst-gpt.js';
import { parseObjectives, showObjective } from '../bench/load/objectives.js';
import { measuringLoad } from '../bench/tune/load.js';
import type { TuneWorkload } from '../bench/tune/load.js';
import { BY_COMMAND, MIN_TRIALS, MAX_TRIAL_S, MAX_TRIALS } from '../bench/tune/plan.js';
import type { TunePlan } from '../bench/tune/plan.js';
import { tune } from '../bench/tune/tune.js';
import { loadText, settingsText } from '../bench/tune/verdict.js';
import { workloadOf, workloadText } from '../bench/tune/workload.js';
import type { TuneLoadKind, TuneRun, TuneTrial } from '../shared/wire/tuning.js';
import { findPeer } from './bench-peer.js';
import { noWords, UsageError } from '../config/arguments.js';
import type { OwnFlags } from '../config/arguments.js';
import { askedForHelp, table } from './output.js';
import { ApiEngine, OperatorApi, settingsOf } from './tune-engine.js';

const HELP = `
Usage: monolith bench tune --slo LIST [flags]

Finds the engine settings (batch tokens, sequences, step bound) and the load with which a running server completes the
most requests that meet every objective. The server is not restarted. A model-based search takes a few dozen
measurements, and the best ones are repeated. The previous settings are always restored, even after Ctrl-C or kill -9.

Server:    --url URL           base URL of the API (default: the server that uses the data directory); --api-key KEY
           --admin-url URL     operator API (default: admin.host and admin.port); --admin-token TOKEN
           --model NAME        default: the first model
Goal:      --slo LIST          ttft_p99=500ms,itl_p99=50ms,tpot_p50=20ms,e2e_p95=10s,errors=1%
Requests:  (default)           lengths of the server's most recent requests, without their text
           --prompt-tokens N   and --output-tokens N: fixed lengths
           --mooncake FILE     (JSONL) or --burstgpt FILE (CSV): a trace
           --load KIND         concurrency (default), rate (requests per second), or speed of a trace
           --max-load N        maximum load
Search:    --trials N          measurements (default 40), --trial-seconds S (default 10) each; --seed N
Results:   --apply             apply the best settings if a confirmation run shows that they are better
           --out FILE          write all results as JSON; --json prints them
`;

export const FLAGS: OwnFlags = {
  '--url': 'value',
  '--admin-url': 'value',
  '--model': 'value',
  '--slo': 'value',
  '--prompt-tokens': 'value',
  '--output-tokens': 'value',
  '--mooncake': 'value',
  '--burstgpt': 'value',
  '--load': 'value',
  '--max-load': 'value',
  '--trials': 'value',
  '--trial-seconds': 'value',
  '--seed': 'value',
  '--apply': 'switch',
  '--out': 'value',
  '--json': 'switch',
} as const;
type Values = ReadonlyMap<string, string>;

const SIGNALS = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const;
const MIN_SHAPES = 20;
const MAX_LOAD = 1_024;

export async function benchTune(argv: string[]): Promise<number> {
  if (askedForHelp(argv, HELP)) return 0;
  const { config, values, words } = commandConfig(argv, FLAGS);
  noWords(words);
  const slo = values.get('--slo');
  if (slo === undefined) throw new UsageError('bench tune: --slo is required, such as ttft_p99=500ms,itl_p99=50ms');
  const objectives = parseObjectives(slo);
  const api = operatorApi(values, config);
  const stop = new AbortController();
  const onSignal = (signal: NodeJS.Signals): void => {
    const code = 128 + constants.signals[signal];
    // On a second signal, exits immediately, because the server restores the settings on its own.
    if (stop.signal.aborted) process.exit(code);
    process.exitCode = code;
    stop.abort();
  };
  for (const signal of SIGNALS) process.on(signal, onSignal);
  const peer = await findPeer('bench tune', { url: values.get('--url'), headers: {} }, config);
  try {
    const asked =
      values.get('--model') ?? (await api.call<{ data: { model: string }[] }>('GET', '/tunables')).data[0]?.model;
    if (asked === undefined) throw new UsageError('bench tune: the server has no running engine');
    const engine = await api.engine(asked);
    const loadKind = loadKindOf(values);
    const workload = await workloadFor(values, loadKind, api, asked);
    const plan: TunePlan = {
      id: newAccountId('tun'),
      model: engine.model,
      by: BY_COMMAND,
      startedAt: new Date().toISOString(),
      objectives: objectives.map(showObjective),
      workload: workloadText(workload, values.has('--mooncake') || values.has('--burstgpt') ? 'trace' : 'recent'),
      loadKind,
      minLoad: loadKind === 'concurrency' ? 1 : 0.05,
      maxLoad: maxLoadOf(values, loadKind, settingsOf(engine, 'max').max_sequences),
      trials: whole(values, '--trials', 40, MIN_TRIALS, MAX_TRIALS),
      trialSeconds: amount(values, '--trial-seconds', 10, 0.2, MAX_TRIAL_S),
      seed: whole(values, '--seed', 1, 0, 1e9),
      apply: values.has('--apply'),
    };
    const measure = await measuringLoad({
      target: { url: peer.url, model: asked, headers: peer.headers },
      workload,
      objectives,
      loadKind,
      seconds: plan.trialSeconds,
    });
    const held = await ApiEngine.hold(api, engine, plan.id);
    process.stderr.write(
      `${engine.names.join(', ')}: ${plan.objectives.join(', ')}; ${plan.workload}; at most ${plan.trials} measurements of ${plan.trialSeconds} s\nnow      ${settingsText(held.before)}\n`,
    );
    let reporting = Promise.resolve();
    let reported = 0;
    const run = await tune(plan, {
      engine: held,
      measure,
      signal: stop.signal,
      onChange: (now) => {
        const snapshot = structuredClone(now);
        // The run is shown on the dashboard if the dashboard is enabled.
        reporting = reporting.then(() => api.report(snapshot)).catch(() => undefined);
        for (const trial of now.trials.slice(reported)) process.stderr.write(`${trialLine(trial, loadKind)}\n`);
        reported = now.trials.length;
      },
    });
    await reporting;
    const out = values.get('--out');
    if (out !== undefined) writeFileSync(out, `${JSON.stringify(run, null, 1)}\n`);
    process.stdout.write(values.has('--json') ? `${JSON.stringify(run)}\n` : summarize(run));
    if (!values.has('--url') && !stop.signal.aborted) process.stderr.write(arithmeticHint(config));
    return stop.signal.aborted ? Number(process.exitCode) : run.state === 'done' ? 0 : 1;
  } finally {
    await peer.close();
    for (const signal of SIGNALS) process.off(signal, onSignal);
  }
}

/**
 * Returns a hint about a setting that the search does not try, because it requires a restart and changes results. Only
 * for a server on this machine; '' if the hint does not apply.
 */
function arithmeticHint({ engine }: Config): string {
  if (engine.arithmetic !== 'production' || engine.device !== 'cpu' || !['auto', 'amx'].includes(engine.isa)) return '';
  try {
    if (!loadAddon().isas.includes('amx')) return '';
  } catch {
    return ''; // The command needs no engine of its own.
  }
  return "This CPU has AMX. Setting engine.arithmetic to fast would speed up long prompts, but a request's output would depend on the other requests in the batch.\n";
}

function operatorApi(values: Values, { admin }: Config): OperatorApi {
  if (admin.token === null)
    throw new UsageError(
      "bench tune: the operator API needs the server's token: set --admin-token or MONOLITH_ADMIN_TOKEN",
    );
  const given =
    values.get('--admin-url') ?? `http://${admin.host.includes(':') ? `[${admin.host}]` : admin.host}:${admin.port}`;
  if (!URL.canParse(given) || !/^https?:$/.test(new URL(given).protocol))
    throw new UsageError(`bench tune: --admin-url: "${given}" is not a URL such as http://127.0.0.1:8081`);
  const url = new URL(given);
  return new OperatorApi(
    `${url.origin}${url.pathname === '/' ? '/admin/api' : url.pathname.replace(/\/+$/, '')}`,
    admin.token,
  );
}

function loadKindOf(values: Values): TuneLoadKind {
  const kind = values.get('--load') ?? 'concurrency';
  if (kind !== 'concurrency' && kind !== 'rate' && kind !== 'speed')
    throw new UsageError(`bench tune: --load: "${kind}" is not one of concurrency, rate, speed`);
  if (kind === 'speed' && !values.has('--mooncake') && !values.has('--burstgpt'))
    throw new UsageError('bench tune: --load speed needs a trace: --mooncake or --burstgpt');
  return kind;
}

async function workloadFor(
  values: Values,
  loadKind: TuneLoadKind,
  api: OperatorApi,
  model: string,
): Promise<TuneWorkload> {
  const given = (['--prompt-tokens', '--mooncake', '--burstgpt'] as const).filter((flag) => values.has(flag));
  if (given.length > 1) throw new UsageError(`bench tune: ${given.join(' and ')} cannot be combined`);
  const mooncake = values.get('--mooncake');
  const burst = values.get('--burstgpt');
  if (mooncake !== undefined || burst !== undefined) {
    const rows = mooncake !== undefined ? await readMooncake(mooncake) : (await readBurstGpt(burst ?? '')).rows;
    return { kind: 'rows', rows, blockTokens: MOONCAKE_BLOCK_TOKENS };
  }
  if (values.has('--prompt-tokens') || values.has('--output-tokens')) {
    return {
      kind: 'fixed',
      promptTokens: whole(values, '--prompt-tokens', 256, 1, 1e6),
      outputTokens: whole(values, '--output-tokens', 128, 1, 1e6),
    };
  }
  const shapes = await api.shapes(model);
  if (shapes.length < MIN_SHAPES)
    throw new UsageError(
      `bench tune: the server's request log has ${shapes.length} completed requests for ${model}, but a workload needs ${MIN_SHAPES}; set --prompt-tokens and --output-tokens, or use a trace`,
    );
  if (loadKind === 'speed') throw new UsageError('bench tune: --load speed needs a trace');
  return workloadOf(shapes);
}

function maxLoadOf(values: Values, kind: TuneLoadKind, mostSequences: number): number {
  if (kind === 'concurrency') return whole(values, '--max-load', Math.min(MAX_LOAD, 2 * mostSequences), 1, 20_000);
  if (kind === 'rate' && !values.has('--max-load'))
    throw new UsageError('bench tune: --load rate needs --max-load, the maximum requests per second to try');
  return amount(values, '--max-load', 10, 0.05, 20_000);
}

function amount(values: Values, flag: string, fallback: number, least: number, most: number): number {
  const text = values.get(flag);
  if (text === undefined) return fallback;
  const value = Number(text);
  if (text.trim() === '' || !(value >= least && value <= most))
    throw new UsageError(`bench tune: ${flag}: "${text}" is not a number from ${least} to ${most}`);
  return value;
}

function whole(values: Values, flag: string, fallback: number, least: number, most: number): number {
  const value = amount(values, flag, fallback, least, most);
  if (!Number.isInteger(value))
    throw new UsageError(`bench tune: ${flag}: "${values.get(flag) ?? ''}" is not a whole number`);
  return value;
}

const shown = (value: number): string => (value >= 100 ? value.toFixed(0) : value.toPrecision(3));

function trialLine(
  { number, phase, settings, load, goodput, verdicts, met, stopped }: TuneTrial,
  kind: TuneLoadKind,
): string {
  const values = verdicts
    .map(
      ({ name, value }) =>
        `${name} ${value === null ? '-' : name === 'errors' ? `${(value * 100).toFixed(1)}%` : `${shown(value)} ms`}`,
    )
    .join(', ');
  return `${String(number).padStart(3)} ${phase.padEnd(7)} ${settingsText(settings)}, ${loadText(kind, load)}: ${shown(goodput)} good/s, ${values}${met ? '' : stopped ? ' (missed, ended early)' : ' (missed)'}`;
}

function summarize({ result, error, trials, load_kind: kind }: TuneRun): string {
  const front = trials
    .filter(({ front: isFront }) => isFront)
    .sort((a, b) => (a.ttft_ms?.[1] ?? 0) - (b.ttft_ms?.[1] ?? 0));
  const rows = [
    ['first token p99', 'good/s', 'tokens/s', 'load', 'settings', ''],
    ...front.map(({ ttft_ms: ttft, goodput, output_tokens_per_s: tokens, load, settings, met }) => [
      `${shown(ttft?.[1] ?? 0)} ms`,
      shown(goodput),
      shown(tokens),
      loadText(kind, load),
      settingsText(settings),
      met ? '' : 'missed an objective',
    ]),
  ];
  const head = front.length === 0 ? '' : `\nBest trade-offs between time to first token and goodput:\n${table(rows)}`;
  return `${head}\n${result?.says ?? error ?? ''}\n`;
}
