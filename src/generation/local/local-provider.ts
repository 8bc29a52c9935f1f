// The provider for this process's engine. Prepares a request's prompt, grammars and sampling, submits it, and converts
// the engine's events to generation events. One instance per loaded model; has no per-request state.
import { createHash, randomBytes } from 'node:crypto';
import { MAX_OUTPUT_TOKENS } from '../../config/kinds.js';
import type { AdapterInfo, NativeImage, SubmitOptions } from '../../engine/addon-types.js';
import type { CatalogModel } from '../../engine/catalog.js';
import type { Engine, Generation } from '../../engine/engine.js';
import type { Prefetched } from '../../engine/kv-tier/tier-client.js';
import { apiError } from '../../shared/errors.js';
import { exactly } from '../../shared/token-count.js';
import { VERSION } from '../../shared/version.js';
import type { GenerationLimits, GrammarSettings } from '../generation-limits.js';
import type {
  FromDisk,
  RequestContext,
  PreparedGeneration,
  PromptCount,
  Provider,
  RunningGeneration,
  Vocabulary,
} from '../provider.js';
import { REASONING_EFFORTS, type GenerationEvent, type GenerationRequest, type ReasoningEffort } from '../types.js';
import { notGenerating } from '../pooling-errors.js';
import { compileGrammars, type RequestGrammars } from './grammars.js';
import { checkAdapter, codeOf, goingAway, submitFailure } from './engine-failure.js';
import { promptContent } from './prompt-content.js';
import { promptSizeOf } from './prompt-size.js';
import { LocalDecider } from './local-decider.js';
import { LocalPooler } from './local-pooler.js';
import { PromptImages } from './prompt-images.js';
import { EngineVocabulary } from './raw-prompt.js';
import { Prompter, type Prompt } from './prompter.js';
import { answerHead, closeText, reasoningBudget } from './reasoning.js';
import { RequestEvents, type EventRules } from './request-events.js';
import { TokenTexts } from './token-texts.js';
import { callableTools, callOptions } from './tools/call-options.js';
import type { CallableTools } from './tools/call-reader.js';
import type { ReplaySource } from '../replay/replays.js';
import { openingTokens, WrittenItems, type WritingRules } from './replay/written-items.js';

/** The result for a prompt that is too short to be looked up in the disk tier. */
const BELOW_MINIMUM: FromDisk = { tokens: 0, miss: { reason: 'below minimum', at: null } };

export class LocalProvider implements Provider {
  readonly prompter: Prompter;
  /** Null if the model has no vision encoder. */
  readonly images: PromptImages | null;
  readonly contextWindow: number;
  readonly maxOutputTokens: number;
  /** Identifies the engine's build, the weights, the kernels and the options that affect results. */
  readonly fingerprint: string;
  readonly efforts: readonly ReasoningEffort[];
  readonly vocabulary: Vocabulary;
  readonly decodesImages: boolean;
  readonly pooler: LocalPooler | null;
  readonly decider: LocalDecider;
  /** The LoRA adapter to use; null = no adapter. */
  readonly adapter: AdapterInfo | null;
  private readonly replays: ReplaySource | null;
  /** Identifies the weights of the model and of the adapter. */
  readonly #weights: string;
  readonly #grammarSettings: GrammarSettings;
  readonly #texts: TokenTexts;

  constructor(
    private readonly engine: Engine,
    private readonly model: CatalogModel,
    private readonly limits: GenerationLimits,
    { replays = null, adapter = null }: { replays?: ReplaySource | null; adapter?: AdapterInfo | null } = {},
  ) {
    this.replays = replays;
    this.adapter = adapter;
    // The cache key depends on the scale, so the same adapter with a different scale counts as different weights.
    this.#weights = adapter === null ? engine.fileHash : `${engine.fileHash}+${adapter.cacheKey}`;
    this.images = engine.vision === null ? null : new PromptImages(engine, limits.images);
    this.prompter = new Prompter(engine, model, this.images, { replays, weights: this.#weights });
    this.contextWindow = this.prompter.contextWindow;
    this.maxOutputTokens = Math.min(this.contextWindow - 1, model.max_output_tokens ?? MAX_OUTPUT_TOKENS);
    this.efforts = this.prompter.markers === null ? this.prompter.template.efforts.withNone() : REASONING_EFFORTS;
    this.decodesImages = this.images !== null;
    this.#grammarSettings = { ...limits.grammar, whiteSpace: model.white_space ?? limits.grammar.whiteSpace };
    const { embeddings } = engine.info;
    this.pooler = embeddings === null ? null : new LocalPooler(engine, model, embeddings, { ...limits, adapter });
    const { images, prompter } = this;
    this.decider = new LocalDecider({ engine, prompter, images, adapter, model: model.id, limits });
    this.#texts = new TokenTexts(engine);
    this.vocabulary = new EngineVocabulary(engine, this.#texts);
    const { name, isa } = engine.backend;
    const identity = [VERSION, this.#weights, name, isa, engine.precision].join('\n');
    this.fingerprint = `fp_${createHash('sha256').update(identity).digest('hex').slice(0, 10)}`;
  }

  knowsVariable(name: string): boolean {
    return this.prompter.template.mentions(name);
  }

  check(request: GenerationRequest): void {
    if (this.pooler !== null) throw notGenerating(this.model.id, this.pooler.task);
    for (const { token } of request.sampling.logitBias ?? []) {
      if (token >= this.engine.info.vocabulary) {
        throw apiError('invalid_value', `logit_bias: ${token} is not a token of this model.`, 'logit_bias');
      }
    }
    for (const token of request.stopTokens ?? []) {
      if (token >= this.engine.info.vocabulary)
        throw apiError('invalid_value', `stop_token_ids: ${token} is not a token of this model.`, 'stop_token_ids');
    }
    if (request.raw !== undefined) this.prompter.raw.check(request.raw);
    if (this.images !== null || this.model.image_input === 'note') return;
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

  /**
   * Compiles the request's grammars and builds its prompt. Throws ApiError 503 if the model is unloaded in the
   * meantime.
   */
  prepare(request: GenerationRequest, context: RequestContext): Promise<PreparedGeneration> {
    return this.#whileLoaded(() => this.#prepare(request, context));
  }

  async #prepare(request: GenerationRequest, context: RequestContext): Promise<PreparedGeneration> {
    const { syntax } = this.prompter.dialect;
    const size = promptSizeOf(request);
    this.prompter.checkLength(request, size);
    this.images?.check(request.messages);
    const grammars = await compileGrammars(this.engine, request, syntax, this.#grammarSettings, context);
    const prompt = await this.prompter.prompt(request, size, context);
    const promptTokens = prompt.length;
    const images =
      (await this.images?.prepare(
        prompt.images.map(({ part }) => part),
        context,
      )) ?? [];
    const room = this.contextWindow - promptTokens;
    const asked = request.maxTokens ?? Infinity;
    const maxTokens = Math.min(asked, this.maxOutputTokens, room);
    if ((request.minTokens ?? 0) > maxTokens)
      throw apiError(
        'invalid_value',
        `min_tokens (${request.minTokens}) exceeds the ${maxTokens} tokens that are left for the response.`,
        'min_tokens',
      );
    if (request.promptLogprobs != null && images.length > 0)
      throw apiError(
        'unsupported_value',
        'prompt_logprobs is not supported for prompts with images.',
        'prompt_logprobs',
      );
    const { speculates = true } = this.limits;
    const predicted =
      request.prediction === undefined || !speculates || maxTokens === 0
        ? null
        : await this.prompter.predicted(request.prediction, context);
    const options = this.#submitOptions(request, {
      prompt,
      predicted,
      images,
      grammars,
      maxTokens,
      context,
      closing: await this.prompter.closingTokens(),
    });
    const tools = callableTools(request);
    const { markers } = this.prompter;
    const rules: EventRules = {
      stop: request.stop,
      messages:
        markers?.messages === undefined || request.raw !== undefined
          ? null
          : { marks: markers.messages, inReasoning: prompt.reasoning !== null },
      label:
        markers?.label !== undefined && request.raw === undefined && prompt.reasoning?.begun !== true
          ? markers.label
          : null,
      // A request that generates no output cannot make tool calls.
      calls:
        tools.size === 0 || maxTokens === 0
          ? null
          : { syntax, tools, parallel: request.parallelToolCalls, required: request.toolChoice.mode === 'required' },
      predicted: predicted?.length ?? null,
      ignored: [
        ...(request.prediction !== undefined && predicted === null ? ['prediction'] : []),
        ...(request.keepsPages === true && this.engine.tier === null ? ['prompt_cache_retention'] : []),
      ],
    };
    const { promptParam, keepsPages } = request;
    const { organizationId } = context;
    const prefetched =
      organizationId === undefined || context.readsPages === false
        ? null
        : await this.#prefetch(options, organizationId, context);
    const writing =
      this.replays === null || organizationId === undefined || request.storesNothing === true || maxTokens === 0
        ? null
        : this.#writingRules(request, prompt, tools);
    return {
      promptTokens: exactly(promptTokens),
      promptIds: prompt.tokens,
      ...(prompt.replayed.length === 0 ? {} : { replayed: prompt.replayed }),
      content: () => promptContent(this.engine, prompt, images, this.limits.snapshotTokens ?? 1_024),
      maxTokens,
      cappedByContext: maxTokens === room && room < asked,
      n: request.n,
      ignoredKeywords: grammars.ignoredKeywords,
      start: (onEvent, responseId) => {
        const retain =
          organizationId === undefined
            ? undefined
            : this.engine.tier?.client.labelFor(organizationId, { response: responseId, day: keepsPages });
        const submitted = {
          ...options,
          ...(retain === undefined ? {} : { retain }),
          ...(writing === null ? {} : { returnTokens: true }),
        };
        const receive = writing === null ? onEvent : this.#collecting(writing, options.returnTokens === true, onEvent);
        return this.#start(submitted, rules, receive, { promptParam, prefetched, organizationId });
      },
      ...(this.engine.tier === null || organizationId === undefined ? {} : { fromDisk: prefetched ?? BELOW_MINIMUM }),
      ...(prefetched === null ? {} : { discard: () => prefetched.release() }),
    };
  }

  /**
   * Returns the rules for recording the output's tool calls and reasoning blocks for replay. Returns null if the output
   * can contain neither.
   */
  #writingRules(request: GenerationRequest, prompt: Prompt, tools: CallableTools): WritingRules | null {
    if (request.raw !== undefined || request.webSearch !== undefined || request.mcp !== undefined) return null;
    const { markers, dialect } = this.prompter;
    // A block that continues an unfinished message's reasoning is not recorded, because the model did not generate all
    // of it.
    const isContinued = prompt.reasoning?.begun === true;
    const calls = tools.size > 0 ? { syntax: dialect.syntax, tools } : null;
    if (calls === null && (markers === null || isContinued)) return null;
    const opened =
      markers === null || prompt.reasoning === null
        ? new Int32Array()
        : openingTokens(this.engine, prompt.tokens, prompt.text, markers);
    // If the prompt opens the reasoning, the block can be recorded only if the opening tokens are known.
    const isKnown = prompt.reasoning === null || opened.length > 0;
    return { calls, markers: isContinued || !isKnown ? null : markers, opened };
  }

  /**
   * Wraps `onEvent` so that a `written` event precedes each choice's `finished` event. `shown`: whether the client
   * requested token IDs. If not, `tokens` events are not passed on.
   */
  #collecting(
    rules: WritingRules,
    shown: boolean,
    onEvent: (event: GenerationEvent) => void,
  ): (event: GenerationEvent) => void {
    const written = new WrittenItems(this.engine, rules);
    return (event) => {
      if (event.type === 'tokens') {
        written.tokens(event.choice, event.ids);
        if (!shown) return;
      }
      written.event(event);
      if (event.type === 'finished') {
        const items = written.take(event.choice);
        if (items.length > 0) onEvent({ type: 'written', choice: event.choice, model: this.#weights, items });
      }
      onEvent(event);
    };
  }

  /** Reads the pages of the prompt that are on disk but not in memory. Returns null if there is no disk tier. */
  async #prefetch(
    { prompt, images, organization, promptLogprobs = -1 }: SubmitOptions,
    organizationId: string,
    { signal }: RequestContext,
  ): Promise<Prefetched | null> {
    const { tier } = this.engine;
    // If a prompt's log probabilities are requested, the whole prompt must be prefilled.
    if (tier === null || promptLogprobs >= 0) return null;
    const hasImages = images !== undefined && images.length > 0;
    if (!hasImages && prompt.length <= tier.client.minTokens) return null;
    const { tokens, spans } = hasImages ? this.engine.positions({ prompt, images }) : { tokens: prompt, spans: [] };
    const adapter = this.adapter?.cacheKey ?? '';
    return tier.client.prefetch(tier.key, { organization, organizationId, tokens, spans, adapter, signal });
  }

  count(request: GenerationRequest, context: RequestContext): Promise<PromptCount> {
    return this.#whileLoaded(async () => {
      this.images?.check(request.messages);
      const { length, replayed } = await this.prompter.count(request, context);
      return replayed.length === 0 ? exactly(length) : { ...exactly(length), replayed };
    });
  }

  /**
   * While images are decoded or long texts are queued, an operator or the model lifecycle may unload the model, which
   * closes the engine.
   */
  async #whileLoaded<T>(work: () => Promise<T>): Promise<T> {
    try {
      return await work();
    } catch (error) {
      throw codeOf(error) === 'closed' ? goingAway() : error;
    }
  }

  #submitOptions(
    request: GenerationRequest,
    {
      prompt,
      predicted,
      images,
      grammars,
      maxTokens,
      context: { organization, isBackground = false },
      closing,
    }: {
      prompt: Prompt;
      predicted: Int32Array | null;
      images: readonly NativeImage[];
      grammars: RequestGrammars;
      maxTokens: number;
      context: RequestContext;
      closing: number;
    },
  ): SubmitOptions {
    const { sampling, raw } = request;
    const defaults = this.model.sampling;
    const { dialect, markers } = this.prompter;
    // Repetition detection is off for constrained output, which may legitimately contain repetitions (for example, a
    // row of zeros); its grammar ends them.
    const callDue = request.toolChoice.mode === 'required';
    const bound = grammars.format !== null || callDue;
    // A response that must be a call contains no other text.
    const format = callDue ? null : grammars.format;
    const formatHead =
      format === null || request.continueFinal || callableTools(request).size === 0 ? '' : this.#answerHead(prompt);
    return {
      prompt: prompt.tokens,
      images: prompt.images.map(({ at }, index) => ({ at, image: images[index]! })),
      adapter: this.adapter?.id ?? null,
      output: maxTokens > 0 ? 'tokens' : request.promptLogprobs != null ? 'logprobs' : 'nothing',
      organization,
      background: isBackground,
      n: request.n,
      maxTokens,
      temperature: sampling.temperature ?? defaults.temperature,
      topK: sampling.topK ?? defaults.top_k,
      topP: sampling.topP ?? defaults.top_p,
      minP: sampling.minP ?? defaults.min_p,
      repetitionPenalty: sampling.repetitionPenalty ?? defaults.repetition_penalty,
      frequencyPenalty: sampling.frequencyPenalty ?? 0,
      presencePenalty: sampling.presencePenalty ?? 0,
      seed: BigInt.asUintN(64, sampling.seed ?? randomBytes(8).readBigUInt64LE()),
      logitBias: sampling.logitBias ?? [],
      topLogprobs: request.topLogprobs ?? -1,
      stop: request.stop,
      promptLogprobs: request.promptLogprobs ?? -1,
      minTokens: request.minTokens ?? 0,
      returnTokens: request.returnTokens === true,
      ...(predicted === null ? {} : { prediction: predicted }),
      stopTokens: [...(request.stopTokens ?? [])],
      ignoreEos: request.ignoreEos,
      // Markers cannot be restricted to valid positions in formats with channels, because there the marker that closes
      // the reasoning also closes every other section.
      markersInPlace: raw === undefined && markers?.turn === undefined,
      ...(this.model.max_repeats == null || request.ignoreEos || bound || raw !== undefined
        ? {}
        : { maxRepeats: this.model.max_repeats }),
      prefixCache: true,
      queueWaitMs: this.limits.queueWaitMs,
      generationMs: this.limits.maxGenerationMs,
      // A raw prompt is not a conversation, so it has neither reasoning nor tool calls.
      reasoning:
        markers === null || raw !== undefined
          ? null
          : {
              open: markers.open,
              close: markers.close,
              startsInside: prompt.reasoning !== null,
              continued: prompt.reasoning?.begun === true,
              budget: request.reasoningBudget ?? reasoningBudget(this.prompter.effort(request), maxTokens, closing),
              closeText: closeText(markers, callDue || formatHead !== '' ? 'call' : 'answer'),
            },
      calls: callOptions(request, dialect.syntax, grammars.calls, raw === undefined && markers?.turn === undefined),
      format,
      formatHead,
    };
  }

  #answerHead({ reasoning }: Prompt): string {
    const {
      dialect: { syntax },
      markers,
    } = this.prompter;
    if (syntax.answer !== undefined) return syntax.open + syntax.answer;
    return markers === null ? '' : answerHead(markers, reasoning);
  }

  #start(
    options: SubmitOptions,
    rules: EventRules,
    onEvent: (event: GenerationEvent) => void,
    {
      promptParam,
      prefetched,
      organizationId,
    }: { promptParam: string; prefetched: Prefetched | null; organizationId: string | undefined },
  ): RunningGeneration {
    const queueDrainMs = (): number => this.engine.queueDrainMs();
    const events = new RequestEvents(rules, this.#texts, onEvent, (choice) => generation.finish(choice), queueDrainMs);
    let generation: RunningGeneration & Pick<Generation, 'finish'>;
    try {
      checkAdapter(this.engine, this.adapter, this.model.id);
      const running = submitted(
        () =>
          this.engine.generate(options, (event) => {
            prefetched?.release(); // the request holds its pages itself from its first event on
            if (event.type === 'started' && organizationId !== undefined)
              this.#count(organizationId, event, prefetched);
            events.take(event);
          }),
        promptParam,
        queueDrainMs,
      );
      generation = {
        cancel: () => {
          prefetched?.release();
          running.cancel();
        },
        finish: (choice) => running.finish(choice),
      };
    } catch (error) {
      prefetched?.release();
      throw error;
    }
    return generation;
  }

  #count(
    organizationId: string,
    { promptTokens, cachedTokens }: { promptTokens: number; cachedTokens: number },
    prefetched: Prefetched | null,
  ): void {
    const { tier } = this.engine;
    const diskTokens = prefetched?.tokens ?? 0;
    tier?.client.started(tier.key, organizationId, { promptTokens, cachedTokens, diskTokens });
  }
}

/** Calls `submit` and returns its result. Converts engine errors to ApiErrors. */
function submitted<T>(submit: () => T, promptParam: string, queueDrainMs: () => number): T {
  try {
    return submit();
  } catch (error) {
    throw submitFailure(error, promptParam, queueDrainMs);
  }
}
