// Types that describe a load test and the measurements of each request. They are plain data that is passed between
// threads and written to files. Times are in milliseconds; times in records count from the start of the run.

/** The API format of a server. */
export type Dialect = 'chat' | 'completions' | 'responses';
export const DIALECTS = ['chat', 'completions', 'responses'] as const satisfies readonly Dialect[];

/** The server to test, and the properties that all requests share. */
export interface Target {
  /** The API's URL, including /v1 if the server uses it. The dialect's path is appended. */
  readonly url: string;
  readonly dialect: Dialect;
  readonly model: string;
  /** Headers that are sent in addition to content-type and accept. An API key goes into the `authorization` header. */
  readonly headers: Readonly<Record<string, string>>;
  /** Fields added to every body, such as sampling settings. They override the dialect's fields. */
  readonly body: Readonly<Record<string, unknown>>;
  /**
   * Whether to send `ignore_eos`, which vLLM, llama-server and Monolith support, so that responses reach their full
   * length.
   */
  readonly ignoreEos: boolean;
  /**
   * Name of the field that limits the output in the chat dialect. Servers accept one of two names; prepare.ts
   * determines which.
   */
  readonly capField: 'max_tokens' | 'max_completion_tokens';
  /** A request that takes longer than this counts as failed (`timeout`). */
  readonly timeoutMs: number;
}

/** One user message of a session. `text` contains only the new message; the dialect adds the history. */
export interface Turn {
  readonly text: string;
  readonly maxTokens: number;
  /** The output's JSON schema, or null. */
  readonly schema: Readonly<Record<string, unknown>> | null;
  /** Delay between the end of the previous response and the start of this request. */
  readonly thinkMs: number;
  /** Length of this turn's text as specified by the workload, or null. */
  readonly promptTokens: number | null;
}

/** A conversation of one or more consecutive turns. */
export interface Session {
  /** Milliseconds from the start of the run, taken from a trace; null if the workload has no times. */
  readonly at: number | null;
  readonly system: string | null;
  readonly turns: readonly Turn[];
}

/**
 * Token counts: fixed, uniform between two bounds, or log-normal with a mean and standard deviation, clamped to bounds.
 */
export type Lengths =
  | { readonly kind: 'fixed'; readonly tokens: number }
  | { readonly kind: 'uniform'; readonly least: number; readonly most: number }
  | {
      readonly kind: 'lognormal';
      readonly mean: number;
      readonly deviation: number;
      readonly least: number;
      readonly most: number;
    };

/** A request in a trace: its time and lengths. */
export interface TraceRow {
  readonly at: number;
  readonly promptTokens: number;
  readonly outputTokens: number;
  /**
   * The numbers that identify the prompt's blocks, in order. Blocks with the same number get the same text, which
   * reproduces shared prefixes.
   */
  readonly blocks?: readonly number[];
}

/** Token counts of words in the model's vocabulary, used to generate texts of the intended lengths (prepare.ts). */
export interface TextMeasure {
  /** Number of tokens in each word with a preceding space, in the order of WORDS (text-maker.ts). */
  readonly tokens: readonly number[];
  /** Number of tokens that the chat template adds to a text. */
  readonly overhead: number;
  /** Whether token counts are exact sums rather than approximations. */
  readonly exact: boolean;
}

/** The requests to send. The same specification and seed yield the same requests, in any order and on any thread. */
export type WorkloadSpec = { readonly seed: number; readonly schema: Readonly<Record<string, unknown>> | null } & (
  | {
      readonly kind: 'synthetic';
      readonly prompt: Lengths;
      readonly output: Lengths;
      /** Each session starts with one of `count` prefixes, each `tokens` tokens long. */
      readonly prefixes: { readonly count: number; readonly tokens: number } | null;
      readonly turns: Lengths;
      readonly thinkMs: number;
    }
  | { readonly kind: 'conversations'; readonly sessions: readonly Session[] }
  | { readonly kind: 'trace'; readonly rows: readonly TraceRow[]; readonly blockTokens: number }
);

/** When sessions start. Rates are in sessions per second; later turns follow the previous response. */
export type Arrival =
  | { readonly kind: 'closed'; readonly concurrency: number }
  | { readonly kind: 'poisson'; readonly rate: number }
  /** Gamma-distributed interarrival times. Burstiness below 1 is burstier than Poisson, above 1 smoother. */
  | { readonly kind: 'gamma'; readonly rate: number; readonly burstiness: number }
  | { readonly kind: 'constant'; readonly rate: number }
  | { readonly kind: 'bursts'; readonly size: number; readonly everyMs: number }
  /** Sessions start at the times in the trace, sped up by this factor. */
  | { readonly kind: 'trace'; readonly speed: number };

/** Length of a run. The run ends at whichever limit is reached first. */
export interface RunLength {
  readonly requests: number | null;
  readonly durationMs: number | null;
}

/** One run of a load test. */
export interface LoadRun {
  readonly target: Target;
  readonly workload: WorkloadSpec;
  readonly measure: TextMeasure;
  readonly arrival: Arrival;
  /** Length of the measured part, after the warm-up. */
  readonly length: RunLength;
  /** Length of the warm-up: the same load, recorded but not measured. The server does not drain in between. */
  readonly warmup: RunLength;
  /**
   * How long running responses may take to finish after the end of the run. Responses that take longer are cancelled.
   */
  readonly graceMs: number;
  /**
   * Maximum number of concurrent requests in an open loop. Further requests wait, and this wait counts as latency. Null
   * means no limit.
   */
  readonly maxConcurrency: number | null;
  /** Whether later turns send the history or the ID of the previous stored response (only with `responses`). */
  readonly conversation: 'history' | 'stored';
  /** Seed of the arrival process. */
  readonly seed: number;
  /** Number of threads that send requests; 1 uses the calling thread. */
  readonly threads: number;
}

/**
 * Why a request failed: no connection; a status of 400 or above; an error within the stream; a response that was cut
 * off or does not match the dialect; a timeout. `cancelled` is caused by the client and counts as neither failed nor
 * completed.
 */
export type ErrorKind =
  | 'connection'
  | `http_${number}`
  | 'stream_error'
  | 'truncated'
  | 'malformed'
  | 'timeout'
  | 'cancelled';

/** One request as seen by its client. */
export interface RequestRecord {
  readonly session: number;
  readonly turn: number;
  readonly phase: 'warmup' | 'measured';
  /** When the request was due. Latencies count from this time, which avoids coordinated omission. */
  readonly intended: number;
  readonly sent: number;
  /** Arrival times of the status line and of the first event with output; null if it did not arrive. */
  readonly headers: number | null;
  readonly firstToken: number | null;
  readonly end: number;
  /** Times between consecutive events with output; one fewer than the number of such events. */
  readonly gaps: Float32Array;
  readonly status: number | null;
  readonly error: { readonly kind: ErrorKind; readonly message: string } | null;
  readonly finish: string | null;
  readonly wanted: { readonly promptTokens: number | null; readonly outputTokens: number };
  /** As reported by the server; null if not reported. */
  readonly promptTokens: number | null;
  readonly cachedTokens: number | null;
  readonly outputTokens: number | null;
}

/** Measurements of the client itself, which show whether it was the bottleneck. */
export interface ClientFigures {
  /** Utilization of the busiest thread, from 0 to 1; 1 means that it was never idle. */
  readonly utilization: number;
  readonly cpuSeconds: number;
  /** 99th percentile of the delay between due time and sending, in ms, for requests that did not wait for a slot. */
  readonly lagP99: number;
}

export interface LoadResult {
  /** Records, in the order in which the requests ended. */
  readonly records: readonly RequestRecord[];
  /** The start of the run, in milliseconds since the Unix epoch. */
  readonly startedAt: number;
  readonly endedMs: number;
  readonly client: ClientFigures;
  /** Whether the caller's signal ended the run before its normal end. */
  readonly stopped: boolean;
}

export interface LoadProgress {
  readonly elapsedMs: number;
  readonly phase: 'warmup' | 'measured' | 'ending';
  /** Counts of requests over both phases, warm-up and measurement. */
  readonly sent: number;
  readonly answered: number;
  readonly failed: number;
  readonly running: number;
  readonly outputTokens: number;
  /** Fraction of the run that is completed, from 0 to 1. */
  readonly done: number;
}

export interface LoadHooks {
  readonly signal?: AbortSignal;
  readonly onProgress?: (progress: LoadProgress) => void;
  /** Called for each finished request if the run uses a single thread, so that the caller can stop the run early. */
  readonly onRecord?: (record: RequestRecord) => void;
}

/** Implemented in src/bench/load/driver.ts. Rejects with LoadError only if no request could succeed. */
export type RunLoad = (run: LoadRun, hooks?: LoadHooks) => Promise<LoadResult>;

/** Statistics for one quantity, in its unit. */
export interface Distribution {
  readonly count: number;
  readonly mean: number;
  readonly deviation: number;
  readonly min: number;
  readonly p50: number;
  readonly p75: number;
  readonly p90: number;
  readonly p95: number;
  readonly p99: number;
  readonly max: number;
}

export const LATENCIES = ['ttft', 'itl', 'tpot', 'e2e'] as const;
/** Time to first token; inter-token latency; time per output token; end-to-end latency. */
export type Latency = (typeof LATENCIES)[number];

/** A service level objective (objectives.ts). */
export type Objective =
  /** `percentile`: 0 to 100; `limit`: milliseconds. */
  | { readonly metric: Latency; readonly percentile: number; readonly limit: number }
  /** `limit`: a fraction from 0 to 1. */
  | { readonly metric: 'errors'; readonly percentile: null; readonly limit: number };

/**
 * The result for an objective. `value`: the measured value; Infinity if more requests failed than the objective allows;
 * null if nothing was measured.
 */
export interface Verdict {
  readonly objective: Objective;
  readonly value: number | null;
  readonly met: boolean;
}

/**
 * The measured phase of a run. Latencies are in milliseconds and cover completed requests. Rates are per second of
 * `durationMs`.
 */
export interface Summary {
  /** Time from the intended start of the first measured request to the end of the last one. */
  readonly durationMs: number;
  readonly requests: {
    readonly asked: number;
    readonly answered: number;
    readonly failed: number;
    readonly cancelled: number;
  };
  readonly ttft: Distribution | null;
  /** Inter-token latencies across all responses. */
  readonly itl: Distribution | null;
  /** (e2e - ttft) / (output tokens - 1), for responses with at least two tokens. */
  readonly tpot: Distribution | null;
  readonly e2e: Distribution | null;
  /** From intended start to sending. */
  readonly queued: Distribution | null;
  readonly promptTokens: Distribution | null;
  readonly outputTokens: Distribution | null;
  readonly totals: { readonly promptTokens: number; readonly cachedTokens: number; readonly outputTokens: number };
  /** The rate at which sessions were due; null in closed loops. */
  readonly offeredPerSecond: number | null;
  readonly requestsPerSecond: number;
  readonly outputTokensPerSecond: number;
  readonly totalTokensPerSecond: number;
  /**
   * Requests per second that met every objective, and the fraction of all requests that did; null without objectives.
   */
  readonly goodput: { readonly requestsPerSecond: number; readonly share: number } | null;
  readonly verdicts: readonly Verdict[];
  readonly errors: Readonly<Partial<Record<ErrorKind, { readonly count: number; readonly example: string }>>>;
  readonly concurrency: { readonly mean: number; readonly peak: number };
  readonly client: ClientFigures;
  /** Reasons to doubt the results, as text; empty if there are none. */
  readonly doubts: readonly string[];
}

/**
 * A metric over several runs: its mean, and its 95% confidence interval (Student's t), which is null for a single run.
 */
export interface Repeated {
  readonly mean: number;
  readonly low: number | null;
  readonly high: number | null;
  readonly runs: readonly number[];
}
