// One measurement in a tuning run: a load test of the server with the current settings.

import { runLoad } from '../load/driver.js';
import { isGood, nameOf } from '../load/objectives.js';
import { prepare } from '../load/prepare.js';
import { summarize } from '../load/summary.js';
import type {
  Arrival,
  Distribution,
  LoadResult,
  LoadRun,
  Objective,
  Target,
  TextMeasure,
  TraceRow,
  WorkloadSpec,
} from '../load/types.js';
import type { TuneLoadKind } from '../../shared/wire/tuning.js';
import { EarlyStop } from './early-stop.js';
import type { Measure, Measurement } from './ports.js';

export interface TuneTarget {
  readonly url: string;
  readonly model: string;
  readonly headers: Readonly<Record<string, string>>;
}

/**
 * `rows`: the lengths and prefix blocks of a trace's requests or of recent requests. Blocks with the same number
 * produce the same text.
 */
export type TuneWorkload =
  | { readonly kind: 'fixed'; readonly promptTokens: number; readonly outputTokens: number }
  | { readonly kind: 'rows'; readonly rows: readonly TraceRow[]; readonly blockTokens: number };

/** Short traces are repeated up to this many rows, because a closed loop may continue past a trace's end. */
const MAX_ROWS = 4_000;
/**
 * Lengths of the warm-up and the grace period, as fractions of the measured time. Because of the warm-up, measuring
 * starts under load; during the grace period, responses can finish.
 */
const WARMUP = 0.25;
const GRACE = 1;
/** If more than this fraction of requests has not finished by the end of the grace period, the load was too high. */
const MAX_UNENDED = 0.02;

export interface LoadSetting {
  readonly target: TuneTarget;
  readonly workload: TuneWorkload;
  readonly objectives: readonly Objective[];
  readonly loadKind: TuneLoadKind;
  readonly seconds: number;
}

/** Measures the token counts of words on the server. Rejects with LoadError if the server does not respond. */
export async function measuringLoad(setting: LoadSetting): Promise<Measure> {
  const prepared = await prepare(targetOf(setting), specOf(setting.workload, setting.loadKind, 0));
  return async ({ load, seed, mayStopEarly, signal }) => {
    const run = runOf(setting, prepared, load, seed);
    const early = new EarlyStop(setting.objectives);
    const ending = new AbortController();
    const result = await runLoad(run, {
      signal: AbortSignal.any([signal, ending.signal]),
      onRecord: (record) => {
        early.add(record);
        if (mayStopEarly && early.isHopeless) ending.abort();
      },
    });
    signal.throwIfAborted();
    const measured = measurementOf(result, run, setting.objectives, setting.seconds, ending.signal.aborted);
    if (measured.throughput === 0 && measured.errors['connection'] !== undefined)
      throw new Error(
        `The server does not respond: ${result.records.find(({ error }) => error?.kind === 'connection')?.error?.message ?? ''}`,
      );
    return measured;
  };
}

const targetOf = ({ target: { url, model, headers }, seconds }: LoadSetting): Target => ({
  url,
  model,
  headers,
  dialect: 'chat',
  body: { temperature: 0, reasoning_effort: 'none' },
  ignoreEos: true,
  capField: 'max_completion_tokens',
  timeoutMs: Math.max(60_000, seconds * 4_000),
});

function runOf(
  { workload, loadKind, seconds }: LoadSetting,
  { target, measure }: { target: Target; measure: TextMeasure },
  load: number,
  seed: number,
): LoadRun {
  return {
    target,
    measure,
    workload: specOf(workload, loadKind, seed),
    arrival: arrivalOf(loadKind, load),
    length: { requests: null, durationMs: seconds * 1000 },
    warmup: { requests: null, durationMs: seconds * 1000 * WARMUP },
    graceMs: seconds * 1000 * GRACE,
    maxConcurrency: null,
    conversation: 'history',
    seed,
    threads: 1,
  };
}

function arrivalOf(kind: TuneLoadKind, load: number): Arrival {
  if (kind === 'concurrency') return { kind: 'closed', concurrency: load };
  return kind === 'rate' ? { kind: 'poisson', rate: load } : { kind: 'trace', speed: load };
}

/** Each seed yields different texts, so that prefix caches do not help. */
function specOf(workload: TuneWorkload, loadKind: TuneLoadKind, seed: number): WorkloadSpec {
  if (workload.kind === 'fixed') {
    const { promptTokens, outputTokens } = workload;
    return {
      kind: 'synthetic',
      seed,
      schema: null,
      prompt: { kind: 'fixed', tokens: promptTokens },
      output: { kind: 'fixed', tokens: outputTokens },
      prefixes: null,
      turns: { kind: 'fixed', tokens: 1 },
      thinkMs: 0,
    };
  }
  const { rows, blockTokens } = workload;
  if (loadKind === 'speed') return { kind: 'trace', seed, schema: null, rows, blockTokens };
  const first = seed % rows.length;
  const again = Array.from({ length: Math.max(rows.length, MAX_ROWS) }, (_, at) => ({
    ...(rows[(first + at) % rows.length] as TraceRow),
    at,
  }));
  return { kind: 'trace', seed, schema: null, rows: again, blockTokens };
}

function measurementOf(
  result: LoadResult,
  run: LoadRun,
  objectives: readonly Objective[],
  seconds: number,
  isStopped: boolean,
): Measurement {
  const summary = summarize(result, run, objectives);
  const { requests, ttft, itl, verdicts, errors } = summary;
  // Only requests that end within the measured time are counted. After it, no new requests are sent, so the rate of
  // completed requests would reflect the decreasing load, not the server's capacity.
  const from = Math.min(...result.records.filter(({ phase }) => phase === 'measured').map(({ intended }) => intended));
  const until = from + seconds * 1000;
  const spanS = Math.max(0.001, (Math.min(until, result.endedMs) - from) / 1000);
  const ended = result.records.filter(({ error, end }) => error === null && end >= from && end < until);
  const unended = requests.asked === 0 || requests.cancelled / requests.asked > MAX_UNENDED;
  const perSecond = (count: number): number => (Number.isFinite(spanS) ? count / spanS : 0);
  return {
    seconds: result.endedMs / 1000,
    throughput: perSecond(ended.length),
    goodput: perSecond(ended.filter((record) => isGood(record, objectives)).length),
    outputTokensPerSecond: perSecond(ended.reduce((sum, { outputTokens }) => sum + (outputTokens ?? 0), 0)),
    ttftMs: shown(ttft),
    itlMs: shown(itl),
    verdicts: verdicts.map(({ objective, value, met }) => ({
      name: nameOf(objective),
      limit: objective.limit,
      value: value === null || !Number.isFinite(value) ? null : value,
      met,
    })),
    stopped: isStopped || unended,
    errors: Object.fromEntries(
      Object.entries(errors)
        .filter(([kind]) => kind !== 'cancelled')
        .map(([kind, error]) => [kind, error?.count ?? 0]),
    ),
  };
}

const shown = (distribution: Distribution | null): [number, number] | null =>
  distribution === null ? null : [distribution.p50, distribution.p99];
