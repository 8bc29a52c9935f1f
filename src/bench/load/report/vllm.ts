// A run in the format of `vllm bench serve --save-result --save-detailed`, for scripts and dashboards that read it.
// Fields have the same meaning as in vLLM: lists are in seconds, `_ms` fields in milliseconds. Latencies are measured
// from when the request is sent; the wait before that is in `queue_times`. Failed requests contain zeros and an error
// message.

import { ascending, distributionOf, percentileOf } from '../distribution.js';
import type { FinishedRun } from './report.js';

const PERCENTILES = [50, 90, 95, 99] as const;

export function vllmResult({ run, result, summary }: FinishedRun): Readonly<Record<string, unknown>> {
  const records = result.records.filter(({ phase, error }) => phase === 'measured' && error?.kind !== 'cancelled');
  const fine = records.filter(({ error }) => error === null);
  const { arrival, target } = run;
  const ttft = (record: (typeof records)[number]): number =>
    record.firstToken === null ? 0 : record.firstToken - record.sent;
  const tpots = fine.flatMap(({ outputTokens, firstToken, end }) =>
    outputTokens !== null && outputTokens > 1 && firstToken !== null ? [(end - firstToken) / (outputTokens - 1)] : [],
  );
  const seconds = records.map(({ sent }) => sent / 1000);
  const rate = arrival.kind === 'closed' || arrival.kind === 'trace' ? 'inf' : summary.offeredPerSecond;
  return {
    date: new Date(result.startedAt)
      .toISOString()
      .replace(/[-:]|\.\d+Z/g, '')
      .replace('T', '-'),
    endpoint_type: target.dialect === 'chat' ? 'openai-chat' : 'openai',
    backend: target.dialect === 'chat' ? 'openai-chat' : 'openai',
    label: 'monolith',
    model_id: target.model,
    tokenizer_id: target.model,
    num_prompts: records.length,
    request_rate: rate,
    burstiness: arrival.kind === 'gamma' ? arrival.burstiness : 1,
    max_concurrency: arrival.kind === 'closed' ? arrival.concurrency : run.maxConcurrency,
    duration: summary.durationMs / 1000,
    completed: fine.length,
    failed: records.length - fine.length,
    total_input_tokens: summary.totals.promptTokens,
    total_output_tokens: summary.totals.outputTokens,
    request_throughput: summary.requestsPerSecond,
    request_goodput: summary.goodput?.requestsPerSecond ?? null,
    output_throughput: summary.outputTokensPerSecond,
    total_token_throughput: summary.totalTokensPerSecond,
    ...statistics('ttft', fine.map(ttft)),
    ...statistics('tpot', tpots),
    ...statistics(
      'itl',
      fine.flatMap(({ gaps }) => [...gaps]),
    ),
    ...statistics(
      'e2el',
      fine.map(({ end, sent }) => end - sent),
    ),
    max_output_tokens_per_s: mostInASecond(fine),
    max_concurrent_requests: summary.concurrency.peak,
    input_lens: records.map(({ promptTokens }) => promptTokens ?? 0),
    output_lens: records.map(({ outputTokens, error }) => (error === null ? (outputTokens ?? 0) : 0)),
    ttfts: records.map((record) => ttft(record) / 1000),
    itls: records.map(({ gaps }) => Array.from(gaps, (gap) => gap / 1000)),
    latencies: records.map(({ end, sent }) => (end - sent) / 1000),
    start_times: seconds,
    queue_times: records.map(({ sent, intended }) => (sent - intended) / 1000),
    // Response texts are not stored.
    generated_texts: records.map(() => ''),
    errors: records.map(({ error }) => (error === null ? '' : `${error.kind}: ${error.message}`)),
  };
}

function statistics(name: string, values: readonly number[]): Record<string, number> {
  const sorted = ascending(values);
  const all = distributionOf(sorted);
  return {
    [`mean_${name}_ms`]: all?.mean ?? 0,
    [`median_${name}_ms`]: all?.p50 ?? 0,
    [`std_${name}_ms`]: all?.deviation ?? 0,
    ...Object.fromEntries(
      PERCENTILES.map((percentile) => [
        `p${percentile}_${name}_ms`,
        sorted.length === 0 ? 0 : percentileOf(sorted, percentile),
      ]),
    ),
  };
}

/** The maximum number of output events within any one second. */
function mostInASecond(records: FinishedRun['result']['records']): number {
  const seconds = new Map<number, number>();
  const first = records.reduce((least, { sent }) => Math.min(least, sent), Infinity);
  for (const { firstToken, gaps } of records) {
    if (firstToken === null) continue;
    let at = firstToken;
    for (let n = 0; n <= gaps.length; n++) {
      const second = Math.floor((at - first) / 1000);
      seconds.set(second, (seconds.get(second) ?? 0) + 1);
      at += gaps[n] ?? 0;
    }
  }
  return Math.max(0, ...seconds.values());
}
