// One model's way from a GenerationRequest to the engine: render the template, tokenize, fit the context,
// fix the sampling, submit, and turn engine events into generation events. One per loaded model; it holds
// no state of any request.
import { createHash, randomBytes } from 'node:crypto';
import { MAX_OUTPUT_TOKENS } from '../config/kinds.js';
import type { SubmitOptions } from '../engine/addon-types.js';
import type { CatalogModel } from '../engine/catalog.js';
import type { Engine } from '../engine/engine.js';
import { apiError, type ApiError } from '../errors.js';
import { shareOf } from '../shared/thread-count.js';
import { VERSION } from '../version.js';
import { CHATML_TEMPLATE, ChatTemplate } from './chat-template.js';
import { FairSlots } from './fair-slots.js';
import { compileGrammars, type GrammarSettings, type RequestGrammars } from './grammars.js';
import { PromptWriter } from './prompt-writer.js';
import { extentOf, LARGE_PARTS, withoutLargeParts, type Extent } from './prompt-extent.js';
import { closeText, findMarkers, openReasoning, reasoningBudget, type OpenReasoning, type ReasoningMarkers, withReasoningOpened } from './reasoning.js';
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
  grammar: GrammarSettings;
}

/** The addon tokenizes no longer text; far above what any context takes. */
const MAX_PROMPT_BYTES = 64 * 1024 * 1024;

/** Characters from which a prompt's length is estimated before anything is done with it. */
const HUGE_PROMPT = 1 << 20;

/** Characters from which a prompt has to wait for its turn to be rendered and tokenized. */
const LARGE_PROMPT = 1 << 16;
/** Characters of one organization that wait for that. */
const MAX_WAITING = shareOf(1 << 28);

/** Of the whole process, as far as threads can divide two. What is only counted holds up no generation. */
const preparing = new FairSlots(shareOf(2), 'long prompts', MAX_WAITING);
const counting = new FairSlots(shareOf(2), 'long prompts to count', MAX_WAITING);

/** Does work on so many characters on the account of who asks: it takes this thread's time. */
export type Charged = <T>(characters: number, work: () => T) => T;

/** A message costs the template about as much as so many characters, however short it is. */
const CHARACTERS_OF_A_MESSAGE = 32;

/** How a prompt is written. */
interface Writing { readonly effort: ReasoningEffort; readonly charged: Charged }

const uncharged: Charged = (_characters, work) => work();

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

  private readonly grammarSettings: GrammarSettings;

  /** Throws TemplateError if the model's chat template is unusable. */
  constructor(private readonly engine: Engine, private readonly model: CatalogModel, private readonly limits: GenerationLimits) {
    this.grammarSettings = { ...limits.grammar, whiteSpace: model.white_space ?? limits.grammar.whiteSpace };
    const { info } = engine;
    const source = info.chatTemplate ?? CHATML_TEMPLATE;
    this.template = new ChatTemplate(source, { bos: info.bos, eos: info.eos });
    this.markers = findMarkers(source, (spelling) => engine.findToken(spelling) !== -1);
    this.contextWindow = Math.min(engine.maxContext, model.context_window ?? Infinity);
    this.maxOutputTokens = Math.min(this.contextWindow - 1, model.max_output_tokens ?? MAX_OUTPUT_TOKENS);
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
   * Compiles what a checked request binds its answer to, renders and tokenizes it; nothing is reserved yet. Throws
   * ApiError: a schema is refused, the template refuses the messages, the prompt does not fit, too many long ones
   * wait (503); the signal's reason if it aborts before.
   */
  async prepare(request: GenerationRequest, organization: number, signal?: AbortSignal, charged = uncharged): Promise<PreparedGeneration> {
    const effort = this.#effort(request);
    const extent = extentOf(request);
    const atLeast = this.#atLeast(extent);
    if (request.truncation === 'disabled' && atLeast >= this.contextWindow) throw this.#tooLong(`at least ${atLeast}`, request);
    const grammars = await compileGrammars(this.engine, request, this.dialect.syntax, this.grammarSettings, { organization, signal });
    const prompt = await inTurn(preparing, extent, organization, signal, () => this.#fitted(request, { effort, charged }, extent));
    const promptTokens = prompt.tokens.length;
    if (promptTokens >= this.contextWindow) throw this.#tooLong(String(promptTokens), request);
    const maxTokens = Math.min(request.maxTokens ?? Infinity, this.maxOutputTokens, this.contextWindow - promptTokens);
    this.#closingTokens ??= await this.#countClosing();
    const options = this.#submitOptions(request, effort, prompt, grammars, maxTokens, organization, this.#closingTokens);
    const tools = callableTools(request);
    const rules: EventRules = {
      stop: request.stop,
      calls: tools.size === 0 || maxTokens === 0 ? null : { syntax: this.dialect.syntax, tools, parallel: request.parallelToolCalls, required: request.toolChoice.mode === 'required' },
    };
    return {
      promptTokens, maxTokens, n: request.n, leftOut: grammars.leftOut,
      start: (onEvent) => this.#start(options, rules, onEvent, request),
    };
  }

  /**
   * The prompt's tokens as prepare() would have them; a prompt that does not fit is counted too. Throws ApiError
   * 422, 503; the signal's reason if it aborts before.
   */
  async count(request: GenerationRequest, organization: number, signal?: AbortSignal, charged = uncharged): Promise<number> {
    const how: Writing = { effort: this.#effort(request), charged };
    const extent = extentOf(request);
    return inTurn(counting, extent, organization, signal, async () => {
      if (request.truncation === 'disabled') return this.#countWhole(request, how, extent);
      const least = shortest(request);
      const leastExtent = extentOf(least);
      if (this.#atLeast(leastExtent) >= this.contextWindow) return this.#countWhole(least, how, leastExtent);
      return (await this.#fitted(request, how, extent)).tokens.length;
    });
  }

  /** Definitions and arguments far longer than any context are counted as plain text: the template would take seconds over them. */
  async #countWhole(request: GenerationRequest, how: Writing, { parts }: Extent): Promise<number> {
    if (parts < LARGE_PARTS) return (await this.#prompt(request, request.messages, how)).tokens.length;
    const { rest, text } = withoutLargeParts(request);
    if (Buffer.byteLength(text) > MAX_PROMPT_BYTES) throw this.#tooLong(`more than ${this.contextWindow}`, request);
    const tokens = await this.engine.tokenize(text, { addSpecial: false, parseSpecial: false, guard: 0 });
    return tokens.length + (await this.#prompt(rest, rest.messages, how)).tokens.length;
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
   * Tokens that a prompt of this extent has at least: no token is longer than the vocabulary's longest, and
   * templates mark where a turn begins. So a text that cannot fit costs no rendering.
   */
  #atLeast({ characters, turns }: Pick<Extent, 'characters' | 'turns'>): number {
    if (characters < HUGE_PROMPT) return turns;
    if (this.#longestToken === null) {
      this.#longestToken = 1;
      for (let token = 0; token < this.engine.info.vocabulary; token++) {
        this.#longestToken = Math.max(this.#longestToken, this.engine.tokenBytes(token).length);
      }
    }
    return Math.max(turns, Math.ceil(characters / this.#longestToken));   // characters are at least one byte each
  }

  /** The prompt, without its oldest turns if it does not fit and may be shortened. */
  async #fitted(request: GenerationRequest, how: Writing, extent: Extent): Promise<Prompt> {
    if (request.truncation === 'disabled') return this.#prompt(request, request.messages, how);
    const whole = this.#atLeast(extent) >= this.contextWindow ? null : await this.#prompt(request, request.messages, how);
    return whole !== null && whole.tokens.length < this.contextWindow ? whole : this.#truncated(request, how, extent);
  }

  /** As few of the oldest turns left out as leave the answer some room. */
  async #truncated(request: GenerationRequest, how: Writing, extent: Extent): Promise<Prompt> {
    const { messages } = request;
    const groups = droppableGroups(messages);
    const after = (count: number): Message[] => withoutUpTo(messages, groups[count - 1]?.[1] ?? 0);
    const room = this.contextWindow - Math.max(1, Math.min(request.maxTokens ?? Infinity, Math.floor(this.contextWindow / 4)));
    // Between what cannot fit for its length alone and all that may go.
    let low = this.#firstHopeful(request, groups, extent);
    let high = groups.length;
    let best = await this.#prompt(request, after(high), how);
    while (low < high) {
      const middle = (low + high) >> 1;
      const prompt = await this.#prompt(request, after(middle), how);
      if (prompt.tokens.length <= room) {
        best = prompt;
        high = middle;
      } else {
        low = middle + 1;
      }
    }
    return best;
  }

  /** How many groups have to go before the rest is worth rendering. Throws ApiError if none of it is. */
  #firstHopeful(request: GenerationRequest, groups: readonly [from: number, to: number][], extent: Extent): number {
    let { characters, turns } = extent;
    for (let count = 0; ; count++) {
      const atLeast = this.#atLeast({ characters, turns });
      if (atLeast < this.contextWindow) return count;
      const group = groups[count];
      if (group === undefined) throw this.#tooLong(`at least ${atLeast}`, request);
      const gone = extentOf({ messages: request.messages.slice(...group), tools: [] });
      characters -= gone.characters;
      turns -= gone.turns;
    }
  }

  async #countClosing(): Promise<number> {
    if (this.markers === null) return 0;
    return (await this.engine.tokenize(closeText(this.markers), { addSpecial: false, parseSpecial: true, guard: 0 })).length;
  }

  async #prompt(request: GenerationRequest, messages: Message[], how: Writing): Promise<Prompt> {
    const thinking = request.reasoningBudget === null ? how.effort !== 'none' : request.reasoningBudget > 0;
    const written = messages === request.messages ? request : { ...request, messages };
    const { text: rendered, guard } = how.charged(extentOf(written).weight + CHARACTERS_OF_A_MESSAGE * messages.length, () => this.#writer.write(written, thinking));
    const text = request.continueFinal ? rendered : withReasoningOpened(rendered, this.markers);
    if (Buffer.byteLength(text) > MAX_PROMPT_BYTES) throw this.#tooLong(`more than ${this.contextWindow}`, request);
    const { bos } = this.engine.info;
    const tokens = await this.engine.tokenize(text, { addSpecial: bos === null || !text.startsWith(bos), parseSpecial: true, guard });
    const reasoning = this.markers === null ? null : openReasoning(text, this.markers, request.continueFinal);
    return { tokens, reasoning };
  }

  #submitOptions(request: GenerationRequest, effort: ReasoningEffort, prompt: Prompt, grammars: RequestGrammars, maxTokens: number, organization: number, closing: number): SubmitOptions {
    const { sampling } = request;
    const defaults = this.model.sampling;
    return {
      prompt: prompt.tokens,
      organization,
      n: request.n,
      maxTokens,
      output: maxTokens > 0 ? 'tokens' : 'nothing',
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
      calls: callOptions(request, this.dialect.syntax, grammars.calls),
      // An answer that must be a call has no other text.
      format: request.toolChoice.mode === 'required' ? null : grammars.format,
    };
  }

  #start(options: SubmitOptions, rules: EventRules, onEvent: (event: GenerationEvent) => void, { promptParam }: GenerationRequest): RunningGeneration {
    const queueDrainMs = (): number => this.engine.queueDrainMs();
    const events = new RequestEvents(rules, this.#texts, onEvent, (choice) => generation.finish(choice), queueDrainMs);
    const generation = submitted(() => this.engine.generate(options, (event) => events.take(event)), promptParam, queueDrainMs);
    return generation;
  }
}

/** Long prompts wait for their turn; short ones cost too little for that. */
function inTurn<T>(slots: FairSlots, { weight }: Extent, organization: number, signal: AbortSignal | undefined, work: () => Promise<T>): Promise<T> {
  return weight < LARGE_PROMPT ? work() : slots.run({ organization, signal }, weight, work);
}

/** What is left of a request that may be shortened when all has gone that may go. */
function shortest(request: GenerationRequest): GenerationRequest {
  const { messages } = request;
  return { ...request, messages: withoutUpTo(messages, droppableGroups(messages).at(-1)?.[1] ?? 0) };
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
