// Converts the engine events of one request to generation events: adds the text of log-probability tokens, separates
// tool calls from text, and reports stop strings as text. Event-loop thread only.
import type { EngineEvent, FinishedEvent, TextEvent } from '../../engine/events.js';
import type { TokenTexts } from './token-texts.js';
import { ChoiceEvents, type CallRules } from './tools/choice-events.js';
import { MessageParts, type MessageMarks } from './message-parts.js';
import type { GenerationEvent, PredictionCount, TokenLogprob } from '../types.js';

/** The parts of a request that affect its events. */
export interface EventRules {
  readonly stop: readonly string[];
  /** Set for models whose responses consist of several messages. */
  readonly messages: { readonly marks: MessageMarks; readonly inReasoning: boolean } | null;
  /** The label that the model writes at the start of the reasoning and that is removed; null if there is none. */
  readonly label: string | null;
  /** Null if no tool can be called. */
  readonly calls: CallRules | null;
  /** Number of tokens in the prediction. Null if the request has no prediction or the engine does not use it. */
  readonly predicted: number | null;
  /** Parameters that have no effect on this engine. */
  readonly ignored: readonly string[];
}

export class RequestEvents {
  readonly #choices = new Map<number, ChoiceEvents>();
  readonly #parts = new Map<number, PartsOfChoice>();

  /** `end`: asks the engine to end a choice before its next step. */
  constructor(
    private readonly rules: EventRules,
    private readonly texts: TokenTexts,
    private readonly emit: (event: GenerationEvent) => void,
    private readonly end: (choice: number) => void,
    private readonly queueDrainMs: () => number,
  ) {}

  take(event: EngineEvent): void {
    switch (event.type) {
      case 'started':
        this.emit({
          type: 'started',
          promptTokens: event.promptTokens,
          cachedTokens: event.cachedTokens,
          queueMs: event.queueMs,
          ...(event.towerMs > 0 ? { towerMs: event.towerMs } : {}),
          ...(this.rules.ignored.length > 0 ? { ignored: this.rules.ignored } : {}),
        });
        return;
      case 'prompt':
        this.emit({
          type: 'prompt',
          first: event.first,
          logprobs: event.logprobs.map((entry) => this.texts.ofPrompt(entry)),
        });
        return;
      case 'tokens':
        this.emit(event);
        return;
      case 'text':
        this.#text(event);
        return;
      case 'vector': // only for Engine.embed(), whose requests do not come through here
        return;
      case 'finished':
        this.#finished(event);
        return;
      case 'failed':
        this.emit({
          type: 'failed',
          code: event.code,
          message: event.message,
          ...(event.code === 'queue_timeout' ? { retryAfterMs: this.queueDrainMs() } : {}),
        });
    }
  }

  #text(event: TextEvent): void {
    if (this.rules.messages === null && this.rules.label === null) return this.#onText(event);
    this.#partsOf(event.choice).text(event);
  }

  #partsOf(choice: number): PartsOfChoice {
    let parts = this.#parts.get(choice);
    if (parts === undefined)
      this.#parts.set(choice, (parts = new PartsOfChoice(this.rules, (event) => this.#onText(event))));
    return parts;
  }

  #onText(event: TextEvent): void {
    const { choice, section, text, tokens } = event;
    const logprobs: TokenLogprob[] | null =
      event.logprobs === null ? null : event.logprobs.map((entry) => this.texts.withText(entry));
    if (this.rules.calls !== null) this.#choice(choice, this.rules.calls).text(event, logprobs);
    else
      this.emit({
        type: 'text',
        choice,
        section: section === 'reasoning' ? section : 'content',
        text,
        tokens,
        logprobs,
      });
  }

  #finished(event: FinishedEvent): void {
    this.#parts.get(event.choice)?.end();
    const { stop, calls } = this.rules;
    const stopString = stop[event.stopIndex] ?? null;
    if (calls !== null) {
      this.#choice(event.choice, calls).finished(event, stopString, predictionOf(event, this.rules));
      return;
    }
    const { choice, reason, completionTokens, reasoningTokens, prefillMs, decodeMs } = event;
    this.emit({
      type: 'finished',
      choice,
      reason,
      stopString,
      completionTokens,
      reasoningTokens,
      calls: 0,
      timings: { prefillMs, decodeMs },
      ...predictionOf(event, this.rules),
    });
  }

  #choice(choice: number, calls: CallRules): ChoiceEvents {
    let events = this.#choices.get(choice);
    if (events === undefined)
      this.#choices.set(choice, (events = new ChoiceEvents(choice, calls, this.emit, () => this.end(choice))));
    return events;
  }
}

function predictionOf(
  { predictedTokens: accepted }: FinishedEvent,
  { predicted }: EventRules,
): { prediction?: PredictionCount } {
  return predicted === null ? {} : { prediction: { accepted, rejected: predicted - accepted } };
}

/**
 * Splits the engine's text further: by message headers, and without the label of the reasoning. The tokens and
 * log-probabilities of an event are emitted with the first section that its text yields, or with the next text.
 */
class PartsOfChoice {
  readonly #messages: MessageParts | null;
  readonly #label: ReasoningLabel | null;
  #event: TextEvent | null = null; // the latest event
  #tokens = 0;
  #logprobs: NonNullable<TextEvent['logprobs']> = [];

  constructor(
    { messages, label, calls }: EventRules,
    private readonly emit: (event: TextEvent) => void,
  ) {
    this.#messages =
      messages === null
        ? null
        : new MessageParts(messages.marks, messages.inReasoning, calls !== null, (section, text) =>
            this.#emit(section, text),
          );
    this.#label = label === null ? null : new ReasoningLabel(label, (text) => this.#emit('reasoning', text));
  }

  text(event: TextEvent): void {
    this.#event = event;
    this.#tokens += event.tokens;
    if (event.logprobs !== null) this.#logprobs.push(...event.logprobs);
    if (this.#messages !== null) this.#messages.push(event.section, event.text);
    else if (this.#label !== null && event.section === 'reasoning') this.#label.push(event.text);
    else this.#emit(event.section, event.text);
  }

  end(): void {
    this.#messages?.end();
  }

  #emit(section: TextEvent['section'], text: string): void {
    const event = this.#event as TextEvent;
    const logprobs = section !== 'content' ? null : event.logprobs === null ? null : this.#logprobs;
    const tokens = this.#tokens;
    this.#tokens = 0;
    this.#logprobs = [];
    this.emit({ ...event, section, text, tokens, logprobs });
  }
}

/**
 * Removes the label after an open marker, such as "thought" in Gemma 4. The label names the section and is not part of
 * its text. Text arrives in chunks, and the result does not depend on where it is split. One instance per choice.
 */
export class ReasoningLabel {
  #held: string | null = ''; // null: everything that follows is reasoning

  constructor(
    private readonly label: string,
    private readonly emit: (text: string) => void,
  ) {}

  push(text: string): void {
    if (this.#held === null) return this.emit(text);
    this.#held += text;
    const begun = this.#held.trimStart();
    if (begun.length < this.label.length && this.label.startsWith(begun)) return;
    const rest = begun.startsWith(this.label) ? begun.slice(this.label.length) : null;
    // If more letters follow the label directly, it is part of a longer word and belongs to the reasoning. Line breaks
    // after the label are dropped.
    if (rest !== null && rest.trimStart() === '') return;
    const visible = rest !== null && /^\s/.test(rest) ? rest.trimStart() : this.#held;
    this.#held = null;
    this.emit(visible);
  }
}
