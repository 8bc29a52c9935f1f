// The operator's live view of the engines.

/** One engine at one point in time. Rates cover the interval since the previous sample. */
export interface EngineSample {
  /** The first of the engine's names. */
  model: string;
  names: string[];
  running: number;
  waiting: number;
  /** Mean tokens per step over the interval: decode tokens plus prefill chunks. */
  batch_rows: number;
  pages_total: number;
  pages_free: number;
  pages_cached: number;
  /**
   * Fraction of prompt tokens found in the prefix cache, from 0 to 1; null if there were no prompts in the
   * interval.
   */
  prefix_hit_rate: number | null;
  /** Mean milliseconds per step over the interval; null if there was no step. */
  step_ms: number | null;
  steps_per_s: number;
  prefill_tokens_per_s: number;
  decode_tokens_per_s: number;
  /** Milliseconds, over the last 60 seconds; null if there is no data. */
  ttft_ms: Percentiles | null;
  itl_ms: Percentiles | null;
  /**
   * Time per output token, averaged over stretches of about 16 tokens of a response. Unlike itl_ms, it is not close to
   * zero when an engine step emits several tokens.
   */
  tpot_ms: Percentiles | null;
  preemptions: number;
}
export interface Percentiles {
  p50: number;
  p95: number;
  p99: number;
  count: number;
}

/**
 * One per second. GET …/operator/live is an event stream: `history` (LiveSample[]) once, then `sample` (LiveSample).
 */
export interface LiveSample {
  at: string;
  engines: EngineSample[];
  /**
   * Requests since the previous sample, by outcome, including errors within a stream. `errors` counts internal errors
   * and responses that were cut off.
   */
  requests: number;
  rejected_429: number;
  rejected_503: number;
  errors: number;
  cancelled: number;
  in_flight: number;
  rss_bytes: number;
  loop_lag_ms: number;
  http_threads: number;
  viewers: number;
}

/** A change by an operator that affects the engines. */
export interface LiveMark {
  at: string;
  action: string;
  target: string | null;
  by: string | null;
}
/**
 * GET …/operator/live/history?from&to: samples that each cover `step_s` seconds, starting at `at`. Values are means,
 * except for memory, lag and preemptions, which are maximums.
 */
export interface LiveHistory {
  object: 'live_history';
  from: string;
  to: string;
  step_s: number;
  samples: LiveSample[];
  marks: LiveMark[];
}
/**
 * GET …/operator/live/keys?from&to&organization: the traffic of each organization or, if one is given, of each of its
 * keys, largest first; the last series may be `other`. Each value is the sum over `step_s` seconds, starting at the
 * corresponding entry of `times`.
 */
export interface LiveKeys {
  object: 'live_keys';
  step_s: number;
  times: string[];
  series: {
    id: string;
    name: string;
    requests: number[];
    refused: number[];
    input_tokens: number[];
    output_tokens: number[];
  }[];
}
