// Declares every number and chart of the live view. No side effects.

import type { EngineSample, LiveSample, Percentiles } from '../../../../shared/wire/live.js';
import type { TunableName } from '../../../../shared/wire/tunables.js';
import { ofEngine } from './samples.js';

/** Formats a number briefly, with a unit where needed. Null means that nothing happened and is shown as a dash. */
export const showCount = (value: number | null): string =>
  value === null
    ? '–'
    : value >= 1000
      ? Math.round(value).toLocaleString('en-US')
      : String(Math.round(value * 10) / 10);
export const showMs = (value: number | null): string =>
  value === null
    ? '–'
    : value === 0
      ? '0 ms'
      : value >= 1_000
        ? `${(value / 1000).toFixed(1)} s`
        : value >= 100
          ? `${Math.round(value)} ms`
          : value >= 10
            ? `${value.toFixed(1)} ms`
            : `${value.toFixed(2)} ms`;
export const showShare = (value: number | null): string =>
  value === null
    ? '–'
    : value > 0 && value < 0.001
      ? '<0.1%'
      : `${(value * 100).toFixed(value > 0 && value < 0.1 ? 1 : 0)}%`;
export function showBytes(value: number | null): string {
  if (value === null) return '–';
  return value >= 1_000 * 2 ** 20 ? `${(value / 2 ** 30).toFixed(2)} GiB` : `${Math.round(value / 2 ** 20)} MiB`;
}
export const showRate = (value: number | null): string => (value === null ? '–' : `${showCount(value)}/s`);

export const usedPages = ({ pages_total: total, pages_free: free, pages_cached: cached }: EngineSample): number =>
  total - free - cached;
const percentile =
  (of: (engine: EngineSample) => Percentiles | null, which: 'p50' | 'p95' | 'p99') =>
  (engine: EngineSample): number | null =>
    of(engine)?.[which] ?? null;
const percentiles = (of: (engine: EngineSample) => Percentiles | null): EngineSeries[] =>
  (['p50', 'p95', 'p99'] as const).map((which) => ({ label: which, of: percentile(of, which) }));

export interface EngineSeries {
  label: string;
  of: (engine: EngineSample) => number | null;
  color?: number;
}
export interface ServerSeries {
  label: string;
  of: (sample: LiveSample) => number | null;
  color?: number;
}
export interface View<S> {
  title: string;
  help: string;
  show: (value: number | null) => string;
  series: S[];
  kind?: 'line' | 'area';
  max?: number;
  limit?: TunableName;
  /** Omits the line of current values if the view has too many series. */
  noNow?: true;
}

export const ENGINE_VIEWS: readonly View<EngineSeries>[] = [
  {
    title: 'Sequences',
    help: 'Running: being generated. Waiting: admitted, not started.',
    show: showCount,
    limit: 'max_sequences',
    series: [
      { label: 'running', of: ({ running }) => running },
      { label: 'waiting', of: ({ waiting }) => waiting },
    ],
  },
  {
    title: 'Tokens per second',
    help: 'Prefill (prompt tokens) and decode (generated tokens).',
    show: showCount,
    series: [
      { label: 'prefill', of: (engine) => engine.prefill_tokens_per_s, color: 2 },
      { label: 'decode', of: (engine) => engine.decode_tokens_per_s, color: 0 },
    ],
  },
  {
    title: 'KV pages',
    help: 'Used by sequences, cached for prefix reuse, or free.',
    show: showCount,
    kind: 'area',
    series: [
      { label: 'free', of: (engine) => engine.pages_free, color: 7 },
      { label: 'cached', of: (engine) => engine.pages_cached, color: 0 },
      { label: 'used', of: usedPages, color: 1 },
    ],
  },
  {
    title: 'Batch tokens per step',
    help: 'One token per decoding sequence, plus the prompt tokens computed in the step.',
    show: showCount,
    limit: 'max_batch_tokens',
    series: [{ label: 'tokens', of: (engine) => engine.batch_rows }],
  },
  {
    title: 'Step time',
    help: 'Duration of one engine step: the forward pass and everything around it.',
    show: showMs,
    limit: 'step_ms',
    series: [{ label: 'mean', of: (engine) => engine.step_ms, color: 2 }],
  },
  {
    title: 'Prefix-cache hit rate',
    help: 'Fraction of prompt tokens that were reused instead of computed.',
    show: showShare,
    max: 1,
    series: [{ label: 'hits', of: (engine) => engine.prefix_hit_rate }],
  },
  {
    title: 'Time to first token',
    help: 'For requests that started within the last minute.',
    show: showMs,
    series: percentiles((engine) => engine.ttft_ms),
  },
  {
    title: 'Time per output token',
    help: 'Mean over about 16 tokens of a response, within the last minute.',
    show: showMs,
    series: percentiles((engine) => engine.tpot_ms ?? null),
  },
];

/** One chart per measure with a line per engine, to compare the engines. */
const COMPARED: readonly (Omit<View<never>, 'series' | 'limit'> & { of: EngineSeries['of'] })[] = [
  {
    title: 'Output tokens per second',
    help: 'Generated tokens of each engine, stacked to the total.',
    show: showCount,
    kind: 'area',
    of: (engine) => engine.decode_tokens_per_s,
  },
  {
    title: 'Running sequences',
    help: 'Sequences being generated, stacked to the total.',
    show: showCount,
    kind: 'area',
    of: ({ running }) => running,
  },
  {
    title: 'Time to first token, p95',
    help: 'For requests that started within the last minute.',
    show: showMs,
    of: ({ ttft_ms: ttft }) => ttft?.p95 ?? null,
  },
  {
    title: 'Time per output token, p95',
    help: 'Mean over about 16 tokens of a response, within the last minute.',
    show: showMs,
    of: ({ tpot_ms: tpot }) => tpot?.p95 ?? null,
  },
  {
    title: 'Waiting sequences',
    help: 'Admitted, not started.',
    show: showCount,
    kind: 'area',
    of: ({ waiting }) => waiting,
  },
  {
    title: 'KV pages used',
    help: 'Share of each engine’s pages that hold running sequences.',
    show: showShare,
    max: 1,
    of: (engine) => usedShare(engine),
  },
];

export function comparedViews(engines: readonly EngineSample[]): View<ServerSeries>[] {
  return COMPARED.map(({ of, ...view }) => ({
    ...view,
    series: engines.map(({ model, names }) => ({ label: names[0] ?? model, of: ofEngine(model, of) })),
  }));
}

/** Null without pages. */
export const usedShare = (engine: EngineSample): number | null =>
  engine.pages_total === 0 ? null : usedPages(engine) / engine.pages_total;

/** The values that can be summed over several engines. Latencies are excluded, because their sum has no meaning. */
export interface EngineTotal {
  engines: number;
  running: number;
  waiting: number;
  decode: number;
  prefill: number;
  pages: number;
  used: number;
  preemptions: number;
}

export function totalOf(engines: readonly EngineSample[]): EngineTotal {
  const sum = (of: (engine: EngineSample) => number): number =>
    engines.reduce((total, engine) => total + of(engine), 0);
  return {
    engines: engines.length,
    running: sum(({ running }) => running),
    waiting: sum(({ waiting }) => waiting),
    decode: sum((engine) => engine.decode_tokens_per_s),
    prefill: sum((engine) => engine.prefill_tokens_per_s),
    pages: sum((engine) => engine.pages_total),
    used: sum(usedPages),
    preemptions: sum(({ preemptions }) => preemptions),
  };
}

export const SERVER_VIEWS: readonly View<ServerSeries>[] = [
  {
    title: 'Requests per second',
    help: 'By outcome, including failures after a stream has started: 429 (over a limit), 503 (no capacity), errors (failed or interrupted).',
    show: showCount,
    noNow: true,
    series: [
      { label: 'all', of: ({ requests }) => requests },
      { label: '429', of: (sample) => sample.rejected_429, color: 1 },
      { label: '503', of: (sample) => sample.rejected_503, color: 5 },
      { label: 'errors', of: ({ errors }) => errors, color: 3 },
      { label: 'cancelled', of: ({ cancelled }) => cancelled, color: 7 },
    ],
  },
  {
    title: 'Requests in flight',
    help: 'Requests that are being processed now.',
    show: showCount,
    series: [{ label: 'in flight', of: (sample) => sample.in_flight }],
  },
  {
    title: 'Memory',
    help: 'Resident set size of the process, including weights and KV pages.',
    show: (mib) => showBytes(mib === null ? null : mib * 2 ** 20),
    series: [{ label: 'resident', of: (sample) => sample.rss_bytes / 2 ** 20, color: 6 }],
  },
  {
    title: 'Event-loop lag',
    help: 'Delay before the HTTP threads handle their next event.',
    show: showMs,
    series: [{ label: 'lag', of: (sample) => sample.loop_lag_ms, color: 4 }],
  },
];

/** "3 running, 1 waiting": a chart's current values as text. */
export function inWords<T>(view: View<{ label: string; of: (of: T) => number | null }>, of: T): string {
  return view.series
    .map((one) => (view.series.length === 1 ? view.show(one.of(of)) : `${view.show(one.of(of))} ${one.label}`))
    .join(', ');
}
