// Converts an upstream's response, in any order, to generation events in the required order: `started` first, one tool
// call at a time, and `finished` events last, once the usage is known. Event-loop thread only.
import { performance } from 'node:perf_hooks';
import { GrowingText } from '../../shared/growing-text.js';
import { isDeeper, MAX_CALL_DEPTH } from '../../shared/json-depth.js';
import { stringifyExact } from '../../shared/exact-json.js';
import type { EndReason, GenerationEvent, JsonSchema, TokenLogprob } from '../types.js';
import { notUnderstood, tooMuch } from './fault.js';

/** Usage as reported by the upstream. Unreported values are undefined. */
export interface ReportedUsage {
  promptTokens?: number | undefined;
  cachedTokens?: number | undefined;
  completionTokens?: number | undefined;
  reasoningTokens?: number | undefined;
  acceptedPrediction?: number | undefined;
  rejectedPrediction?: number | undefined;
}

export interface AnswerOptions {
  readonly n: number;
  readonly stop: readonly string[];
  /** Maximum number of tool calls. Further calls are dropped. */
  readonly maxCalls: number;
  readonly estimatedPrompt: number;
  /**
   * The output limit sent for each choice, and the upstream's context size. Null if there is no limit or the size is
   * unknown.
   */
  readonly cap: number | null;
  readonly context: number | null;
  /** Maximum number of UTF-8 bytes in one choice's text and arguments. */
  readonly maxTextBytes: number;
  /** Whether log probabilities were requested. Otherwise, they are dropped. */
  readonly logprobs: boolean;
  /** Whether to keep the content until the end, to check it against the format. */
  readonly keepsContent: boolean;
}

/** Maximum bytes of text and arguments in one choice: a fixed part plus 64 bytes per token of its limit. */
const FIXED_TEXT_BYTES = 65_536,
  TOKEN_TEXT_BYTES = 64;
export const maxTextBytes = (maxTokens: number): number => FIXED_TEXT_BYTES + TOKEN_TEXT_BYTES * maxTokens;

interface Choice {
  /** UTF-8 bytes of text and arguments. */
  bytes: number;
  tokens: number;
  reasoningTokens: number;
  /**
   * Number of characters in total and in reasoning. If the upstream reports only a total token count, it is divided in
   * the proportion of these numbers.
   */
  characters: number;
  reasoningCharacters: number;
  calls: number;
  complete: number;
  malformed: boolean;
  /** The upstream's key for the open call; undefined if no call is open. */
  open: string | number | undefined;
  arguments: GrowingText;
  /** Whether any arguments were emitted. Until some were, the arguments may still turn out to be `null`. */
  given: boolean;
  /** Whether the open call and all later calls are dropped. */
  dropped: boolean;
  end: { reason: EndReason; stopString: string | null; stopSequenceUnknown: boolean } | null;
}

/**
 * More tokens than fit in any context. Higher counts are ignored, because they would permanently corrupt counters and
 * tables.
 */
const MAX_TOKENS = 2 ** 24;
/** Maximum number of tool calls per choice. */
const MAX_CALLS = 1_024;
/** Memory is reserved in steps of this many bytes. */
const RESERVED_BYTES = 65_536;

interface AnswerSink {
  emit(event: GenerationEvent): void;
  /** Called when output has arrived. */
  onToken(): void;
  /** Called when all events have been emitted. */
  onOver(): void;
  /** Reserves this many more bytes. Throws ApiError 503 or 422. */
  reserve(bytes: number): void;
}

export class AnswerEvents {
  readonly #choices: Choice[];
  readonly #usage: ReportedUsage = {};
  readonly #sentAt = performance.now();
  #firstAt = 0;
  #unreserved = 0; // bytes that are kept but not reserved yet
  #started = false;
  #over = false;

  /** `queueMs`: time spent in the queue before the request was sent. */
  constructor(
    private readonly facts: AnswerOptions,
    private readonly queueMs: number,
    private readonly sink: AnswerSink,
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

  /** The stop strings of the request. */
  get stop(): readonly string[] {
    return this.facts.stop;
  }

  /** Whether output has been emitted. If so, the request can no longer be retried. */
  get started(): boolean {
    return this.#started;
  }

  /** Whether all events have been emitted. */
  get over(): boolean {
    return this.#over;
  }

  /** Whether the choice has ended. Some upstreams report the end twice. */
  hasEnded(index: number): boolean {
    return this.#over || this.#choices[index]?.end != null;
  }

  /** Whether the choice has neither text nor a tool call so far. */
  isEmpty(index: number): boolean {
    return this.#choices[index]?.bytes === 0;
  }

  text(index: number, section: 'content' | 'reasoning', text: string, reported: TokenLogprob[] | null = null): void {
    const logprobs = this.facts.logprobs && reported !== null && reported.length > 0 ? reported : null;
    if (text === '' && logprobs === null) return;
    const choice = this.#running(index);
    this.#take(choice, text, section === 'content' && this.facts.keepsContent);
    this.#begin();
    this.#closeCall(index, choice, true);
    const tokens = reported?.length || 1;
    choice.tokens += tokens;
    choice.characters += text.length;
    if (section === 'reasoning') {
      choice.reasoningTokens += tokens;
      choice.reasoningCharacters += text.length;
    }
    this.sink.emit({ type: 'text', choice: index, section, text, tokens, logprobs });
  }

  /** `block`: the upstream's own block for the reasoning that has just ended, or for reasoning without text. */
  thought(index: number, block: JsonSchema): void {
    const choice = this.#running(index);
    this.#take(choice, stringifyExact(block), true);
    this.#begin();
    this.#closeCall(index, choice, true);
    this.sink.emit({ type: 'thought', choice: index, block });
  }

  /** `key`: the upstream's identifier for the call. A known key continues that call. */
  call(index: number, key: string | number, name: string): void {
    const choice = this.#running(index);
    if (choice.open === key && !choice.dropped) return;
    if (name === '') throw notUnderstood('with a tool call without a name');
    if (choice.calls >= MAX_CALLS) throw notUnderstood(`with more than ${MAX_CALLS} tool calls`);
    this.#take(choice, name, false);
    this.#begin();
    this.#closeCall(index, choice, true);
    choice.open = key;
    choice.characters += name.length;
    choice.dropped = choice.calls >= this.facts.maxCalls;
    if (!choice.dropped)
      this.sink.emit({ type: 'call_started', choice: index, index: choice.calls++, name, tokens: 0 });
  }

  callArguments(index: number, key: string | number, text: string): void {
    const choice = this.#running(index);
    if (choice.open !== key) throw notUnderstood('with arguments of a tool call that is not open');
    if (text === '') return;
    this.#take(choice, text, true);
    this.#begin();
    choice.tokens++;
    choice.characters += text.length;
    if (choice.dropped) return;
    choice.arguments.add(text);
    if (choice.given) {
      this.sink.emit({ type: 'call_arguments', choice: index, index: choice.calls - 1, text, tokens: 1 });
      return;
    }
    const soFar = choice.arguments.toString();
    if (mayBeNull(soFar)) return;
    choice.given = true;
    this.sink.emit({ type: 'call_arguments', choice: index, index: choice.calls - 1, text: soFar, tokens: 1 });
  }

  /**
   * Ends a choice. `stopString`: the stop string that ended it; undefined if the upstream does not report whether a
   * stop string did.
   */
  ended(index: number, reason: EndReason, stopString?: string | null): void {
    const choice = this.#running(index);
    const natural = reason === 'end_of_turn' || reason === 'tool_calls' || reason === 'stop_string';
    this.#begin();
    this.#closeCall(index, choice, natural);
    const reported: EndReason = choice.malformed
      ? 'malformed_call'
      : natural && choice.complete > 0
        ? 'tool_calls'
        : reason === 'tool_calls'
          ? 'end_of_turn'
          : reason;
    choice.end = {
      reason: reported,
      stopString: reported === 'stop_string' ? (stopString ?? null) : null,
      stopSequenceUnknown: reported === 'end_of_turn' && stopString === undefined,
    };
  }

  /** Later values replace earlier ones. Impossible values are ignored. */
  usage(reported: ReportedUsage): void {
    for (const [name, value] of Object.entries(reported) as [keyof ReportedUsage, unknown][]) {
      if (typeof value === 'number' && Number.isSafeInteger(value) && value >= 0 && value <= MAX_TOKENS * this.facts.n)
        this.#usage[name] = value;
    }
  }

  /** Called at the end of the response. Throws UpstreamFault if a choice is unfinished. */
  finish(): void {
    if (this.#choices.some(({ end }) => end === null)) throw notUnderstood('without an end reason');
    this.#finish();
  }

  /** Marks the response as ended. Any further data is ignored. */
  cut(reason: EndReason): void {
    if (this.#over) return;
    for (const [index, choice] of this.#choices.entries()) if (choice.end === null) this.ended(index, reason);
    this.#finish();
  }

  #finish(): void {
    if (this.#over) return;
    this.#over = true;
    const { completionTokens: reported, promptTokens, cachedTokens, reasoningTokens: reportedReasoning } = this.#usage;
    const { acceptedPrediction: accepted, rejectedPrediction: rejected = 0 } = this.#usage;
    const sumOf = (of: (choice: Choice) => number): number =>
      this.#choices.reduce((sum, choice) => sum + of(choice), 0);
    const characters = sumOf((choice) => choice.characters),
      reasoningCharacters = sumOf((choice) => choice.reasoningCharacters);
    const total = reported ?? sumOf((choice) => choice.tokens);
    const totalReasoning =
      reportedReasoning ??
      (reported === undefined
        ? sumOf((choice) => choice.reasoningTokens)
        : characters === 0
          ? 0
          : Math.round((reported * reasoningCharacters) / characters));
    const tokens = shares(
      this.#choices.map((choice) => (reported === undefined ? choice.tokens : choice.characters)),
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
      estimated: reported === undefined || promptTokens === undefined,
    };
    const full =
      reported !== undefined && promptTokens !== undefined && this.#isFull(promptTokens + reported, reported);
    const now = performance.now();
    const timings = { prefillMs: this.#firstAt - this.#sentAt, decodeMs: now - this.#firstAt };
    for (const [choice, { end, calls }] of this.#choices.entries()) {
      const { reason, stopString, stopSequenceUnknown } = end ?? {
        reason: 'end_of_turn',
        stopString: null,
        stopSequenceUnknown: true,
      };
      this.sink.emit({
        type: 'finished',
        choice,
        reason: reason === 'max_tokens' && full ? 'context_full' : reason,
        stopString,
        ...(stopSequenceUnknown ? { stopSequenceUnknown } : {}),
        completionTokens: tokens[choice] ?? 0,
        reasoningTokens: Math.min(tokens[choice] ?? 0, reasoning[choice] ?? 0),
        calls,
        timings,
        // The totals of all choices.
        ...(choice === 0 && accepted !== undefined ? { prediction: { accepted, rejected } } : {}),
        counted,
      });
    }
    this.sink.onOver();
  }

  /**
   * Distinguishes between reaching the output limit and reaching the end of the context. Most formats use the same end
   * reason for both.
   */
  #isFull(used: number, completion: number): boolean {
    const { n, cap, context } = this.facts;
    return n === 1 && context !== null && used >= context && (cap === null || completion < cap);
  }

  #running(index: number): Choice {
    const choice = this.#choices[index];
    if (choice === undefined) throw notUnderstood('with a choice that was not requested');
    if (choice.end !== null || this.#over) throw notUnderstood('with more data after the end');
    this.sink.onToken();
    return choice;
  }

  /** Throws UpstreamFault if a choice has more text than its limit allows. */
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
    this.sink.reserve(this.#unreserved);
    this.#unreserved = 0;
  }

  #begin(): void {
    if (this.#started) return;
    this.#started = true;
    this.#firstAt = performance.now();
    const { promptTokens, cachedTokens } = this.#usage;
    const prompt = promptTokens ?? this.facts.estimatedPrompt;
    this.sink.emit({
      type: 'started',
      promptTokens: prompt,
      cachedTokens: Math.min(prompt, cachedTokens ?? 0),
      queueMs: this.queueMs,
    });
  }

  /** `whole`: the call was not cut off, so its text must be complete arguments. */
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
      this.sink.emit({ type: 'call_arguments', choice: index, index: choice.calls - 1, text: rest, tokens: 0 });
    if (isNone && whole) emit('{}');
    else if (!isNone && !wasGiven) emit(text); // the text began like null but continued differently
    const complete = (whole && isNone) || isObject(text);
    if (complete) choice.complete++;
    else choice.malformed ||= whole;
    this.sink.emit({ type: 'call_finished', choice: index, index: choice.calls - 1, complete, tokens: 0 });
  }
}

/** For a call without arguments, some upstreams send empty text or null. */
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

/** Divides `total` into integers in proportion to `weights`. If all weights are 0, the first share is the total. */
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
