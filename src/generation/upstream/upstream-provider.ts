// The provider of an upstream model. Prompt tokens are estimated unless a server is queried for the exact count. One
// instance per model and HTTP worker. It keeps a list of its running requests, so that it can end them. Event-loop
// thread only.
import { createHash } from 'node:crypto';
import { MAX_OUTPUT_TOKENS } from '../../config/kinds.js';
import type { Upstream } from '../../config/upstream.js';
import type { CatalogModel } from '../../engine/catalog.js';
import { apiError, toApiError } from '../../shared/errors.js';
import { ActiveSet } from '../../shared/active-set.js';
import { shareOf } from '../../shared/thread-count.js';
import type { TokenCount } from '../../shared/token-count.js';
import type { UpstreamMeter } from '../../telemetry/types.js';
import { VERSION } from '../../shared/version.js';
import { FairSlots } from '../fair-slots.js';
import type {
  Pooler,
  PreparedGeneration,
  PromptCount,
  Provider,
  RequestContext,
  RunningGeneration,
} from '../provider.js';
import { notGenerating } from '../pooling-errors.js';
import { imageNote } from '../image-note.js';
import {
  REASONING_EFFORTS,
  type GenerationEvent,
  type GenerationRequest,
  type Message,
  type ReasoningEffort,
} from '../types.js';
import { maxTextBytes, type AnswerOptions } from './answer-events.js';
import { completions } from './apis/all.js';
import type { Asked, UpstreamApi } from './apis/api.js';
import { estimatedTokens } from './estimate.js';
import { checkable, checked, heldTo } from './format-check.js';
import { UpstreamRun, type RunDeps, type UpstreamNews, type Written } from './run.js';
import { selectThoughts } from './select-thoughts.js';
import { UpstreamPooler } from './upstream-pooler.js';
import { upstreamIds } from './upstream-id.js';
import { contextOf, countOf } from './capabilities.js';
import { Server, type UpstreamSettings } from './server.js';
import { sharedNow, type SharedCounts } from './shared-counts.js';

export interface UpstreamOptions {
  readonly settings: UpstreamSettings;
  readonly queueWaitMs: number;
  readonly queueMax: number;
  readonly maxGenerationMs: number;
  /** Counters shared by all threads. */
  readonly counts: SharedCounts;
  meter(labels: { model: string; server: string }): UpstreamMeter;
  report(news: UpstreamNews): void;
  /** Returns another model's provider once it is ready. Throws ApiError. */
  other(model: string, signal?: AbortSignal): Promise<Provider>;
}

/** Context size to assume until a server has reported it. */
const DEFAULT_CONTEXT = 131_072;
/** Interval between queries to servers that have not reported their context size. */
const ASK_AGAIN_MS = 60_000;
/**
 * Maximum number of concurrent token-count queries, in total and per organization. They do not count toward generation
 * limits.
 */
const COUNTS = 32,
  COUNTS_OF_ONE = 24;

export class UpstreamProvider implements Provider {
  readonly fingerprint: string;
  readonly efforts: readonly ReasoningEffort[];
  readonly sees: boolean;
  readonly decodesImages = false;
  readonly servers: readonly Server[];
  readonly pooler: Pooler | null;
  readonly #upstream: Upstream;
  readonly #deps: RunDeps;
  readonly #counts: FairSlots<number>;
  #turn = 0;
  #askedAt = -Infinity; // time of the last query for the context size

  constructor(
    private readonly model: CatalogModel,
    upstream: Upstream,
    { settings, queueWaitMs, queueMax, maxGenerationMs, counts, meter, report, other }: UpstreamOptions,
  ) {
    this.#upstream = upstream;
    this.efforts = upstream.thinking === 'none' ? ['none'] : REASONING_EFFORTS;
    this.sees = upstream.images;
    const ids = upstreamIds(upstream.servers, model.id);
    this.servers = upstream.servers.map(
      (one, index) => new Server(one, { id: ids[index] as string, model: model.id }, settings, counts.row(), meter),
    );
    const identity = [VERSION, ...upstream.servers.map(({ url, model: name }) => `${url} ${name ?? model.id}`)].join(
      '\n',
    );
    this.fingerprint = `fp_${createHash('sha256').update(identity).digest('hex').slice(0, 10)}`;
    this.#counts = new FairSlots(shareOf(COUNTS), `token counts for ${model.id}`, shareOf(queueMax), {
      mostOfOne: shareOf(COUNTS_OF_ONE),
    });
    const { fallback } = upstream;
    this.#deps = {
      model: model.id,
      servers: this.servers,
      settings,
      queueWaitMs,
      maxGenerationMs,
      report,
      running: new ActiveSet(),
      slots: new FairSlots(counts.places(settings.concurrency), `requests for ${model.id}`, shareOf(queueMax)),
      fallback:
        fallback === null ? null : async (signal) => ({ model: fallback, provider: await other(fallback, signal) }),
      turn: () => this.#turn++,
    };
    this.pooler = this.servers.every(({ settings: { api } }) => api === 'embeddings')
      ? new UpstreamPooler(model, this.#deps)
      : null;
  }

  /** The operator's setting or, if unset, the smallest value that the servers have reported. */
  get contextWindow(): number {
    if (this.model.context_window === null) this.#learn();
    return this.#knownContext ?? DEFAULT_CONTEXT;
  }

  /** Null if unknown. */
  get #knownContext(): number | null {
    if (this.model.context_window !== null) return this.model.context_window;
    const reported = this.servers.flatMap(({ context }) => (context === null ? [] : [context]));
    return reported.length === 0 ? null : Math.min(...reported);
  }

  get maxOutputTokens(): number {
    return Math.max(1, Math.min(this.contextWindow - 1, this.model.max_output_tokens ?? MAX_OUTPUT_TOKENS));
  }

  get running(): number {
    return this.servers.reduce((sum, { mine }) => sum + mine, 0);
  }
  get waiting(): number {
    return Math.max(0, this.#deps.running.size - this.running);
  }

  check(request: GenerationRequest): void {
    if (this.pooler !== null) throw notGenerating(this.model.id, this.pooler.task);
    if (this.sees || this.model.image_input === 'note') return;
    for (const { content } of request.messages) {
      if (typeof content !== 'object' || content === null) continue;
      for (const part of content) {
        if (part.type === 'image')
          throw apiError(
            'model_not_vision',
            `${part.path}: ${this.model.id} is a text-only model and does not accept images.`,
            part.path,
          );
      }
    }
  }

  async prepare(request: GenerationRequest, context: RequestContext): Promise<PreparedGeneration> {
    const promptTokens = this.#estimate(request);
    const asked = this.#withDefaults(request);
    const maxTokens = Math.min(request.maxTokens ?? Infinity, this.maxOutputTokens);
    const cap = request.maxTokens === null && this.model.max_output_tokens === null ? null : maxTokens;
    const written = new Map<string, Omit<Written, 'api'>>();
    const api = (server: Server): Written => {
      const chosen =
        request.raw === undefined ? server.api : server.settings.api === 'messages' ? refusePlain() : completions;
      const key = chosen.takesBack === 'text' ? chosen.path : `${chosen.path} ${server.id} ${server.encryptsReasoning}`;
      let one = written.get(key);
      if (one === undefined) written.set(key, (one = this.#write(asked, { chosen, server, cap })));
      return { api: chosen, ...one };
    };
    // Parameters that the format does not support are rejected before anything is counted.
    const held = this.servers
      .map((server) => api(server).api.holds(request.format, this.#upstream.structured_outputs))
      .every(Boolean);
    if (!held) checkable(request.format);
    const facts: AnswerOptions = {
      n: request.n,
      stop: request.stop,
      maxCalls: request.parallelToolCalls ? Infinity : 1,
      estimatedPrompt: promptTokens.tokens,
      cap,
      context: this.#knownContext,
      maxTextBytes: maxTextBytes(maxTokens),
      logprobs: request.topLogprobs !== null,
      keepsContent: request.format.type !== 'text' && (!held || request.stop.length > 0),
    };
    return {
      promptTokens,
      maxTokens,
      cappedByContext: false,
      n: request.n,
      ignoredKeywords: request.tools.flatMap(({ custom }) => custom?.grammar?.path ?? []),
      ...(held ? {} : { headers: [['x-structured-output', 'checked']] as const }),
      start: (onEvent, responseId) => {
        if (request.maxTokens === 0) return nothing(this.count(request, context), request.n, onEvent);
        const run = new UpstreamRun(
          this.#deps,
          { request, facts, context, api, responseId },
          held ? heldTo(request, onEvent) : checked(request.format, onEvent, () => run.cancel()),
        );
        return run.start();
      },
    };
  }

  /** Queries a server that can count tokens. Images are not sent. */
  async count(request: GenerationRequest, context: RequestContext): Promise<PromptCount> {
    const server = this.servers.find(({ shutForMs }) => shutForMs === 0);
    if (server !== undefined && !(this.sees && hasImages(request))) {
      const { body, leftOut, ignored } =
        request.raw !== undefined
          ? { body: {}, leftOut: undefined, ignored: [] }
          : this.#write(this.#withDefaults(request), { chosen: server.api, server, cap: request.maxTokens });
      const tokens = await this.#counts.run(context, 1, () => countOf(server, body, request));
      return { ...(tokens === null ? this.#estimate(request) : { tokens, exact: true }), leftOut, ignored };
    }
    return this.#estimate(request);
  }

  /** Writes the request for one server, with the reasoning of earlier turns that the server can read back. */
  #write(
    request: GenerationRequest,
    { chosen, server, cap }: { chosen: UpstreamApi; server: Server; cap: number | null },
  ): Omit<Written, 'api'> {
    const { encryptsReasoning } = server;
    const rest = { cap, maxOutputTokens: this.maxOutputTokens, upstream: this.#upstream, encryptsReasoning };
    const selected = selectThoughts(request, {
      takesBack: chosen.takesBack,
      upstream: server.id,
      models: [request.model, this.model.id],
      thinks: chosen.thinks?.({ ...rest, request }) === true,
    });
    const { leftOut } = selected;
    const unsent = [
      // Truncation is not supported, because choosing the turns to drop would require the upstream's token counts.
      ...(request.truncation === 'auto' ? ['truncation'] : []),
      ...(request.keepsPages === true ? ['prompt_cache_retention'] : []),
      ...(request.prediction !== undefined && chosen.takesPrediction !== true ? ['prediction'] : []),
    ];
    return {
      body: chosen.body({ ...rest, request: selected.request } satisfies Asked),
      leftOut,
      ignored: [...selected.ignored, ...unsent],
    };
  }

  /**
   * Queries the servers that have not reported their context size, first when the size is needed and then at intervals.
   */
  #learn(): void {
    if (sharedNow() - this.#askedAt < ASK_AGAIN_MS) return;
    this.#askedAt = sharedNow();
    for (const server of this.servers) {
      if (server.context === null && server.shutForMs === 0)
        void contextOf(server).then((tokens) => {
          if (tokens !== null) server.context = tokens;
        });
    }
  }

  /** Ends all running requests with an error. */
  drain(): void {
    for (const run of [...this.#deps.running]) run.drain();
  }

  async close(): Promise<void> {
    for (const run of [...this.#deps.running]) run.cancel();
    await Promise.all(this.servers.map((server) => server.close()));
  }

  #estimate(request: GenerationRequest): TokenCount {
    return { tokens: estimatedTokens(request), exact: false };
  }

  /** Adds the operator's sampling defaults where the client has set no value, and image notes for a text-only model. */
  #withDefaults(seen: GenerationRequest): GenerationRequest {
    const request = this.sees || !hasImages(seen) ? seen : { ...seen, messages: seen.messages.map(noted) };
    const set = this.model.givenSampling;
    if (set === undefined || Object.keys(set).length === 0) return request;
    const { sampling } = request;
    return {
      ...request,
      sampling: {
        ...sampling,
        temperature: sampling.temperature ?? set.temperature,
        topP: sampling.topP ?? set.top_p,
        topK: sampling.topK ?? set.top_k,
        minP: sampling.minP ?? set.min_p,
        repetitionPenalty: sampling.repetitionPenalty ?? set.repetition_penalty,
      },
    };
  }
}

const hasImages = ({ messages }: GenerationRequest): boolean =>
  messages.some(
    ({ content }) => typeof content === 'object' && content !== null && content.some(({ type }) => type === 'image'),
  );

function refusePlain(): never {
  throw apiError(
    'unsupported_feature',
    'The upstream server for this model supports conversations only, not raw prompts.',
    'prompt',
  );
}

/** Replaces a message's images with notes. */
function noted(message: Message): Message {
  if (message.role !== 'user' && message.role !== 'tool') return message;
  const { content } = message;
  return typeof content === 'string'
    ? message
    : {
        ...message,
        content: content.map((part) =>
          part.type === 'image' ? { type: 'text' as const, text: imageNote(part) } : part,
        ),
      };
}

/**
 * Runs a request that generates no output. Its tokens are counted, but it is not sent: it could only fill a cache, and
 * upstreams manage their own caches.
 */
function nothing(
  counting: Promise<TokenCount>,
  n: number,
  onEvent: (event: GenerationEvent) => void,
): RunningGeneration {
  let isWanted = true;
  const failed = (error: unknown): void => {
    const reported = toApiError(error);
    if (isWanted) onEvent({ type: 'failed', code: 'upstream', message: reported.message, error: reported });
  };
  counting
    .then(({ tokens: promptTokens, exact }) => {
      if (!isWanted) return;
      onEvent({ type: 'started', promptTokens, cachedTokens: 0, queueMs: 0 });
      for (let choice = 0; choice < n && isWanted; choice++) {
        onEvent({
          type: 'finished',
          choice,
          reason: 'max_tokens',
          stopString: null,
          completionTokens: 0,
          reasoningTokens: 0,
          calls: 0,
          timings: { prefillMs: 0, decodeMs: 0 },
          counted: { promptTokens, cachedTokens: 0, estimated: !exact },
        });
      }
    })
    .catch(failed);
  return {
    cancel: () => {
      isWanted = false;
    },
  };
}
