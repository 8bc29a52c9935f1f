// The names under which boards and gateways made for vLLM read what we count anyway: nothing is counted twice, a scrape says
// it once more. Names, labels and units are those of vLLM's V1 metrics; buckets are ours. Pure.
import type { MetricObjectWithValues, MetricValue } from 'prom-client';
import type { EngineGauges } from './types.js';

/** A metric as prom-client has it in JSON; of histograms each value says which of the three series it is of. */
type Metric = Pick<MetricObjectWithValues<MetricValue<string> & { metricName?: string }>, 'name' | 'values'>;
type Labels = Readonly<Record<string, string | number>>;

interface Translation {
  readonly to: string;
  readonly help: string;
  readonly type: 'histogram' | 'counter';
}

/** Positions of a page: kPageTokens of native/backend/kv_cache.h. */
const PAGE_TOKENS = 16;

/** Our metric → theirs. Endpoints are added up: theirs have none. */
const TRANSLATIONS: Readonly<Record<string, readonly Translation[]>> = {
  monolith_time_to_first_token_seconds: [
    { to: 'vllm:time_to_first_token_seconds', type: 'histogram', help: 'Time to first token in seconds.' },
  ],
  // Renamed by vLLM: boards of both ages are about.
  monolith_inter_token_seconds: [
    { to: 'vllm:inter_token_latency_seconds', type: 'histogram', help: 'Time between tokens in seconds.' },
    {
      to: 'vllm:time_per_output_token_seconds',
      type: 'histogram',
      help: 'Time between tokens in seconds, under its earlier name.',
    },
  ],
  monolith_time_per_output_token_seconds: [
    {
      to: 'vllm:request_time_per_output_token_seconds',
      type: 'histogram',
      help: 'Time for each token behind the first in seconds, on average of a choice.',
    },
  ],
  monolith_end_to_end_seconds: [
    {
      to: 'vllm:e2e_request_latency_seconds',
      type: 'histogram',
      help: 'Time from a request to its last token in seconds.',
    },
  ],
  monolith_queue_seconds: [
    { to: 'vllm:request_queue_time_seconds', type: 'histogram', help: 'Time that a request waited in seconds.' },
  ],
  monolith_prefill_seconds: [
    { to: 'vllm:request_prefill_time_seconds', type: 'histogram', help: 'Time that the prompt took in seconds.' },
  ],
  monolith_decode_seconds: [
    {
      to: 'vllm:request_decode_time_seconds',
      type: 'histogram',
      help: 'Time from the first token to the last in seconds.',
    },
  ],
  monolith_prompt_tokens: [{ to: 'vllm:request_prompt_tokens', type: 'histogram', help: 'Tokens of the prompt.' }],
  monolith_completion_tokens: [
    { to: 'vllm:request_generation_tokens', type: 'histogram', help: 'Tokens generated for a choice.' },
    // Theirs is of a request's longest choice: the same where it has one.
    { to: 'vllm:request_max_num_generation_tokens', type: 'histogram', help: 'Tokens generated for a choice.' },
  ],
  monolith_choices_finished_total: [
    { to: 'vllm:request_success_total', type: 'counter', help: 'Choices that have ended, by the reason.' },
  ],
};

/** Why choices end, in vLLM's words. */
const REASONS: Readonly<Record<string, string>> = { end_of_turn: 'stop', stop_string: 'stop', tool_calls: 'stop' };

/** vLLM counts processes that share a model; a model has one engine here. */
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

/** Lines in Prometheus' text form. `metrics`: what our own names have counted; `engines`: as they stand. */
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
    lines.push('# HELP vllm:cache_config_info What the KV cache is made of.', '# TYPE vllm:cache_config_info gauge');
  for (const { model, pagesTotal } of engines) {
    lines.push(
      line(
        'vllm:cache_config_info',
        { ...labelsOf({ model }), block_size: PAGE_TOKENS, num_gpu_blocks: pagesTotal, enable_prefix_caching: 'True' },
        1,
      ),
    );
  }
  return lines.length === 0 ? '' : `${lines.join('\n')}\n`;
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
  {
    name: 'vllm:num_requests_running',
    type: 'gauge',
    help: 'Sequences that are computed.',
    of: ({ running }) => running,
  },
  { name: 'vllm:num_requests_waiting', type: 'gauge', help: 'Requests that wait.', of: ({ waiting }) => waiting },
  // Pages that nobody refers to are free in vLLM's sense, whatever they hold.
  { name: 'vllm:kv_cache_usage_perc', type: 'gauge', help: 'Share of the KV cache in use; 1 is all of it.', of: usage },
  {
    name: 'vllm:gpu_cache_usage_perc',
    type: 'gauge',
    help: 'Share of the KV cache in use, under its earlier name.',
    of: usage,
  },
  {
    name: 'vllm:prefix_cache_queries_total',
    type: 'counter',
    help: 'Tokens of prompts that were looked up in the prefix cache.',
    of: ({ promptTokens }) => promptTokens,
  },
  {
    name: 'vllm:prefix_cache_hits_total',
    type: 'counter',
    help: 'Of these, those found.',
    of: ({ promptTokensCached }) => promptTokensCached,
  },
  {
    name: 'vllm:num_preemptions_total',
    type: 'counter',
    help: 'Sequences that gave their pages up and were computed again.',
    of: ({ preemptions }) => preemptions,
  },
  {
    name: 'vllm:prompt_tokens_total',
    type: 'counter',
    help: 'Tokens of prompts, found or computed.',
    of: ({ promptTokens }) => promptTokens,
  },
  {
    name: 'vllm:generation_tokens_total',
    type: 'counter',
    help: 'Tokens generated.',
    of: ({ decodeTokens }) => decodeTokens,
  },
];

function line(name: string, labels: Labels, value: number): string {
  const told = Object.entries(labels).map(
    ([key, text]) => `${key}="${String(text).replace(/[\\"\n]/g, (one) => (one === '\n' ? '\\n' : `\\${one}`))}"`,
  );
  return `${name}{${told.join(',')}} ${value}`;
}
