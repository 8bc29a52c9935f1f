// What a load is made of, and what is known of each of its requests. Plain data throughout: it crosses threads and is
// written to files. Times are milliseconds; those of records count from the run's start.

/** Which of the three ways of asking a server speaks. */
export type Dialect = 'chat' | 'completions' | 'responses';
export const DIALECTS = ['chat', 'completions', 'responses'] as const satisfies readonly Dialect[];

/** Whom to ask, and what every request carries. */
export interface Target {
  /** The address of the API, with its /v1 where it has one; the dialect's path is added. */
  readonly url: string;
  readonly dialect: Dialect;
  readonly model: string;
  /** Besides content-type and accept; a key is `authorization` here. */
  readonly headers: Readonly<Record<string, string>>;
  /** Fields added to every body: sampling, say. They win over what the dialect writes. */
  readonly body: Readonly<Record<string, unknown>>;
  /** Answers run to their full length: `ignore_eos` is asked for, which vLLM, llama-server and Monolith know. */
  readonly ignoreEos: boolean;
  /** What the chat dialect calls the cap: servers know the one or the other (prepare.ts finds out). */
  readonly capField: 'max_tokens' | 'max_completion_tokens';
  /** A request that has not ended by then counts as failed (`timeout`). */
  readonly timeoutMs: number;
}

/** One question of a session. `text` is what is said now; what was said before is added by the dialect. */
export interface Turn {
  readonly text: string;
  readonly maxTokens: number;
  /** What the answer must fit, or null. */
  readonly schema: Readonly<Record<string, unknown>> | null;
  /** Between the end of the answer before and this question. */
  readonly thinkMs: number;
  /** As the workload wants it, of this turn's text alone; null where it does not say. */
  readonly promptTokens: number | null;
}

/** A conversation of one turn or several, which follow one another. */
export interface Session {
  /** Milliseconds from the start at which a trace has it; null where the workload does not say. */
  readonly at: number | null;
  readonly system: string | null;
  readonly turns: readonly Turn[];
}

/** Tokens: always so many; between two bounds; log-normal by its mean and standard deviation, cut at bounds. */
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

/** A request of a trace: when, and how long. */
export interface TraceRow {
  readonly at: number;
  readonly promptTokens: number;
  readonly outputTokens: number;
  /** Blocks of the prompt, in order: equal numbers are equal text, so that what was shared is shared again. */
  readonly blocks?: readonly number[];
}

/** What words cost in the vocabulary of the model asked, so that texts have the lengths they should (prepare.ts). */
export interface TextMeasure {
  /** Tokens of a space and each word, in the order of WORDS (text-maker.ts). */
  readonly tokens: readonly number[];
  /** What a request's template puts around a text. */
  readonly overhead: number;
  /** Whether a text has exactly the tokens that its words add up to, or about so many. */
  readonly exact: boolean;
}

/** What is asked. The same specification and seed ask the same, in whatever order and thread. */
export type WorkloadSpec = { readonly seed: number; readonly schema: Readonly<Record<string, unknown>> | null } & (
  | {
      readonly kind: 'synthetic';
      readonly prompt: Lengths;
      readonly output: Lengths;
      /** Each session begins with one of `count` texts of `tokens` tokens. */
      readonly prefixes: { readonly count: number; readonly tokens: number } | null;
      readonly turns: Lengths;
      readonly thinkMs: number;
    }
  | { readonly kind: 'conversations'; readonly sessions: readonly Session[] }
  | { readonly kind: 'trace'; readonly rows: readonly TraceRow[]; readonly blockTokens: number }
);

/** When sessions begin. Rates are sessions a second; later turns follow the answer before them. */
export type Arrival =
  | { readonly kind: 'closed'; readonly concurrency: number }
  | { readonly kind: 'poisson'; readonly rate: number }
  /** Gaps of a gamma distribution: below 1 is burstier than Poisson, above it smoother. */
  | { readonly kind: 'gamma'; readonly rate: number; readonly burstiness: number }
  | { readonly kind: 'constant'; readonly rate: number }
  | { readonly kind: 'bursts'; readonly size: number; readonly everyMs: number }
  /** As the trace has them, so many times faster. */
  | { readonly kind: 'trace'; readonly speed: number };

/** How much is asked: whichever of both comes first. */
export interface Extent {
  readonly requests: number | null;
  readonly durationMs: number | null;
}

/** One run. */
export interface LoadRun {
  readonly target: Target;
  readonly workload: WorkloadSpec;
  readonly measure: TextMeasure;
  readonly arrival: Arrival;
  /** Measured, behind the warm-up. */
  readonly extent: Extent;
  /** The same load first, asked and recorded but not measured; nothing drains between the two. */
  readonly warmup: Extent;
  /** Answers that run when the extent is spent may end within this; what is left then is cancelled. */
  readonly graceMs: number;
  /** Open loop: more than so many requests are not under way; others wait, and their wait counts. Null: no bound. */
  readonly maxConcurrency: number | null;
  /** Whether later turns send what was said, or name the stored response before (`responses` alone). */
  readonly conversation: 'history' | 'stored';
  /** Of the arrival process. */
  readonly seed: number;
  /** Threads that ask; 1 asks from the calling one. */
  readonly threads: number;
}

/**
 * Why a request failed: no connection; a status of 400 or more; an error within the stream; an answer cut off or not
 * of the dialect; out of time. `cancelled` is our own doing and counts neither as failed nor as answered.
 */
export type ErrorKind =
  | 'connection'
  | `http_${number}`
  | 'stream_error'
  | 'truncated'
  | 'malformed'
  | 'timeout'
  | 'cancelled';

/** One request, as its client saw it. */
export interface RequestRecord {
  readonly session: number;
  readonly turn: number;
  readonly phase: 'warmup' | 'measured';
  /** When it should have been sent: latencies count from here (no coordinated omission). */
  readonly intended: number;
  readonly sent: number;
  /** Null until then: the status line; the first event with a piece of the answer. */
  readonly headers: number | null;
  readonly firstToken: number | null;
  readonly end: number;
  /** Between events with pieces of the answer, in order: one fewer than there were. */
  readonly gaps: Float32Array;
  readonly status: number | null;
  readonly error: { readonly kind: ErrorKind; readonly message: string } | null;
  readonly finish: string | null;
  readonly wanted: { readonly promptTokens: number | null; readonly outputTokens: number };
  /** As the server counts; null where it does not say. */
  readonly promptTokens: number | null;
  readonly cachedTokens: number | null;
  readonly outputTokens: number | null;
}

/** How the client fared: whether figures are the server's or its own. */
export interface ClientFigures {
  /** Shares of one thread, the busiest one's: 1 means that it was never idle. */
  readonly utilization: number;
  readonly cpuSeconds: number;
  /** Milliseconds from the intended start of requests that had to wait for nothing until they were sent. */
  readonly lagP99: number;
}

export interface LoadResult {
  /** In the order in which they ended. */
  readonly records: readonly RequestRecord[];
  /** Epoch milliseconds of the run's start. */
  readonly startedAt: number;
  readonly endedMs: number;
  readonly client: ClientFigures;
  /** Whether the caller's signal ended it early. */
  readonly stopped: boolean;
}

export interface LoadProgress {
  readonly elapsedMs: number;
  readonly phase: 'warmup' | 'measured' | 'ending';
  /** Of both phases. */
  readonly sent: number;
  readonly answered: number;
  readonly failed: number;
  readonly running: number;
  readonly outputTokens: number;
  /** Share of the extent that is done, from 0 to 1. */
  readonly done: number;
}

export interface LoadHooks {
  readonly signal?: AbortSignal;
  readonly onProgress?: (progress: LoadProgress) => void;
  /** Each request that has ended, of runs of one thread: who sees that nothing comes of it may stop early. */
  readonly onRecord?: (record: RequestRecord) => void;
}

/** `(run, hooks)`: src/bench/load/driver.ts. Rejects only for what no request could do (LoadError). */
export type RunLoad = (run: LoadRun, hooks?: LoadHooks) => Promise<LoadResult>;

/** Of one quantity, in its unit. */
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
/** Time to first token; between pieces; time per output token; end to end. */
export type Latency = (typeof LATENCIES)[number];

/** What a service promises (objectives.ts). */
export type Objective =
  /** `percentile`: 0 to 100; `limit`: milliseconds. */
  | { readonly metric: Latency; readonly percentile: number; readonly limit: number }
  /** `limit`: a share from 0 to 1. */
  | { readonly metric: 'errors'; readonly percentile: null; readonly limit: number };

/** What an objective came to: `value` as measured, Infinity where more failed than it allows, null where nothing was. */
export interface Verdict {
  readonly objective: Objective;
  readonly value: number | null;
  readonly met: boolean;
}

/** Of a run's measured phase. Latencies in milliseconds, of answered requests; rates per second of `durationMs`. */
export interface Summary {
  /** From the first measured request's intended start to the last one's end. */
  readonly durationMs: number;
  readonly requests: {
    readonly asked: number;
    readonly answered: number;
    readonly failed: number;
    readonly cancelled: number;
  };
  readonly ttft: Distribution | null;
  /** Between pieces of an answer, of all answers together. */
  readonly itl: Distribution | null;
  /** (e2e - ttft) / (output tokens - 1), of answers of two tokens or more. */
  readonly tpot: Distribution | null;
  readonly e2e: Distribution | null;
  /** From the intended start until it was sent. */
  readonly queued: Distribution | null;
  readonly promptTokens: Distribution | null;
  readonly outputTokens: Distribution | null;
  readonly totals: { readonly promptTokens: number; readonly cachedTokens: number; readonly outputTokens: number };
  /** Sessions' or trace's own rate over the time in which they were to begin; null in closed loops. */
  readonly offeredPerSecond: number | null;
  readonly requestsPerSecond: number;
  readonly outputTokensPerSecond: number;
  readonly totalTokensPerSecond: number;
  /** Requests a second that kept every objective, and their share of those asked; null without objectives. */
  readonly goodput: { readonly requestsPerSecond: number; readonly share: number } | null;
  readonly verdicts: readonly Verdict[];
  readonly errors: Readonly<Partial<Record<ErrorKind, { readonly count: number; readonly example: string }>>>;
  readonly concurrency: { readonly mean: number; readonly peak: number };
  readonly client: ClientFigures;
  /** What makes the figures doubtful, in words; empty if nothing does. */
  readonly doubts: readonly string[];
}

/** A figure of several runs: their mean and its 95 percent confidence interval (Student's t); null of one run alone. */
export interface Repeated {
  readonly mean: number;
  readonly low: number | null;
  readonly high: number | null;
  readonly runs: readonly number[];
}
