// One model's way from a GenerationRequest to the engine: render the template, tokenize, fit the context,
// fix the sampling, submit, and turn engine events into generation events. One per loaded model; it holds
// no state of any request.
import { createHash, randomBytes } from 'node:crypto';
import type { SubmitOptions } from '../engine/addon-types.js';
import type { CatalogModel } from '../engine/catalog.js';
import type { Engine } from '../engine/engine.js';
import type { EngineEvent } from '../engine/events.js';
import { ApiError, apiError } from '../errors.js';
import { VERSION } from '../version.js';
import { CHATML_TEMPLATE, ChatTemplate, TemplateError } from './chat-template.js';
import { clientTexts, fitToTemplate, textOf, toTemplateMessages } from './conversation.js';
import { findMarkers, reasoningBudget, startsInside, type ReasoningMarkers } from './reasoning.js';
import { Shield, startersOf, type Starters } from './shield.js';
import { TokenTexts } from './token-texts.js';
import type {
  GenerationEvent, GenerationRequest, Message, PreparedGeneration, ReasoningEffort, RunningGeneration,
} from './types.js';

/** Limits that are the operator's, not the model's. */
export interface GenerationLimits {
  queueWaitMs: number;
  maxGenerationMs: number;
}

/** The addon tokenizes no longer text; far above what any context takes. */
const MAX_PROMPT_BYTES = 64 * 1024 * 1024;

/** Characters from which a prompt's length is estimated before anything is done with it. */
const HUGE_PROMPT = 1 << 20;

interface Prompt { tokens: Int32Array; inside: boolean }

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
  readonly #starters: Starters | null;
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
    this.#starters = startersOf(info.specialTokens);
    this.#texts = new TokenTexts(engine);
    const identity = [VERSION, engine.fileHash, engine.backend.name, engine.backend.isa].join('\n');
    this.fingerprint = `fp_${createHash('sha256').update(identity).digest('hex').slice(0, 10)}`;
  }

  /** What can be refused before images are fetched and text is rendered. Throws ApiError 422. */
  check(request: GenerationRequest): void {
    if (this.model.image_input === 'note') return;
    for (const { content } of request.messages) {
      if (typeof content !== 'object' || content === null) continue;
      for (const part of content) {
        if (part.type === 'image') throw apiError('unsupported_content', `${part.path}: ${this.model.id} takes text only, not images.`, part.path);
      }
    }
  }

  /**
   * Renders and tokenizes; nothing is reserved yet. Throws ApiError: the template refuses the messages,
   * the prompt does not fit, a logit_bias key is no token.
   */
  async prepare(request: GenerationRequest, organization: number): Promise<PreparedGeneration> {
    for (const { token } of request.sampling.logitBias ?? []) {
      if (token >= this.engine.info.vocabulary) {
        throw apiError('invalid_value', `logit_bias: ${token} is not a token of this model.`, 'logit_bias');
      }
    }
    this.#refuseHopeless(request.messages);
    const effort = this.#effort(request);
    const prompt = await this.#prompt(request, effort);
    const promptTokens = prompt.tokens.length;
    if (promptTokens >= this.contextWindow) throw this.#tooLong(String(promptTokens));
    const maxTokens = Math.min(request.maxTokens ?? Infinity, this.maxOutputTokens, this.contextWindow - promptTokens);
    this.#closingTokens ??= await this.#countClosing();
    const options = this.#submitOptions(request, effort, prompt, maxTokens, organization, this.#closingTokens);
    return {
      promptTokens, maxTokens, n: request.n,
      start: (onEvent) => this.#start(options, onEvent),
    };
  }

  /** Both wordings that clients' recovery code looks for. */
  #tooLong(tokens: string): ApiError {
    return apiError('context_length_exceeded',
      `prompt is too long: ${tokens} tokens > ${this.contextWindow - 1} maximum. ` +
      `This model's maximum context length is ${this.contextWindow} tokens.`, 'messages');
  }

  #effort(request: GenerationRequest): ReasoningEffort {
    const fallback = this.model.default_effort;
    if (request.effort === 'enabled') return fallback === 'none' ? 'medium' : fallback;
    return request.effort ?? fallback;
  }

  /** A text so long that it could not fit if every token of it were the vocabulary's longest costs no rendering. */
  #refuseHopeless(messages: readonly Message[]): void {
    let characters = 0;
    for (const { content } of messages) characters += textOf(content).length;
    if (characters < HUGE_PROMPT) return;
    if (this.#longestToken === null) {
      this.#longestToken = 1;
      for (let token = 0; token < this.engine.info.vocabulary; token++) {
        this.#longestToken = Math.max(this.#longestToken, this.engine.tokenBytes(token).length);
      }
    }
    const atLeast = Math.ceil(characters / this.#longestToken);   // characters are at least one byte each
    if (atLeast >= this.contextWindow) throw this.#tooLong(`at least ${atLeast}`);
  }

  async #countClosing(): Promise<number> {
    if (this.markers === null) return 0;
    return (await this.engine.tokenize(closeText(this.markers), { addSpecial: false, parseSpecial: true, guard: 0 })).length;
  }

  async #prompt(request: GenerationRequest, effort: ReasoningEffort): Promise<Prompt> {
    const shield = Shield.for(clientTexts(request.messages), this.#starters);
    if (shield === null) throw apiError('invalid_value', 'messages use every private-use character; at least one must be left free.', 'messages');
    const can = this.template.capabilities;
    const messages = toTemplateMessages(fitToTemplate(request.messages, can), shield, can);
    // A continued answer is found again by a mark no text can contain: a guard follows only a starter.
    const mark = String.fromCodePoint(shield.guard, shield.guard);
    const last = messages.at(-1);
    if (request.continueFinal && last !== undefined) last.content += mark;

    let rendered: string;
    try {
      rendered = this.template.render({ messages, addGenerationPrompt: !request.continueFinal, enableThinking: effort !== 'none' });
    } catch (error) {
      if (error instanceof TemplateError) throw this.#templateRefusal(request.messages, error);
      throw error;
    }
    if (request.continueFinal) {
      const end = rendered.lastIndexOf(mark);
      if (end === -1) throw apiError('unsupported_value', "continue_final_message: the model's chat template drops the last message.", 'continue_final_message');
      rendered = rendered.slice(0, end);
    }
    if (Buffer.byteLength(rendered) > MAX_PROMPT_BYTES) throw this.#tooLong(`more than ${this.contextWindow}`);
    const { bos } = this.engine.info;
    const tokens = await this.engine.tokenize(rendered, {
      addSpecial: bos === null || !rendered.startsWith(bos), parseSpecial: true, guard: shield.guard,
    });
    const inside = this.markers !== null && startsInside(rendered, this.markers, request.continueFinal);
    return { tokens, inside };
  }

  /** Names the first message at which the template gives up, by rendering ever longer beginnings. */
  #templateRefusal(messages: readonly Message[], error: TemplateError): ApiError {
    let at = messages.length - 1;
    for (let length = 1; !error.timedOut && length < Math.min(messages.length, 64); length++) {
      try {
        this.template.render({
          messages: fitToTemplate(messages.slice(0, length), this.template.capabilities).map(({ role, content }) => ({ role, content: textOf(content) })),
          addGenerationPrompt: true, enableThinking: false,
        });
      } catch {
        at = length - 1;
        break;
      }
    }
    const role = messages[at]?.role ?? 'unknown';
    return apiError('invalid_value',
      `The model's chat template refuses messages[${at}] (role ${role}): ${error.message.slice(0, 200)}`, `messages[${at}]`);
  }

  #submitOptions(request: GenerationRequest, effort: ReasoningEffort, prompt: Prompt, maxTokens: number, organization: number, closing: number): SubmitOptions {
    const { sampling } = request;
    const defaults = this.model.sampling;
    return {
      prompt: prompt.tokens,
      organization,
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
      stopTokens: [],
      ignoreEos: request.ignoreEos,
      prefixCache: true,
      queueWaitMs: this.limits.queueWaitMs,
      generationMs: this.limits.maxGenerationMs,
      reasoning: this.markers === null ? null : {
        open: this.markers.open,
        close: this.markers.close,
        startsInside: prompt.inside,
        budget: reasoningBudget(effort, maxTokens, closing),
        closeText: closeText(this.markers),
      },
    };
  }

  #start(options: SubmitOptions, onEvent: (event: GenerationEvent) => void): RunningGeneration {
    try {
      return this.engine.generate(options, (event) => onEvent(this.#translate(event, options)));
    } catch (error) {
      throw submitFailure(error);
    }
  }

  #translate(event: EngineEvent, options: SubmitOptions): GenerationEvent {
    switch (event.type) {
      case 'started':
        return { type: 'started', promptTokens: event.promptTokens, cachedTokens: event.cachedTokens, queueMs: event.queueMs };
      case 'text':
        return {
          type: 'text', choice: event.choice, section: event.section, text: event.text, tokens: event.tokens,
          logprobs: event.logprobs === null ? null : event.logprobs.map((entry) => this.#texts.withText(entry)),
        };
      case 'finished':
        return {
          type: 'finished', choice: event.choice, reason: event.reason,
          stopString: options.stop[event.stopIndex] ?? null,
          completionTokens: event.completionTokens, reasoningTokens: event.reasoningTokens, calls: 0,
          timings: { prefillMs: event.prefillMs, decodeMs: event.decodeMs },
        };
      case 'failed':
        return { type: 'failed', code: event.code, message: event.message };
    }
  }
}

/** What the engine writes when the reasoning budget is used up. */
function closeText({ close }: ReasoningMarkers): string {
  return `\n${close}\n\n`;
}

/** What submit() refuses, as the client sees it. */
function submitFailure(error: unknown): unknown {
  const code = error instanceof Error && 'code' in error ? error.code : undefined;
  switch (code) {
    case 'queue_full': return apiError('capacity_exhausted', 'The model\'s queue is full.', null);
    case 'too_long': return apiError('context_length_exceeded', messageOf(error), 'messages');
    case 'closed': return apiError('shutting_down', 'The server is shutting down.', null);
    // A value the parsers let through and the engine does not take is still the request's, not a failure.
    case 'invalid_argument': return apiError('invalid_value', `The engine refuses the request: ${messageOf(error)}.`, null);
    default: return error instanceof TypeError ? apiError('invalid_value', `The engine refuses the request: ${error.message}.`, null) : error;
  }
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
