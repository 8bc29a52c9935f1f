// Computes embeddings and reranker scores with the engine of this process: tokenizes a request's inputs, submits them
// to the engine together, and scales the results. One instance per loaded model; has no per-request state. Event-loop
// thread only.
import { performance } from 'node:perf_hooks';
import type { AdapterInfo, EmbeddingInfo } from '../../engine/addon-types.js';
import type { CatalogModel } from '../../engine/catalog.js';
import { EmbedError } from '../../engine/embed.js';
import type { Engine } from '../../engine/engine.js';
import { readSentenceFiles, type SentenceFiles } from '../../engine/sentence-files.js';
import { ApiError, apiError } from '../../shared/errors.js';
import { inTurns } from '../../shared/in-turns.js';
import { shareOf } from '../../shared/thread-count.js';
import { exactly } from '../../shared/token-count.js';
import { embeddingPrompt } from '../embedding-prompt.js';
import { FairSlots } from '../fair-slots.js';
import { normalized } from '../normalized.js';
import type { GenerationLimits } from '../generation-limits.js';
import type { PoolingInput, PoolingRequest, PoolingTask } from '../pooling.js';
import type { Pooler, PreparedPooling, RequestContext, RunningGeneration } from '../provider.js';
import type { GenerationEvent } from '../types.js';
import { checkAdapter, submitFailure } from './engine-failure.js';
import { documentedDimensions } from './documented-dimensions.js';
import { PoolingInputs, QWEN3_PAIR } from './pooling-inputs.js';

/** Requests with at least this many input characters wait for a slot before they are tokenized. */
const LARGE_INPUT = 1 << 16;
/** Maximum total number of input characters of one organization's requests that wait for a tokenizing slot. */
const MAX_WAITING = shareOf(1 << 28);
/** The process tokenizes at most two large requests at a time. The two slots are divided among its HTTP workers. */
const tokenizing = new FairSlots(shareOf(2), 'long inputs', MAX_WAITING);

export class LocalPooler implements Pooler {
  readonly task: PoolingTask;
  readonly dimensions: number;
  readonly shorterDimensions: readonly number[];
  readonly maxTokens: number;
  readonly #inputs: PoolingInputs;
  readonly #files: SentenceFiles;
  readonly #normalizes: boolean;
  readonly #prompts: Readonly<Record<string, string>>;
  readonly #relevantLabel: number;
  /** Whether the engine already applies the softmax to several scores, as it does for Qwen3 rerankers. */
  readonly #scoresAreProbabilities: boolean;

  constructor(
    private readonly engine: Engine,
    private readonly model: CatalogModel,
    info: EmbeddingInfo,
    private readonly limits: Pick<GenerationLimits, 'queueWaitMs' | 'maxGenerationMs'> & {
      /** The LoRA adapter to use; absent or null = no adapter. */
      readonly adapter?: AdapterInfo | null;
    },
  ) {
    const isRanker = info.pooling === 'rank';
    this.task = isRanker ? 'ranking' : 'embedding';
    this.dimensions = info.dimensions;
    this.maxTokens = Math.min(info.maxTokens, model.context_window ?? Infinity);
    this.#files = readSentenceFiles(model.file);
    this.#normalizes = model.normalize ?? this.#files.normalizes;
    this.#prompts = { ...this.#files.prompts, ...model.embedding_prompts };
    const { architecture } = engine.info;
    this.#scoresAreProbabilities = architecture.startsWith('qwen3');
    this.shorterDimensions = isRanker
      ? []
      : (model.embedding_dimensions ?? documentedDimensions(architecture)).filter((size) => size < info.dimensions);
    this.#inputs = new PoolingInputs(engine, {
      maxTokens: this.maxTokens,
      edges: {
        head: Int32Array.from(info.prefix),
        tail: Int32Array.from(info.suffix),
        separator: info.separator,
      },
      pair: isRanker && architecture.startsWith('qwen3') ? QWEN3_PAIR : null,
    });
    this.#relevantLabel = Math.max(
      0,
      info.labels.findIndex((label) => label.toLowerCase() === 'yes'),
    );
  }

  async prepare(request: PoolingRequest, context: RequestContext): Promise<PreparedPooling> {
    const { inputs, dimensions } = request;
    this.#checkDimensions(dimensions);
    const prompt = embeddingPrompt(request, this.#prompts, this.model.id, this.#files.defaultPrompt ?? '');
    this.#inputs.check(inputs);
    const characters = inputs.reduce((sum, input) => sum + sizeOf(input), 0);
    const encode = (): Promise<Encoded> => this.#encode(request, prompt, context);
    const { tokens, count, truncated } = await (characters < LARGE_INPUT
      ? encode()
      : tokenizing.run(context, characters, encode));
    let results: readonly Float32Array[] = [];
    return {
      promptTokens: exactly(count),
      maxTokens: 0,
      cappedByContext: false,
      n: 1,
      ignoredKeywords: [],
      truncated,
      width: this.task === 'ranking' ? 1 : (dimensions ?? this.dimensions),
      results: () => results,
      start: (onEvent) =>
        this.#start(
          tokens,
          context,
          async (raw, signal) => {
            results = await this.#finishedAll(raw, dimensions, { ...context, signal });
          },
          onEvent,
        ),
    };
  }

  #checkDimensions(dimensions: number | null): void {
    if (dimensions === null || dimensions === this.dimensions || this.shorterDimensions.includes(dimensions)) return;
    const { length } = this.shorterDimensions;
    throw apiError(
      'unsupported_value',
      length === 0
        ? `dimensions: the vectors of ${this.model.id} always have ${this.dimensions} dimensions.`
        : `dimensions must be one of ${[...this.shorterDimensions, this.dimensions].join(', ')} for ${this.model.id} (got ${dimensions}).`,
      'dimensions',
    );
  }

  async #encode(request: PoolingRequest, prompt: string, context: RequestContext): Promise<Encoded> {
    const { charged = uncharged, signal } = context;
    const tokens: Int32Array[] = [];
    const truncated: string[] = [];
    const queries = new Map<string, Int32Array>();
    let count = 0;
    const encode = async (input: PoolingInput): Promise<void> => {
      const encoded = await charged(sizeOf(input), () => this.#inputs.tokens(input, request, { prompt, queries }));
      tokens.push(encoded.tokens);
      count += encoded.tokens.length;
      if (encoded.isTruncated) truncated.push(input.path);
    };
    await inTurns(request.inputs, encode, signal);
    return { tokens, count, truncated };
  }

  /** Submits the inputs to the engine. `keep` is called with the engine's results before `finished` is emitted. */
  #start(
    tokens: readonly Int32Array[],
    { organization, isBackground = false }: RequestContext,
    keep: (results: readonly Float32Array[], signal: AbortSignal) => Promise<void>,
    onEvent: (event: GenerationEvent) => void,
  ): RunningGeneration {
    const abort = new AbortController();
    const { signal } = abort;
    let isWanted = true;
    const began = performance.now();
    const promptTokens = tokens.reduce((sum, { length }) => sum + length, 0);
    const emit = (event: GenerationEvent): void => {
      if (isWanted) onEvent(event);
    };
    const run = async (): Promise<void> => {
      checkAdapter(this.engine, this.limits.adapter ?? null, this.model.id);
      const computed = this.engine.embed(tokens, {
        organization,
        background: isBackground,
        adapter: this.limits.adapter?.id ?? null,
        signal,
        queueWaitMs: this.limits.queueWaitMs,
        generationMs: this.limits.maxGenerationMs,
      });
      emit({ type: 'started', promptTokens, cachedTokens: 0, queueMs: 0 });
      const results = await computed;
      const prefillMs = performance.now() - began;
      await keep(results, signal);
      emit({ ...FINISHED, timings: { prefillMs, decodeMs: 0 } });
    };
    // Starts asynchronously, because `onEvent` must not be called before #start() returns.
    Promise.resolve()
      .then(run)
      .catch((cause: unknown) => {
        if (cause instanceof EmbedError) {
          const { code, message } = cause;
          return emit({ type: 'failed', code, message, retryAfterMs: this.engine.queueDrainMs() });
        }
        const failure = submitFailure(cause, 'input', () => this.engine.queueDrainMs());
        const error =
          failure instanceof ApiError
            ? failure
            : apiError('model_error', 'The model failed to handle this request.', null, { cause: failure });
        emit({ type: 'failed', code: 'upstream', message: error.message, error });
      });
    return {
      cancel: () => {
        isWanted = false;
        abort.abort();
      },
    };
  }

  async #finishedAll(
    raw: readonly Float32Array[],
    dimensions: number | null,
    context: RequestContext,
  ): Promise<readonly Float32Array[]> {
    const results: Float32Array[] = [];
    const { charged = uncharged, signal } = context;
    const finish = (vector: Float32Array): void => {
      results.push(charged(vector.length, () => this.#finished(vector, dimensions)));
    };
    await inTurns(raw, finish, signal);
    return results;
  }

  /**
   * Postprocesses one engine result: truncates and normalizes a vector, or converts a pair's scores to a relevance
   * between 0 and 1.
   */
  #finished(raw: Float32Array, dimensions: number | null): Float32Array {
    // The sum of the values is finite only if every value is finite.
    let sum = 0;
    for (const value of raw) sum += value;
    if (!Number.isFinite(sum))
      throw apiError('model_error', 'The model returned a value that is not a finite number.', null);
    if (this.task === 'ranking')
      return this.#scoresAreProbabilities && raw.length > 1
        ? raw.slice(this.#relevantLabel, this.#relevantLabel + 1)
        : Float32Array.of(relevance(raw, this.#relevantLabel));
    const vector = dimensions === null ? raw : raw.slice(0, dimensions);
    return this.#normalizes ? normalized(vector) : vector;
  }
}

interface Encoded {
  readonly tokens: readonly Int32Array[];
  readonly count: number;
  /** Returns the paths of the truncated inputs. */
  readonly truncated: readonly string[];
}

const FINISHED = {
  type: 'finished',
  choice: 0,
  reason: 'end_of_turn',
  stopString: null,
  completionTokens: 0,
  reasoningTokens: 0,
  calls: 0,
} as const;

const uncharged = <T>(_characters: number, work: () => T): T => work();

function sizeOf(input: PoolingInput): number {
  switch (input.kind) {
    case 'text':
      return input.text.length;
    case 'tokens':
      return input.tokens.length;
    case 'pair':
      return input.query.length + input.document.length;
  }
}

/**
 * Converts the scores of one pair to a relevance between 0 and 1. A single score is a logit. Several scores are the
 * logits of labels; `relevantLabel` is the index of the label that means "relevant".
 */
export function relevance(scores: Float32Array, relevantLabel: number): number {
  const own = scores[relevantLabel] ?? 0;
  if (scores.length === 1) return 1 / (1 + Math.exp(-own));
  let sum = 0;
  for (const score of scores) sum += Math.exp(score - own);
  return 1 / sum;
}
