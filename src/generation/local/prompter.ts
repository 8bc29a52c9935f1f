// Builds a request's prompt tokens for one model: renders the template, tokenizes the text and fits it into the
// context. One instance per loaded model; has no per-request state.
import type { CatalogModel } from '../../engine/catalog.js';
import type { Engine } from '../../engine/engine.js';
import { apiError, type ApiError } from '../../shared/errors.js';
import { promptTooLongText } from '../../shared/matched-texts.js';
import { shareOf } from '../../shared/thread-count.js';
import { FairSlots } from '../fair-slots.js';
import type { Charged, RequestContext, TemplateProblem } from '../provider.js';
import type { GenerationRequest, ImagePart, Message, ReasoningEffort } from '../types.js';
import { CHATML_TEMPLATE, ChatTemplate } from './template/chat-template.js';
import type { PromptImages } from './prompt-images.js';
import { PromptWriter, type PromptReasoning, type PromptStyle } from './prompt-writer.js';
import { RawPrompts } from './raw-prompt.js';
import { promptSizeOf, LARGE_PARTS, withoutLargeParts, type PromptSize } from './prompt-size.js';
import {
  closeText,
  findMarkers,
  openReasoning,
  type OpenReasoning,
  reasoningBudget,
  type ReasoningMarkers,
  withReasoningOpened,
} from './reasoning.js';
import { startersOf } from './shield.js';
import { callableTools } from './tools/call-options.js';
import { findDialect, type ToolDialect } from './tools/dialect.js';
import { withRecipient } from './tools/functionary.js';
import { TemplateError } from './template/limits.js';
import { droppableGroups, withoutUpTo } from './truncate.js';
import { keyOfCallId, reasoningKey } from '../replay/replay-item.js';
import type { ReplaySource } from '../replay/replays.js';
import type { ReplayedItems } from './replay/replay-marks.js';

/** Maximum text that the addon tokenizes, far more than fits in any context. */
const MAX_PROMPT_BYTES = 64 * 1024 * 1024;

/** The length of a prompt with at least this many characters is estimated before any other processing. */
const HUGE_PROMPT = 1 << 20;

/** A prompt with at least this many characters is queued before it is rendered and tokenized. */
const LARGE_PROMPT = 1 << 16;
/** Maximum total number of characters of one organization's prompts in that queue. */
const MAX_WAITING = shareOf(1 << 28);

/**
 * The whole process has two slots for building prompts and two for counting tokens. They are divided among its threads.
 * Counting has separate slots, so that it cannot delay generations.
 */
const preparing = new FairSlots(shareOf(2), 'long prompts', MAX_WAITING);
const counting = new FairSlots(shareOf(2), 'long prompts to count', MAX_WAITING);

/** Fixed cost of rendering a message, in characters. */
const CHARACTERS_OF_A_MESSAGE = 32;

/** Options for building a prompt. */
interface Writing extends PromptStyle {
  readonly charged: Charged;
}

const uncharged: Charged = (_characters, work) => work();

/** A request's prompt, ready for the model. */
export interface Prompt {
  /** Tokens of the prompt's text. */
  readonly tokens: Int32Array;
  /** The prompt's images. Each one precedes the text token at index `at`. */
  readonly images: readonly { readonly at: number; readonly part: ImagePart }[];
  /** Number of tokens, including image tokens. */
  readonly length: number;
  /** Size in bytes of the template's generation prompt, with which the text ends. */
  readonly endBytes: number;
  readonly reasoning: OpenReasoning | null;
  /** The rendered text after the last image. If there are no images, this is the whole prompt. */
  readonly text: string;
  /**
   * The tool calls and reasoning blocks in the prompt that consist of the token IDs that the model generated. A tool
   * call is named by its ID, a reasoning block by its path in the request.
   */
  readonly replayed: readonly string[];
}

/**
 * The tokens of the prompt's texts. `places`: the token index of each image, that is, the end of each text except the
 * last one.
 */
interface Tokenized {
  readonly tokens: Int32Array;
  readonly places: number[];
}

export class Prompter {
  readonly template: ChatTemplate;
  /** What is wrong with the model's chat template, if it cannot be used at all or only without tools. */
  readonly templateProblem: TemplateProblem | null;
  /** The delimiters of the model's reasoning; null if it has no reasoning mode. */
  readonly markers: ReasoningMarkers | null;
  /** The model's tool-call syntax. */
  readonly dialect: ToolDialect;
  /** Maximum length of prompt and output together, in tokens. */
  readonly contextWindow: number;
  readonly raw: RawPrompts;
  private readonly replays: ReplaySource | null;
  readonly #weights: string;
  readonly #writer: PromptWriter;
  #longestToken: number | null = null; // in bytes; computed at the first huge prompt
  #closingTokens: number | null = null; // computed at the first request
  #endTokenCount: number | null = null; // computed at the first request
  #specials: ReadonlySet<number> | null = null; // IDs of special tokens; computed at the first replay

  /**
   * `images`: null if the model has no vision encoder. `replays`: finds the token IDs of earlier tool calls and
   * reasoning blocks; null if they are always tokenized from their text. `weights`: identifies the weights; only token
   * IDs generated by a model with the same weights are used.
   */
  constructor(
    private readonly engine: Engine,
    private readonly model: CatalogModel,
    private readonly images: Pick<PromptImages, 'tokensOf'> | null,
    { replays = null, weights = engine.fileHash }: { replays?: ReplaySource | null; weights?: string } = {},
  ) {
    this.replays = replays;
    this.#weights = weights;
    const { info } = engine;
    const source = info.chatTemplate ?? CHATML_TEMPLATE;
    const hasToken = (spelling: string): boolean => engine.findToken(spelling) !== -1;
    const { template, problem } = templateOf(source, info);
    this.template = template;
    this.templateProblem = problem;
    this.markers = findMarkers(source, hasToken);
    this.dialect = findDialect(this.template, hasToken);
    this.contextWindow = Math.min(engine.maxContext, model.context_window ?? Infinity);
    this.raw = new RawPrompts(engine, model.id);
    this.#writer = new PromptWriter(
      this.template,
      this.dialect,
      this.markers,
      startersOf(info.specialTokens),
      images !== null,
    );
  }

  /** Throws ApiError 400 if a request's length alone shows that it cannot fit. */
  checkLength(request: GenerationRequest, size: PromptSize): void {
    const atLeast = this.#atLeast(size);
    if (request.truncation === 'disabled' && atLeast >= this.contextWindow)
      throw this.#tooLong(`at least ${atLeast}`, request);
  }

  /**
   * Returns the prompt. If it does not fit and truncation is allowed, the oldest turns are dropped. Throws ApiError if
   * the template rejects the messages, the prompt does not fit, or the queue of long prompts is full (503). Throws the
   * signal's reason if the signal is aborted.
   */
  async prompt(request: GenerationRequest, size: PromptSize, context: RequestContext): Promise<Prompt> {
    const prompt = await enqueue(preparing, size, context, async () =>
      this.#fitted(request, await this.#writing(request, context), size),
    );
    if (prompt.length >= this.contextWindow) throw this.#tooLong(String(prompt.length), request);
    return prompt;
  }

  /**
   * Returns the token count of the prompt that prompt() would build, even if it does not fit. Throws ApiError 422, 503,
   * or the signal's reason.
   */
  async count(request: GenerationRequest, context: RequestContext): Promise<Pick<Prompt, 'length' | 'replayed'>> {
    const size = promptSizeOf(request);
    return enqueue(counting, size, context, async () => {
      const how = await this.#writing(request, context);
      if (request.truncation === 'disabled') return this.#countWhole(request, how, size);
      const least = shortest(request);
      const minSize = promptSizeOf(least);
      if (this.#atLeast(minSize) >= this.contextWindow) return this.#countWhole(least, how, minSize);
      return this.#fitted(request, how, size);
    });
  }

  /**
   * Returns the tokens of the prediction, the text that the response probably repeats. Throws ApiError 422 if it is
   * too long.
   */
  async predicted(text: string, context: RequestContext): Promise<Int32Array> {
    const fits = this.#atLeast({ characters: text.length, turns: 0 }) <= this.contextWindow;
    const tokens =
      fits && Buffer.byteLength(text) <= MAX_PROMPT_BYTES
        ? await enqueue(preparing, { weight: text.length }, context, () =>
            this.engine.tokenize(text, { addSpecial: false, parseSpecial: false, guard: 0 }),
          )
        : null;
    if (tokens !== null && tokens.length <= this.contextWindow) return tokens;
    throw apiError(
      'string_too_long',
      `prediction.content does not fit in the context window of ${this.contextWindow} tokens.`,
      'prediction.content',
    );
  }

  /** Number of tokens that the engine inserts to end the reasoning. */
  async closingTokens(): Promise<number> {
    return (this.#closingTokens ??= await this.#countClosing());
  }

  effort(request: GenerationRequest): ReasoningEffort {
    const fallback = this.model.default_effort;
    if (request.effort === 'enabled') return fallback === 'none' ? 'medium' : fallback;
    return request.effort ?? fallback;
  }

  async #writing(request: GenerationRequest, context: RequestContext): Promise<Writing> {
    const thinking = await this.#thinks(request);
    const { charged = uncharged } = context;
    return {
      thinking,
      effort: this.#effortWord(request, thinking),
      charged,
      replays: await this.#replaysOf(request, context),
    };
  }

  /**
   * Finds the recorded token IDs of the request's earlier tool calls and reasoning blocks, by key. Returns undefined if
   * none are recorded.
   */
  async #replaysOf(
    { messages, raw }: GenerationRequest,
    { organizationId, charged = uncharged }: RequestContext,
  ): Promise<ReadonlyMap<string, Int32Array> | undefined> {
    if (this.replays === null || organizationId === undefined || raw !== undefined) return undefined;
    let characters = 0;
    const reasoning: { readonly at: number; readonly text: string }[] = [];
    const keys: string[] = [];
    // Starts with the newest messages, because the number of lookups is limited and truncation drops the oldest
    // messages.
    for (const message of messages.toReversed()) {
      if (message.role !== 'assistant') continue;
      for (const { id } of message.toolCalls ?? []) {
        const key = keyOfCallId(id);
        if (key !== null) keys.push(key);
      }
      if (this.markers === null || message.reasoning === undefined || message.reasoning === '') continue;
      const at = keys.push('') - 1;
      reasoning.push({ at, text: message.reasoning });
      characters += message.reasoning.length;
    }
    if (keys.length === 0) return undefined;
    if (reasoning.length > 0)
      charged(characters, () => {
        for (const { at, text } of reasoning) keys[at] = reasoningKey(text);
      });
    const limits = { maxTokens: this.contextWindow, charged };
    const found = await this.replays.find({ organizationId, model: this.#weights, keys }, limits);
    return found.size === 0 ? undefined : found;
  }

  /**
   * The template's word for the effort. A request without an effort gets the template's default, unless the operator
   * has configured a default other than `medium` or `none`.
   */
  #effortWord({ effort, promptEffort }: GenerationRequest, thinking: boolean): string | undefined {
    const { efforts } = this.template;
    if (promptEffort !== undefined) return efforts.word(promptEffort);
    if (!thinking) return efforts.word('none');
    const configured = this.model.default_effort;
    const usual = configured === 'none' || configured === 'medium';
    if (effort === null || effort === 'enabled' || effort === 'none')
      return usual ? efforts.standard : efforts.word(configured);
    return efforts.word(effort);
  }

  /**
   * Whether the prompt lets the model reason. It does not if the output cap leaves no tokens for reasoning, because the
   * model would then have to respond without the requested reasoning. A request with an output cap of 0 gets the same
   * prompt as the requests that will follow it.
   */
  async #thinks(request: GenerationRequest): Promise<boolean> {
    if (request.reasoningBudget !== null) return request.reasoningBudget > 0;
    const cap = Math.min(request.maxTokens || Infinity, this.model.max_output_tokens ?? Infinity);
    return reasoningBudget(this.effort(request), cap, await this.closingTokens()) > 0;
  }

  /**
   * Counts the prompt's tokens. Definitions and arguments that are far longer than any context are counted as plain
   * text, because rendering them would take seconds.
   */
  async #countWhole(
    request: GenerationRequest,
    how: Writing,
    { parts }: PromptSize,
  ): Promise<Pick<Prompt, 'length' | 'replayed'>> {
    if (parts < LARGE_PARTS) return this.#prompt(request, request.messages, how);
    const { rest, text } = withoutLargeParts(request);
    if (Buffer.byteLength(text) > MAX_PROMPT_BYTES) throw this.#tooLong(`more than ${this.contextWindow}`, request);
    const tokens = await this.engine.tokenize(text, { addSpecial: false, parseSpecial: false, guard: 0 });
    const { length, replayed } = await this.#prompt(rest, rest.messages, how);
    return { length: tokens.length + length, replayed };
  }

  #tooLong(tokens: string, { promptParam }: Pick<GenerationRequest, 'promptParam'>): ApiError {
    return apiError('context_length_exceeded', promptTooLongText(tokens, this.contextWindow), promptParam);
  }

  /**
   * Lower bound on the number of tokens for this prompt size, so that a text that cannot fit is never rendered. No
   * token is longer than the vocabulary's longest token, and templates mark the start of each turn.
   */
  #atLeast({ characters, turns }: Pick<PromptSize, 'characters' | 'turns'>): number {
    if (characters < HUGE_PROMPT) return turns;
    if (this.#longestToken === null) {
      this.#longestToken = 1;
      for (let token = 0; token < this.engine.info.vocabulary; token++) {
        this.#longestToken = Math.max(this.#longestToken, this.engine.tokenBytes(token).length);
      }
    }
    return Math.max(turns, Math.ceil(characters / this.#longestToken)); // a character has at least one byte
  }

  async #fitted(request: GenerationRequest, how: Writing, size: PromptSize): Promise<Prompt> {
    if (request.raw !== undefined) {
      const tokens = await this.raw.tokens(request.raw);
      return { tokens, images: [], length: tokens.length, endBytes: 0, reasoning: null, text: '', replayed: [] };
    }
    if (request.truncation === 'disabled') return this.#prompt(request, request.messages, how);
    const whole = this.#atLeast(size) >= this.contextWindow ? null : await this.#prompt(request, request.messages, how);
    return whole !== null && whole.length < this.contextWindow ? whole : this.#truncated(request, how, size);
  }

  /** Drops as few of the oldest turns as needed to leave room for the response. */
  async #truncated(request: GenerationRequest, how: Writing, size: PromptSize): Promise<Prompt> {
    const { messages } = request;
    const groups = droppableGroups(messages);
    const after = (count: number): Message[] => withoutUpTo(messages, groups[count - 1]?.[1] ?? 0);
    const room =
      this.contextWindow - Math.max(1, Math.min(request.maxTokens ?? Infinity, Math.floor(this.contextWindow / 4)));
    // Binary search for the number of groups to drop, between the lower bound that the lengths imply and the number of
    // all droppable groups.
    let low = this.#firstHopeful(request, groups, size);
    let high = groups.length;
    let best = await this.#prompt(request, after(high), how);
    while (low < high) {
      const middle = (low + high) >> 1;
      const prompt = await this.#prompt(request, after(middle), how);
      if (prompt.length <= room) {
        best = prompt;
        high = middle;
      } else {
        low = middle + 1;
      }
    }
    return best;
  }

  /**
   * Returns how many groups must be dropped before the remaining prompt may fit and is worth rendering. Throws ApiError
   * if even the shortest form cannot fit.
   */
  #firstHopeful(request: GenerationRequest, groups: readonly [from: number, to: number][], size: PromptSize): number {
    let { characters, turns } = size;
    for (let count = 0; ; count++) {
      const atLeast = this.#atLeast({ characters, turns });
      if (atLeast < this.contextWindow) return count;
      const group = groups[count];
      if (group === undefined) throw this.#tooLong(`at least ${atLeast}`, request);
      const gone = promptSizeOf({ messages: request.messages.slice(...group), tools: [] });
      characters -= gone.characters;
      turns -= gone.turns;
    }
  }

  /** Number of tokens that the vocabulary appends to a text. */
  async #endTokens(): Promise<number> {
    this.#endTokenCount ??= await this.#countEnd();
    return this.#endTokenCount;
  }

  async #countEnd(): Promise<number> {
    const around = await this.engine.tokenize('', { addSpecial: true, parseSpecial: true, guard: 0 });
    const { bos } = this.engine.info;
    return around.length - (bos !== null && around[0] === this.engine.findToken(bos) ? 1 : 0);
  }

  async #countClosing(): Promise<number> {
    if (this.markers === null) return 0;
    return (await this.engine.tokenize(closeText(this.markers), { addSpecial: false, parseSpecial: true, guard: 0 }))
      .length;
  }

  async #prompt(request: GenerationRequest, messages: Message[], how: Writing): Promise<Prompt> {
    if (this.templateProblem?.unusable === true)
      throw apiError(
        'model_unavailable',
        `${this.model.id} has an unusable chat template and only serves /v1/completions: ${this.templateProblem.reason}.`,
      );
    const written = messages === request.messages ? request : { ...request, messages };
    const {
      text: rendered,
      texts,
      images: parts,
      guard,
      replayed,
    } = how.charged(promptSizeOf(written).weight + CHARACTERS_OF_A_MESSAGE * messages.length, () =>
      this.#writer.write(written, how, (ids) => this.#decode(ids)),
    );
    const mayCall = callableTools(request).size > 0;
    const beginning = (end: string): string =>
      request.continueFinal ? end : withRecipient(withReasoningOpened(end, this.markers), this.dialect.syntax, mayCall);
    const last = texts.at(-1)!;
    const begun = beginning(last);
    const text = rendered.slice(0, rendered.length - last.length) + begun;
    if (Buffer.byteLength(text) > MAX_PROMPT_BYTES) throw this.#tooLong(`more than ${this.contextWindow}`, request);
    const items = replayed?.items ?? [];
    const spliced =
      replayed === null
        ? null
        : await this.#tokenize([...replayed.texts.slice(0, -1), beginning(replayed.texts.at(-1)!)], guard, items);
    const { tokens, places } = spliced ?? (await this.#tokenize([...texts.slice(0, -1), begun], guard, []))!;
    const images = parts.map((part, index) => ({ at: places[index]!, part }));
    const length = parts.reduce((sum, part) => sum + (this.images?.tokensOf(part) ?? 0), tokens.length);
    const reasoning = this.markers === null ? null : openReasoning(text, this.markers, request.continueFinal);
    const endBytes = request.continueFinal ? 0 : Buffer.byteLength(begun.slice(this.#endOf(last, how)));
    return {
      tokens,
      images,
      length,
      endBytes,
      reasoning,
      text: begun,
      replayed: spliced === null ? [] : items.map(({ name }) => name),
    };
  }

  /** Index of the first token of the generation prompt. */
  #endOf(text: string, { thinking, effort }: PromptReasoning): number {
    const prompt = this.template.generationPrompt(thinking, effort);
    return text.endsWith(prompt) ? text.length - prompt.length : text.length;
  }

  /** Detokenizes recorded token IDs. Returns '' if an ID is not in the vocabulary. */
  #decode(ids: Int32Array): string {
    const { vocabulary } = this.engine.info;
    return ids.every((id) => id < vocabulary) ? this.engine.detokenize(ids) : '';
  }

  /**
   * Tokenizes the texts between images separately. BOS is added once at the very beginning. In each text, the marks of
   * replayed tool calls and reasoning blocks are replaced by the recorded token IDs. Returns null if the text after
   * such an item cannot be tokenized on its own.
   */
  async #tokenize(texts: readonly string[], guard: number, items: ReplayedItems): Promise<Tokenized | null> {
    const { bos } = this.engine.info;
    const pieces: Int32Array[] = [];
    const places: number[] = [];
    let length = 0;
    const add = (piece: Int32Array): void => {
      pieces.push(piece);
      length += piece.length;
    };
    for (const [index, text] of texts.entries()) {
      const addSpecial = index === 0 && (bos === null || !text.startsWith(bos));
      const [first = '', ...others] = items.length === 0 ? [text] : partsAround(text, guard);
      add(await this.#tokensOf(first, addSpecial, guard));
      for (let at = 0; at < others.length; at += 2) {
        const { ids } = items[Number(others[at])]!;
        const after = others[at + 1]!;
        const piece = await this.#tokensOf(after, false, guard);
        if (!this.#follows(ids, after, piece)) return null;
        add(ids);
        add(piece);
      }
      places.push(length);
    }
    places.pop();
    const [only] = pieces;
    if (pieces.length === 1 && only !== undefined) return { tokens: only, places };
    const tokens = new Int32Array(length);
    let at = 0;
    for (const piece of pieces) {
      tokens.set(piece, at);
      at += piece.length;
    }
    return { tokens, places };
  }

  async #tokensOf(text: string, addSpecial: boolean, guard: number): Promise<Int32Array> {
    if (text === '' && !addSpecial) return new Int32Array();
    const tokens = await this.engine.tokenize(text, { addSpecial, parseSpecial: true, guard });
    // Some vocabularies append an end token (such as EOS) to every text. It is removed, because the response follows
    // the prompt.
    const ends = addSpecial ? await this.#endTokens() : 0;
    return ends === 0 ? tokens : tokens.slice(0, -ends);
  }

  /**
   * Whether `piece`, the tokens of `text`, may follow the tokens `before`. Some vocabularies add a space to the start
   * of every text, which is correct only after a special token.
   */
  #follows(before: Int32Array, text: string, piece: Int32Array): boolean {
    const first = piece[0];
    if (first === undefined) return true;
    this.#specials ??= new Set(this.engine.info.specialTokens.map((spelling) => this.engine.findToken(spelling)));
    if (this.#specials.has(first) || this.#specials.has(before.at(-1) as number)) return true;
    return this.engine.tokenBytes(first)[0] === Buffer.from(text.slice(0, 2))[0];
  }
}

/**
 * Splits a text at the marks of replayed items. Returns the text before the first mark, then for each mark the item's
 * number and the text after the mark.
 */
const partsAround = (text: string, guard: number): string[] => {
  const character = String.fromCodePoint(guard);
  return text.split(new RegExp(`${character}{2}s(\\d+)${character}`, 'u'));
};

/** Returns the model's template, or ChatML if the model's template cannot be used. */
function templateOf(
  source: string,
  { bos, eos }: { bos: string | null; eos: string | null },
): { template: ChatTemplate; problem: TemplateProblem | null } {
  try {
    const template = new ChatTemplate(source, { bos, eos });
    const reason = template.toolProblem;
    return { template, problem: reason === null ? null : { reason, unusable: false } };
  } catch (error) {
    if (!(error instanceof TemplateError)) throw error;
    const reason = source.trim() === '' ? 'it is empty' : error.message;
    return { template: new ChatTemplate(CHATML_TEMPLATE, { bos, eos }), problem: { reason, unusable: true } };
  }
}

/** Queues long prompts. Short prompts cost too little to be queued. */
function enqueue<T>(
  slots: FairSlots,
  { weight }: Pick<PromptSize, 'weight'>,
  context: RequestContext,
  work: () => Promise<T>,
): Promise<T> {
  return weight < LARGE_PROMPT ? work() : slots.run(context, weight, work);
}

/** Returns the request without all droppable turns. */
function shortest(request: GenerationRequest): GenerationRequest {
  const { messages } = request;
  return { ...request, messages: withoutUpTo(messages, droppableGroups(messages).at(-1)?.[1] ?? 0) };
}
