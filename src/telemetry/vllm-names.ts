// Exports existing metrics a second time under vLLM's names, for dashboards and gateways built for vLLM. Names, labels
// and units follow vLLM's V1 metrics; the histogram buckets are Monolith's. No side effects.
import type { MetricObjectWithValues, MetricValue } from 'prom-client';
import type { EngineGauges } from './types.js';

/**
 * A metric in prom-client's JSON form. Each value of a histogram names the series to which it belongs (bucket, sum or
 * count).
 */
type Metric = Pick<MetricObjectWithValues<MetricValue<string> & { metricName?: string }>, 'name' | 'values'>;
type Labels = Readonly<Record<string, string | number>>;

interface Translation {
  readonly to: string;
  readonly help: string;
  readonly type: 'histogram' | 'counter';
}

/** Tokens per page. Must match kPageTokens in native/backend/kv_cache.h. */
const PAGE_TOKENS = 16;

/** Monolith metric → vLLM metrics. Values are summed over endpoints, because vLLM has no endpoint label. */
const TRANSLATIONS: Readonly<Record<string, readonly Translation[]>> = {
  monolith_time_to_first_token_seconds: [
    { to: 'vllm:time_to_first_token_seconds', type: 'histogram', help: 'Time to first token, in seconds.' },
  ],
  // vLLM renamed this metric, and dashboards use either name.
  monolith_inter_token_seconds: [
    { to: 'vllm:inter_token_latency_seconds', type: 'histogram', help: 'Inter-token latency, in seconds.' },
    {
      to: 'vllm:time_per_output_token_seconds',
      type: 'histogram',
      help: 'Inter-token latency, in seconds, under its former vLLM name.',
    },
  ],
  monolith_time_per_output_token_seconds: [
    {
      to: 'vllm:request_time_per_output_token_seconds',
      type: 'histogram',
      help: 'Average time per token after the first, in seconds, per choice.',
    },
  ],
  monolith_end_to_end_seconds: [
    {
      to: 'vllm:e2e_request_latency_seconds',
      type: 'histogram',
      help: 'Time from the arrival of a request to its last token, in seconds.',
    },
  ],
  monolith_queue_seconds: [
    { to: 'vllm:request_queue_time_seconds', type: 'histogram', help: 'Queue time, in seconds.' },
  ],
  monolith_prefill_seconds: [
    { to: 'vllm:request_prefill_time_seconds', type: 'histogram', help: 'Prefill time, in seconds.' },
  ],
  monolith_decode_seconds: [
    {
      to: 'vllm:request_decode_time_seconds',
      type: 'histogram',
      help: 'Time from the first to the last token, in seconds.',
    },
  ],
  monolith_prompt_tokens: [{ to: 'vllm:request_prompt_tokens', type: 'histogram', help: 'Prompt tokens per request.' }],
  monolith_completion_tokens: [
    { to: 'vllm:request_generation_tokens', type: 'histogram', help: 'Generated tokens per choice.' },
    // In vLLM, this is the number of tokens in the longest choice, which is the same for requests with one choice.
    { to: 'vllm:request_max_num_generation_tokens', type: 'histogram', help: 'Generated tokens per choice.' },
  ],
  monolith_choices_finished_total: [
    { to: 'vllm:request_success_total', type: 'counter', help: 'Finished choices by finish reason.' },
  ],
};

/** vLLM's names for finish reasons. */
const REASONS: Readonly<Record<string, string>> = { end_of_turn: 'stop', stop_string: 'stop', tool_calls: 'stop' };

/** vLLM's `engine` label numbers the processes that share a model; here, each model has one engine. */
const labelsOf = ({ model, reason, le }: Labels): Labels => ({
  model_name: model ?? '',
  engine: '0',
  ...(reason === undefined ? {} : { finished_reason: REASONS[reason] ?? 'length' }),
  ...(le === undefined ? {} : { le }),
});

interface Series {
  readonly labels: Labels;
  value: number;
}

/** Lines in Prometheus text format. `metrics`: Monolith's own metrics; `engines`: the current engine gauges. */
export function vllmMetrics(metrics: readonly Metric[], engines: readonly EngineGauges[]): string {
  const lines: string[] = [];
  for (const metric of metrics) {
    for (const { to, help, type } of TRANSLATIONS[metric.name] ?? []) {
      lines.push(`# HELP ${to} ${help}`, `# TYPE ${to} ${type}`);
      const sums = new Map<string, Series & { name: string }>();
      for (const { labels, value, metricName } of metric.values) {
        const name = type === 'counter' ? to : to + (metricName ?? metric.name).slice(metric.name.length);
        const theirs = labelsOf(labels as Labels);
        const key = name + JSON.stringify(theirs);
        const known = sums.get(key);
        if (known === undefined) sums.set(key, { name, labels: theirs, value });
        else known.value += value;
      }
      for (const { name, labels, value } of sums.values()) lines.push(line(name, labels, value));
    }
  }
  for (const { name, help, type, of } of ENGINE) {
    if (engines.length === 0) break;
    lines.push(`# HELP ${name} ${help}`, `# TYPE ${name} ${type}`);
    for (const engine of engines) lines.push(line(name, labelsOf({ model: engine.model }), of(engine)));
  }
  if (engines.length > 0)
    lines.push(`# HELP vllm:cache_config_info ${CACHE_CONFIG_HELP}`, '# TYPE vllm:cache_config_info gauge');
  for (const { model, pagesTotal } of engines) {
    lines.push(
      line(
        'vllm:cache_config_info',
        { ...labelsOf({ model }), block_size: PAGE_TOKENS, num_gpu_blocks: pagesTotal, enable_prefix_caching: 'True' },
        1,
      ),
    );
  }
  lines.push(...adapterLines(engines));
  return lines.length === 0 ? '' : `${lines.join('\n')}\n`;
}

/**
 * vLLM's only metric about LoRA adapters. The names are in its labels and the time of the scrape is its value. There is
 * one series for all models, because it has no label for the model.
 */
const LORA_INFO = 'vllm:lora_requests_info';
const LORA_INFO_HELP =
  'Running and waiting LoRA adapters, in the labels; the value is the current time in seconds since the Unix epoch.';
/** Maximum number of adapters per engine. Must match kMaxAdapters in native/engine. */
const MAX_ADAPTERS = 64;

function adapterLines(engines: readonly EngineGauges[]): string[] {
  const adapters = engines.flatMap((engine) => engine.adapters ?? []);
  if (adapters.length === 0) return [];
  const names = (busy: 'running' | 'waiting'): string =>
    adapters.flatMap((one) => (one[busy] > 0 ? [one.name] : [])).join(',');
  const labels = {
    max_lora: MAX_ADAPTERS,
    waiting_lora_adapters: names('waiting'),
    running_lora_adapters: names('running'),
  };
  return [
    `# HELP ${LORA_INFO} ${LORA_INFO_HELP}`,
    `# TYPE ${LORA_INFO} gauge`,
    line(LORA_INFO, labels, Date.now() / 1000),
  ];
}

interface EngineMetric {
  readonly name: string;
  readonly help: string;
  readonly type: 'gauge' | 'counter';
  of(engine: EngineGauges): number;
}

const usage = ({ pagesTotal, pagesFree, pagesCached }: EngineGauges): number =>
  pagesTotal === 0 ? 0 : (pagesTotal - pagesFree - pagesCached) / pagesTotal;

const ENGINE: readonly EngineMetric[] = [
  { name: 'vllm:num_requests_running', type: 'gauge', help: 'Running sequences.', of: ({ running }) => running },
  { name: 'vllm:num_requests_waiting', type: 'gauge', help: 'Queued requests.', of: ({ waiting }) => waiting },
  // vLLM counts unreferenced pages as free, even if they contain cached prefixes.
  { name: 'vllm:kv_cache_usage_perc', type: 'gauge', help: 'Fraction of the KV cache in use, 0 to 1.', of: usage },
  {
    name: 'vllm:gpu_cache_usage_perc',
    type: 'gauge',
    help: 'Fraction of the KV cache in use, under its former vLLM name.',
    of: usage,
  },
  {
    name: 'vllm:prefix_cache_queries_total',
    type: 'counter',
    help: 'Prompt tokens looked up in the prefix cache.',
    of: ({ promptTokens }) => promptTokens,
  },
  {
    name: 'vllm:prefix_cache_hits_total',
    type: 'counter',
    help: 'Prompt tokens found in the prefix cache.',
    of: ({ promptTokensCached }) => promptTokensCached,
  },
  {
    name: 'vllm:num_preemptions_total',
    type: 'counter',
    help: 'Preempted sequences.',
    of: ({ preemptions }) => preemptions,
  },
  {
    name: 'vllm:prompt_tokens_total',
    type: 'counter',
    help: 'Prompt tokens, cached or computed.',
    of: ({ promptTokens }) => promptTokens,
  },
  {
    name: 'vllm:generation_tokens_total',
    type: 'counter',
    help: 'Generated tokens.',
    of: ({ decodeTokens }) => decodeTokens,
  },
];

const CACHE_CONFIG_HELP = 'Configuration of the KV cache, in the labels; the value is always 1.';

/**
 * Every metric with a vLLM name, sorted by name, for docs/reference/metrics.md. `source`: the Monolith metric, if there
 * is one.
 */
export function declaredVllmMetrics(): { name: string; type: string; help: string; source: string | null }[] {
  const translated = Object.entries(TRANSLATIONS).flatMap(([source, all]) =>
    all.map(({ to, type, help }) => ({ name: to, type: type as string, help, source: source as string | null })),
  );
  const engine = ENGINE.map(({ name, type, help }) => ({ name, type: type as string, help, source: null }));
  const config = { name: 'vllm:cache_config_info', type: 'gauge', help: CACHE_CONFIG_HELP, source: null };
  const lora = { name: LORA_INFO, type: 'gauge', help: LORA_INFO_HELP, source: null };
  return [...translated, ...engine, config, lora].sort((a, b) => (a.name < b.name ? -1 : 1));
}

function line(name: string, labels: Labels, value: number): string {
  const told = Object.entries(labels).map(
    ([key, text]) => `${key}="${String(text).replace(/[\\"\n]/g, (one) => (one === '\n' ? '\\n' : `\\${one}`))}"`,
  );
  return `${name}{${told.join(',')}} ${value}`;
}
