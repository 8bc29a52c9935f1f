// Embeddings from an upstream model. Vectors are returned as the upstream scales them, unless `models.<id>.normalize`
// is set. One instance per model and HTTP worker. Event-loop thread only.
import type { CatalogModel } from '../../engine/catalog.js';
import { apiError } from '../../shared/errors.js';
import { normalized } from '../normalized.js';
import type { PoolingRequest } from '../pooling.js';
import { embeddingPrompt } from '../embedding-prompt.js';
import type { Pooler, PreparedPooling, RequestContext } from '../provider.js';
import { WITHOUT_TEXT } from '../without-text.js';
import type { AnswerOptions } from './answer-events.js';
import { EmbeddingsApi, MAX_DIMENSIONS } from './apis/embeddings.js';
import { UpstreamRun, type RunDeps } from './run.js';

/**
 * Average number of UTF-8 bytes per token, used to estimate the prompt tokens that are reserved from the rate limits.
 */
const BYTES_PER_TOKEN = 3.5;
/** The values of `upstream.structured_outputs` that identify servers with support for `truncate_prompt_tokens`. */
const TRUNCATING: readonly unknown[] = ['vllm', 'monolith'];
/** Size of one value of a vector in base64, in bytes, rounded up. */
const BYTES_PER_VALUE = 6;

export class UpstreamPooler implements Pooler {
  readonly task = 'embedding';
  readonly dimensions = null;
  readonly shorterDimensions: readonly number[];

  /** `deps`: dependencies of each run of this model. */
  constructor(
    private readonly model: CatalogModel,
    private readonly deps: RunDeps,
  ) {
    this.shorterDimensions = model.embedding_dimensions ?? [];
  }

  prepare(request: PoolingRequest, context: RequestContext): Promise<PreparedPooling> {
    const { inputs, dimensions, truncation } = request;
    if (dimensions !== null && !this.shorterDimensions.includes(dimensions))
      throw apiError(
        'unsupported_value',
        this.shorterDimensions.length === 0
          ? `dimensions: models.<id>.embedding_dimensions lists no dimensions for ${this.model.id}.`
          : `dimensions must be one of ${this.shorterDimensions.join(', ')} for ${this.model.id} (got ${dimensions}).`,
        'dimensions',
      );
    if (truncation?.side === 'start')
      throw apiError('unsupported_value', 'truncate: START is not supported for upstream models.', 'truncate');
    const truncates = TRUNCATING.includes(this.model.upstream?.structured_outputs);
    if (truncation !== null && truncation.field !== null && !truncates)
      throw apiError(
        'unsupported_value',
        `${truncation.field} is not supported for ${this.model.id}: its upstream cuts inputs only if upstream.structured_outputs is vllm or monolith.`,
        truncation.field,
      );
    const prompt = embeddingPrompt(request, this.model.embedding_prompts ?? {}, this.model.id);
    const api = new EmbeddingsApi(request, prompt, truncates);
    const estimate = inputs.reduce(
      (sum, input) =>
        sum +
        (input.kind === 'tokens'
          ? input.tokens.length
          : Math.ceil(
              Buffer.byteLength(input.kind === 'text' ? prompt + input.text : input.document) / BYTES_PER_TOKEN,
            )),
      0,
    );
    const facts: AnswerOptions = {
      n: 1,
      stop: [],
      maxCalls: 0,
      estimatedPrompt: estimate,
      cap: 0,
      context: null,
      maxTextBytes: inputs.length * MAX_DIMENSIONS * BYTES_PER_VALUE,
      logprobs: false,
      keepsContent: false,
    };
    const written = { api, body: api.body(), leftOut: undefined, ignored: [] };
    const scales = this.model.normalize === true;
    return Promise.resolve({
      promptTokens: { tokens: estimate, exact: false },
      maxTokens: 0,
      cappedByContext: false,
      n: 1,
      ignoredKeywords: [],
      // Always empty, because upstream servers do not report which inputs they truncated.
      truncated: [],
      width: null,
      results: () => (scales ? api.vectors.map(normalized) : api.vectors),
      start: (onEvent) =>
        // The fallback model is never used, because its vectors are not comparable with this model's vectors.
        new UpstreamRun(
          { ...this.deps, fallback: null },
          { request: { ...WITHOUT_TEXT, model: this.model.id }, facts, context, api: () => written },
          onEvent,
        ).start(),
    });
  }
}
