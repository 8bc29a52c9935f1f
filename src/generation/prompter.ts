// One model's way from a GenerationRequest to the engine: render the template, tokenize, fit the context,
// fix the sampling, submit, and turn engine events into generation events. One per loaded model; it holds
// no state of any request.
import { createHash, randomBytes } from 'node:crypto';
import type { SubmitOptions } from '../engine/addon-types.js';
import type { CatalogModel } from '../engine/catalog.js';
import type { Engine } from '../engine/engine.js';
import { apiError, type ApiError } from '../errors.js';
import { VERSION } from '../version.js';
import { CHATML_TEMPLATE, ChatTemplate } from './chat-template.js';
import { textOf } from './conversation.js';
import { PromptWriter } from './prompt-writer.js';
import { findMarkers, openReasoning, reasoningBudget, type OpenReasoning, type ReasoningMarkers } from './reasoning.js';
import { RequestEvents, type EventRules } from './request-events.js';
import { startersOf } from './shield.js';
import { TokenTexts } from './token-texts.js';
import { callableTools, callOptions } from './tools/call-options.js';
import { findDialect, type ToolDialect } from './tools/dialect.js';
import { droppableGroups, withoutUpTo } from './truncate.js';
import type { GenerationEvent, GenerationRequest, Message, PreparedGeneration, ReasoningEffort, RunningGeneration } from './types.js';

/** Limits that are the operator's, not the model's. */
export interface GenerationLimits {
  queueWaitMs: number;
  maxGenerationMs: number;
}

/** The addon tokenizes no longer text; far above what any context takes. */
const MAX_PROMPT_BYTES = 64 * 1024 * 1024;

/** Characters from which a prompt's length is estimated before anything is done with it. */
const HUGE_PROMPT = 1 << 20;

interface Prompt { tokens: Int32Array; reasoning: OpenReasoning | null }

export class Prompter {
  readonly template: ChatTemplate;
  /** The delimiters of the model's reasoning; null if it has no such mode. */
  readonly markers: ReasoningMarkers | null;
  /** Prompt plus output, in tokens. */
  readonly contextWindow: number;
  /** What one answer may have, whatever the client asks. */
  readonly maxOutputTokens: number;
  /** `fp_` + 10 hex over the engine's build, the weights and the kernels: same fingerprint, same arithmetic. */
  readonly fingerprint: string;
  /** How the model writes tool calls. */
  readonly dialect: ToolDialect;
  readonly #writer: PromptWriter;
  readonly #texts: TokenTexts;
  #longestToken: number | null = null;      // bytes; known after the first huge prompt
  #closingTokens: number | null = null;     // what the engine writes to end the reasoning; known after the first request

  /** Throws TemplateError if the model's chat template is unusable. */
  constructor(private readonly engine: Engine, private readonly model: CatalogModel, private readonly limits: GenerationLimits) {
    const { info } = engine;
    const source = info.chatTemplate ?? CHATML_TEMPLATE;
    this.template = new ChatTemplate(source, { bos: info.bos, eos: info.eos });
    this.markers = findMarkers(source, (spelling) => engine.findToken(spelling) !== -1);
    this.contextWindow = Math.min(engine.maxContext, model.context_window ?? Infinity);
    this.maxOutputTokens = Math.min(this.contextWindow - 1, model.max_output_tokens ?? Infinity);
    this.dialect = findDialect(this.template, (spelling) => engine.findToken(spelling) !== -1);
    this.#writer = new PromptWriter(this.template, this.dialect, this.markers, startersOf(info.specialTokens));
    this.#texts = new TokenTexts(engine);
    const identity = [VERSION, engine.fileHash, engine.backend.name, engine.backend.isa].join('\n');
    this.fingerprint = `fp_${createHash('sha256').update(identity).digest('hex').slice(0, 10)}`;
  }

  /** What can be refused before images are fetched and text is rendered. Throws ApiError 422. */
  check(request: GenerationRequest): void {
    for (const { token } of request.sampling.logitBias ?? []) {
      if (token >= this.engine.info.vocabulary) {
        throw apiError('invalid_value', `logit_bias: ${token} is not a token of this model.`, 'logit_bias');
      }
    }
    if (this.model.image_input === 'note') return;
    for (const { content } of request.messages) {
      if (typeof content !== 'object' || content === null) continue;
      for (const part of content) {
        if (part.type === 'image') throw apiError('unsupported_content', `${part.path}: ${this.model.id} takes text only, not images.`, part.path);
      }
    }
  }

  /**
   * Renders and tokenizes a checked request; nothing is reserved yet. Throws ApiError: the template refuses
   * the messages, the prompt does not fit.
   */
  async prepare(request: GenerationRequest, organization: number): Promise<PreparedGeneration> {
    const effort = this.#effort(request);
    const prompt = await this.#fitted(request, effort);
    const promptTokens = prompt.tokens.length;
    if (promptTokens >= this.contextWindow) throw this.#tooLong(String(promptTokens), request);
    const maxTokens = Math.min(request.maxTokens ?? Infinity, this.maxOutputTokens, this.contextWindow - promptTokens);
    this.#closingTokens ??= await this.#countClosing();
    const options = this.#submitOptions(request, effort, prompt, maxTokens, organization, this.#closingTokens);
    const tools = callableTools(request);
    const rules: EventRules = {
      stop: request.stop, promptOnly: maxTokens === 0,
      calls: tools.size === 0 ? null : { syntax: this.dialect.syntax, tools, parallel: request.parallelToolCalls, required: request.toolChoice.mode === 'required' },
    };
    return {
      promptTokens, maxTokens, n: request.n,
      start: (onEvent) => this.#start(options, rules, onEvent, request),
    };
  }

  /** The prompt's tokens exactly as prepare() would have them; a prompt that does not fit is counted too. Throws ApiError 422. */
  async count(request: GenerationRequest): Promise<number> {
    const effort = this.#effort(request);
    if (request.truncation === 'disabled') return (await this.#prompt(request, request.messages, effort)).tokens.length;
    return (await this.#fitted(request, effort)).tokens.length;
  }

  /** Both wordings that clients' recovery code looks for. */
  #tooLong(tokens: string, { promptParam }: Pick<GenerationRequest, 'promptParam'>): ApiError {
    return apiError('context_length_exceeded',
      `prompt is too long: ${tokens} tokens > ${this.contextWindow - 1} maximum. ` +
      `This model's maximum context length is ${this.contextWindow} tokens.`, promptParam);
  }

  #effort(request: GenerationRequest): ReasoningEffort {
    const fallback = this.model.default_effort;
    if (request.effort === 'enabled') return fallback === 'none' ? 'medium' : fallback;
    return request.effort ?? fallback;
  }

  /**
   * Tokens that a text of these many characters has at least: no token is longer than the vocabulary's
   * longest. So a text that cannot fit costs no rendering.
   */
  #atLeast(characters: number): number {
    if (characters < HUGE_PROMPT) return 0;
    if (this.#longestToken === null) {
      this.#longestToken = 1;
      for (let token = 0; token < this.engine.info.vocabulary; token++) {
        this.#longestToken = Math.max(this.#longestToken, this.engine.tokenBytes(token).length);
      }
    }
    return Math.ceil(characters / this.#longestToken);   // characters are at least one byte each
  }

  /** The prompt, without its oldest turns if it does not fit and may be shortened. */
  async #fitted(request: GenerationRequest, effort: ReasoningEffort): Promise<Prompt> {
    const atLeast = Math.max(this.#atLeast(charactersOf(request.messages)), turnsOf(request.messages));
    const hopeless = atLeast >= this.contextWindow;
    if (request.truncation === 'disabled') {
      if (hopeless) throw this.#tooLong(`at least ${atLeast}`, request);
      return this.#prompt(request, request.messages, effort);
    }
    const whole = hopeless ? null : await this.#prompt(request, request.messages, effort);
    return whole !== null && whole.tokens.length < this.contextWindow ? whole : this.#truncated(request, effort);
  }

  /** As few of the oldest turns left out as leave the answer some room. */
  async #truncated(request: GenerationRequest, effort: ReasoningEffort): Promise<Prompt> {
    const { messages } = request;
    const groups = droppableGroups(messages);
    const after = (count: number): Message[] => withoutUpTo(messages, groups[count - 1]?.[1] ?? 0);
    const room = this.contextWindow - Math.max(1, Math.min(request.maxTokens ?? Infinity, Math.floor(this.contextWindow / 4)));
    // Between what cannot fit for its length alone and all that may go.
    let low = this.#firstHopeful(messages, groups);
    let high = groups.length;
    let best = await this.#prompt(request, after(high), effort);
    while (low < high) {
      const middle = (low + high) >> 1;
      const prompt = await this.#prompt(request, after(middle), effort);
      if (prompt.tokens.length <= room) {
        best = prompt;
        high = middle;
      } else {
        low = middle + 1;
      }
    }
    return best;
  }

  /** How many groups have to go before the rest is worth rendering. */
  #firstHopeful(messages: readonly Message[], groups: readonly [from: number, to: number][]): number {
    let characters = charactersOf(messages);
    let turns = turnsOf(messages);
    let count = 0;
    while (count < groups.length && Math.max(this.#atLeast(characters), turns) >= this.contextWindow) {
      const [from, to] = groups[count++] as [number, number];
      const gone = messages.slice(from, to);
      characters -= charactersOf(gone);
      turns -= turnsOf(gone);
    }
    return count;
  }

  async #countClosing(): Promise<number> {
    if (this.markers === null) return 0;
    return (await this.engine.tokenize(closeText(this.markers), { addSpecial: false, parseSpecial: true, guard: 0 })).length;
  }

  async #prompt(request: GenerationRequest, messages: Message[], effort: ReasoningEffort): Promise<Prompt> {
    const thinking = request.reasoningBudget === null ? effort !== 'none' : request.reasoningBudget > 0;
    const { text, guard } = this.#writer.write(messages === request.messages ? request : { ...request, messages }, thinking);
    if (Buffer.byteLength(text) > MAX_PROMPT_BYTES) throw this.#tooLong(`more than ${this.contextWindow}`, request);
    const { bos } = this.engine.info;
    const tokens = await this.engine.tokenize(text, { addSpecial: bos === null || !text.startsWith(bos), parseSpecial: true, guard });
    const reasoning = this.markers === null ? null : openReasoning(text, this.markers, request.continueFinal);
    return { tokens, reasoning };
  }

  #submitOptions(request: GenerationRequest, effort: ReasoningEffort, prompt: Prompt, maxTokens: number, organization: number, closing: number): SubmitOptions {
    const { sampling } = request;
    const defaults = this.model.sampling;
    return {
      prompt: prompt.tokens,
      organization,
      n: request.n,
      maxTokens: Math.max(1, maxTokens),   // the engine generates something or nothing at all, not even the cache
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
      stopTokens: [],
      ignoreEos: request.ignoreEos,
      prefixCache: true,
      queueWaitMs: this.limits.queueWaitMs,
      generationMs: this.limits.maxGenerationMs,
      reasoning: this.markers === null ? null : {
        open: this.markers.open,
        close: this.markers.close,
        startsInside: prompt.reasoning !== null,
        continued: prompt.reasoning?.begun === true,
        budget: request.reasoningBudget ?? reasoningBudget(effort, maxTokens, closing),
        closeText: closeText(this.markers),
      },
      calls: callOptions(request, this.dialect.syntax),
    };
  }

  #start(options: SubmitOptions, rules: EventRules, onEvent: (event: GenerationEvent) => void, { promptParam }: GenerationRequest): RunningGeneration {
    const queueDrainMs = (): number => this.engine.queueDrainMs();
    const events = new RequestEvents(rules, this.#texts, onEvent, (choice) => generation.finish(choice), queueDrainMs);
    const generation = submitted(() => this.engine.generate(options, (event) => events.take(event)), promptParam, queueDrainMs);
    return generation;
  }
}

/** The client's text of messages, in characters. */
function charactersOf(messages: readonly Message[]): number {
  return messages.reduce((sum, { content }) => sum + textOf(content).length, 0);
}

/** Messages that cost at least a token each: templates mark where a turn begins. System messages may be merged. */
function turnsOf(messages: readonly Message[]): number {
  return messages.reduce((sum, { role }) => (role === 'system' ? sum : sum + 1), 0);
}

/** What the engine writes when the reasoning budget is used up. */
function closeText({ close }: ReasoningMarkers): string {
  return `\n${close}\n\n`;
}

/** The result of a submission; what it refuses is thrown as the client sees it. */
function submitted<T>(submit: () => T, promptParam: string, queueDrainMs: () => number): T {
  try {
    return submit();
  } catch (error) {
    throw submitFailure(error, promptParam, queueDrainMs);
  }
}

function submitFailure(error: unknown, promptParam: string, queueDrainMs: () => number): unknown {
  const code = error instanceof Error && 'code' in error ? error.code : undefined;
  switch (code) {
    case 'queue_full': return apiError('capacity_exhausted', 'The model\'s queue is full.', null, { retryAfterMs: queueDrainMs() });
    case 'too_long': return apiError('context_length_exceeded', messageOf(error), promptParam);
    case 'closed': return apiError('shutting_down', 'The server is shutting down.', null);
    // A value the parsers let through and the engine does not take is still the request's, not a failure.
    case 'invalid_argument': return apiError('invalid_value', `The engine refuses the request: ${messageOf(error)}.`, null);
    default: return error instanceof TypeError ? apiError('invalid_value', `The engine refuses the request: ${error.message}.`, null) : error;
  }
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
