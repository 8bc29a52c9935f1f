// What a server elsewhere says of its answer, in whatever order its format has, as our events in the order they must have:
// `started` before all, one call at a time, ends last, when it is known what was used. Event-loop thread only.
import { performance } from 'node:perf_hooks';
import { GrowingText } from '../../shared/growing-text.js';
import { isDeeper, MAX_CALL_DEPTH } from '../../shared/json-depth.js';
import type { EndReason, GenerationEvent, TokenLogprob } from '../types.js';
import { notUnderstood, tooMuch } from './fault.js';

/** As a server tells it; what it does not tell is undefined. */
export interface ToldUsage {
  promptTokens?: number | undefined;
  cachedTokens?: number | undefined;
  completionTokens?: number | undefined;
  reasoningTokens?: number | undefined;
}

export interface AnswerFacts {
  readonly n: number;
  readonly stop: readonly string[];
  /** Calls that may be told; further ones are dropped. */
  readonly maxCalls: number;
  readonly estimatedPrompt: number;
  /** What each choice was told as its cap, and the context as far as it is known; null: none. */
  readonly cap: number | null;
  readonly context: number | null;
  /** UTF-8 bytes that the text and the arguments of one choice may take. */
  readonly maxTextBytes: number;
  /** Log-probabilities were asked for. Others are dropped. */
  readonly logprobs: boolean;
  /** The content is kept until it ends, to be checked against the format. */
  readonly keepsContent: boolean;
}

/** Text and arguments of one choice: a fixed part, and 64 bytes for each token of its cap. */
const FIXED_TEXT_BYTES = 65_536,
  TOKEN_TEXT_BYTES = 64;
export const maxTextBytes = (maxTokens: number): number => FIXED_TEXT_BYTES + TOKEN_TEXT_BYTES * maxTokens;

interface Choice {
  /** UTF-8 bytes of text and arguments. */
  bytes: number;
  tokens: number;
  reasoningTokens: number;
  /** Of everything, and of reasoning: by these shares are told where only a sum is. */
  characters: number;
  reasoningCharacters: number;
  calls: number;
  complete: number;
  malformed: boolean;
  /** The server's name of the open call; undefined: none is open. */
  open: string | number | undefined;
  arguments: GrowingText;
  /** Arguments were emitted; until they are, they may still be `null`. */
  given: boolean;
  /** The open call, and those after it, are not emitted. */
  dropped: boolean;
  end: { reason: EndReason; stopString: string | null; stopUnsaid: boolean } | null;
}

/** More tokens than any context holds: whoever tells that many has told nothing. Counters and tables must not be filled by it for ever. */
const MOST_TOKENS = 2 ** 24;
/** Of one choice. */
const MOST_CALLS = 1_024;
/** Step size of memory reservations, in bytes. */
const RESERVED_BYTES = 65_536;

export class AnswerEvents {
  readonly #choices: Choice[];
  readonly #usage: ToldUsage = {};
  readonly #sentAt = performance.now();
  #firstAt = 0;
  #unreserved = 0; // bytes kept that are not reserved yet
  #begun = false;
  #over = false;

  /** `emit` takes the events; `queueMs`: how long it has waited before it was sent; `onToken`: something of the answer has come; `onOver`: all of it was emitted; `reserve`: reserves this many more bytes; throws ApiError 503, 422. */
  constructor(
    private readonly facts: AnswerFacts,
    private readonly queueMs: number,
    private readonly emit: (event: GenerationEvent) => void,
    private readonly onToken: () => void,
    private readonly onOver: () => void,
    private readonly reserve: (bytes: number) => void,
  ) {
    this.#choices = Array.from({ length: facts.n }, () => ({
      bytes: 0,
      tokens: 0,
      reasoningTokens: 0,
      characters: 0,
      reasoningCharacters: 0,
      calls: 0,
      complete: 0,
      malformed: false,
      open: undefined,
      arguments: new GrowingText(),
      given: false,
      dropped: false,
      end: null,
    }));
  }

  /** Strings that end it. */
  get stop(): readonly string[] {
    return this.facts.stop;
  }

  /** Something was told: it cannot begin again. */
  get begun(): boolean {
    return this.#begun;
  }

  /** All was told. */
  get over(): boolean {
    return this.#over;
  }

  /** The choice has ended: a server that says so twice has said it. */
  hasEnded(index: number): boolean {
    return this.#over || this.#choices[index]?.end != null;
  }

  /** Neither text nor a call of the choice has come. */
  isEmpty(index: number): boolean {
    return this.#choices[index]?.bytes === 0;
  }

  text(index: number, section: 'content' | 'reasoning', text: string, told: TokenLogprob[] | null = null): void {
    const logprobs = this.facts.logprobs && told !== null && told.length > 0 ? told : null;
    if (text === '' && logprobs === null) return;
    const choice = this.#running(index);
    this.#take(choice, text, section === 'content' && this.facts.keepsContent);
    this.#begin();
    this.#closeCall(index, choice, true);
    const tokens = told?.length || 1;
    choice.tokens += tokens;
    choice.characters += text.length;
    if (section === 'reasoning') {
      choice.reasoningTokens += tokens;
      choice.reasoningCharacters += text.length;
    }
    this.emit({ type: 'text', choice: index, section, text, tokens, logprobs });
  }

  /** `key`: what the server calls it; one it has seen goes on. */
  call(index: number, key: string | number, name: string): void {
    const choice = this.#running(index);
    if (choice.open === key && !choice.dropped) return;
    if (name === '') throw notUnderstood('with a call of no tool');
    if (choice.calls >= MOST_CALLS) throw notUnderstood(`with more than ${MOST_CALLS} calls`);
    this.#take(choice, name, false);
    this.#begin();
    this.#closeCall(index, choice, true);
    choice.open = key;
    choice.characters += name.length;
    choice.dropped = choice.calls >= this.facts.maxCalls;
    if (!choice.dropped) this.emit({ type: 'call_started', choice: index, index: choice.calls++, name, tokens: 0 });
  }

  callArguments(index: number, key: string | number, text: string): void {
    const choice = this.#running(index);
    if (choice.open !== key) throw notUnderstood('with arguments of a call that is not open');
    if (text === '') return;
    this.#take(choice, text, true);
    this.#begin();
    choice.tokens++;
    choice.characters += text.length;
    if (choice.dropped) return;
    choice.arguments.add(text);
    if (choice.given) {
      this.emit({ type: 'call_arguments', choice: index, index: choice.calls - 1, text, tokens: 1 });
      return;
    }
    const soFar = choice.arguments.toString();
    if (mayBeNull(soFar)) return;
    choice.given = true;
    this.emit({ type: 'call_arguments', choice: index, index: choice.calls - 1, text: soFar, tokens: 1 });
  }

  /** The last that is said of a choice. `stopString`: which of them ended it; undefined: nothing is said of that. */
  ended(index: number, reason: EndReason, stopString?: string | null): void {
    const choice = this.#running(index);
    const natural = reason === 'end_of_turn' || reason === 'tool_calls' || reason === 'stop_string';
    this.#begin();
    this.#closeCall(index, choice, natural);
    const told: EndReason = choice.malformed
      ? 'malformed_call'
      : natural && choice.complete > 0
        ? 'tool_calls'
        : reason === 'tool_calls'
          ? 'end_of_turn'
          : reason;
    choice.end = {
      reason: told,
      stopString: told === 'stop_string' ? (stopString ?? null) : null,
      stopUnsaid: told === 'end_of_turn' && stopString === undefined,
    };
  }

  /** What is told again takes the place of what was told before; what cannot be is left out. */
  usage(told: ToldUsage): void {
    for (const [name, value] of Object.entries(told) as [keyof ToldUsage, unknown][]) {
      if (typeof value === 'number' && Number.isSafeInteger(value) && value >= 0 && value <= MOST_TOKENS * this.facts.n)
        this.#usage[name] = value;
    }
  }

  /** Everything has been said. Throws UpstreamFault if a choice has not ended. */
  finish(): void {
    if (this.#choices.some(({ end }) => end === null)) throw notUnderstood('without an end');
    this.#finish();
  }

  /** It ends here, whatever is still to come. */
  cut(reason: EndReason): void {
    if (this.#over) return;
    for (const [index, choice] of this.#choices.entries()) if (choice.end === null) this.ended(index, reason);
    this.#finish();
  }

  #finish(): void {
    if (this.#over) return;
    this.#over = true;
    const { completionTokens: told, promptTokens, cachedTokens, reasoningTokens: toldReasoning } = this.#usage;
    const sumOf = (of: (choice: Choice) => number): number =>
      this.#choices.reduce((sum, choice) => sum + of(choice), 0);
    const characters = sumOf((choice) => choice.characters),
      reasoningCharacters = sumOf((choice) => choice.reasoningCharacters);
    const total = told ?? sumOf((choice) => choice.tokens);
    const totalReasoning =
      toldReasoning ??
      (told === undefined
        ? sumOf((choice) => choice.reasoningTokens)
        : characters === 0
          ? 0
          : Math.round((told * reasoningCharacters) / characters));
    const tokens = shares(
      this.#choices.map((choice) => (told === undefined ? choice.tokens : choice.characters)),
      total,
    );
    const reasoning = shares(
      this.#choices.map((choice) => choice.reasoningCharacters),
      Math.min(total, totalReasoning),
    );
    const prompt = promptTokens ?? this.facts.estimatedPrompt;
    const counted = {
      promptTokens: prompt,
      cachedTokens: Math.min(prompt, cachedTokens ?? 0),
      estimated: told === undefined || promptTokens === undefined,
    };
    const full = told !== undefined && promptTokens !== undefined && this.#isFull(promptTokens + told, told);
    const now = performance.now();
    const timings = { prefillMs: this.#firstAt - this.#sentAt, decodeMs: now - this.#firstAt };
    for (const [choice, { end, calls }] of this.#choices.entries()) {
      const { reason, stopString, stopUnsaid } = end ?? { reason: 'end_of_turn', stopString: null, stopUnsaid: true };
      this.emit({
        type: 'finished',
        choice,
        reason: reason === 'max_tokens' && full ? 'context_full' : reason,
        stopString,
        ...(stopUnsaid ? { stopUnsaid } : {}),
        completionTokens: tokens[choice] ?? 0,
        reasoningTokens: Math.min(tokens[choice] ?? 0, reasoning[choice] ?? 0),
        calls,
        timings,
        counted,
      });
    }
    this.onOver();
  }

  /** Most formats have one word for an answer that reached its cap and for one that reached the end of the context. */
  #isFull(used: number, completion: number): boolean {
    const { n, cap, context } = this.facts;
    return n === 1 && context !== null && used >= context && (cap === null || completion < cap);
  }

  #running(index: number): Choice {
    const choice = this.#choices[index];
    if (choice === undefined) throw notUnderstood('with a choice that was not asked for');
    if (choice.end !== null || this.#over) throw notUnderstood('more than its end');
    this.onToken();
    return choice;
  }

  /** Throws UpstreamFault once a choice has more text than its cap allows. */
  #take(choice: Choice, text: string, isKept: boolean): void {
    const bytes = Buffer.byteLength(text);
    choice.bytes += bytes;
    const { maxTextBytes: most } = this.facts;
    if (choice.bytes > most)
      throw tooMuch(
        `The upstream returned more text than the maximum number of tokens allows: over ${most} bytes in one choice.`,
      );
    if (!isKept) return;
    this.#unreserved += bytes;
    if (this.#unreserved < RESERVED_BYTES) return;
    this.reserve(this.#unreserved);
    this.#unreserved = 0;
  }

  #begin(): void {
    if (this.#begun) return;
    this.#begun = true;
    this.#firstAt = performance.now();
    const { promptTokens, cachedTokens } = this.#usage;
    const prompt = promptTokens ?? this.facts.estimatedPrompt;
    this.emit({
      type: 'started',
      promptTokens: prompt,
      cachedTokens: Math.min(prompt, cachedTokens ?? 0),
      queueMs: this.queueMs,
    });
  }

  /** `whole`: nothing has cut it off, so what it has must be its arguments. */
  #closeCall(index: number, choice: Choice, whole: boolean): void {
    if (choice.open === undefined) return;
    choice.open = undefined;
    const text = choice.arguments.toString(),
      wasGiven = choice.given;
    choice.arguments = new GrowingText();
    choice.given = false;
    if (choice.dropped) return;
    const isNone = wasGiven ? text.trim() === '' : /^\s*(null\s*)?$/.test(text);
    const emit = (rest: string): void =>
      this.emit({ type: 'call_arguments', choice: index, index: choice.calls - 1, text: rest, tokens: 0 });
    if (isNone && whole) emit('{}');
    else if (!isNone && !wasGiven) emit(text); // a beginning of null that went on otherwise
    const complete = (whole && isNone) || isObject(text);
    if (complete) choice.complete++;
    else choice.malformed ||= whole;
    this.emit({ type: 'call_finished', choice: index, index: choice.calls - 1, complete, tokens: 0 });
  }
}

/** Servers write the arguments of a call without any as nothing, or as null. */
const mayBeNull = (text: string): boolean => text.length < MAX_BLANK && /^\s*(n(u(l(l\s*)?)?)?)?$/.test(text);
const MAX_BLANK = 64;

function isObject(text: string): boolean {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === 'object' && value !== null && !Array.isArray(value) && !isDeeper(value, MAX_CALL_DEPTH);
  } catch {
    return false;
  }
}

/** `total` in whole numbers, in proportion to `weights`; without any, all is the first one's. */
function shares(weights: readonly number[], total: number): number[] {
  const sum = weights.reduce((all, one) => all + one, 0);
  let left = total,
    weightLeft = sum;
  return weights.map((weight, index) => {
    const share = weightLeft === 0 ? (index === 0 ? left : 0) : Math.round((left * weight) / weightLeft);
    left -= share;
    weightLeft -= weight;
    return share;
  });
}
