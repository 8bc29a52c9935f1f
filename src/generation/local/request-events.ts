// One request's engine events as generation events: spellings beside logprobs, tool calls told from text,
// stop strings by their wording. Event-loop thread only.
import type { EngineEvent, FinishedEvent, TextEvent } from '../../engine/events.js';
import type { TokenTexts } from './token-texts.js';
import { ChoiceEvents, type CallRules } from './tools/choice-events.js';
import type { GenerationEvent, TokenLogprob } from '../types.js';

/** What of a request its events depend on. */
export interface EventRules {
  readonly stop: readonly string[];
  /** Null if no tool can be called. */
  readonly calls: CallRules | null;
}

export class RequestEvents {
  readonly #choices = new Map<number, ChoiceEvents>();

  /** `end` asks the engine to end a choice before its next step. */
  constructor(
    private readonly rules: EventRules, private readonly texts: TokenTexts,
    private readonly emit: (event: GenerationEvent) => void, private readonly end: (choice: number) => void,
    private readonly queueDrainMs: () => number,
  ) {}

  take(event: EngineEvent): void {
    switch (event.type) {
      case 'started':
        this.emit({ type: 'started', promptTokens: event.promptTokens, cachedTokens: event.cachedTokens, queueMs: event.queueMs });
        return;
      case 'text':
        this.#text(event);
        return;
      case 'finished':
        this.#finished(event);
        return;
      case 'failed':
        this.emit({ type: 'failed', code: event.code, message: event.message, ...(event.code === 'queue_timeout' ? { retryAfterMs: this.queueDrainMs() } : {}) });
    }
  }

  #text(event: TextEvent): void {
    const { choice, section, text, tokens } = event;
    const logprobs: TokenLogprob[] | null = event.logprobs === null ? null : event.logprobs.map((entry) => this.texts.withText(entry));
    if (this.rules.calls !== null) this.#choice(choice, this.rules.calls).text(event, logprobs);
    else this.emit({ type: 'text', choice, section: section === 'reasoning' ? section : 'content', text, tokens, logprobs });
  }

  #finished(event: FinishedEvent): void {
    const { stop, calls } = this.rules;
    const stopString = stop[event.stopIndex] ?? null;
    if (calls !== null) {
      this.#choice(event.choice, calls).finished(event, stopString);
      return;
    }
    const { choice, reason, completionTokens, reasoningTokens, prefillMs, decodeMs } = event;
    this.emit({ type: 'finished', choice, reason, stopString, completionTokens, reasoningTokens, calls: 0, timings: { prefillMs, decodeMs } });
  }

  #choice(choice: number, calls: CallRules): ChoiceEvents {
    let events = this.#choices.get(choice);
    if (events === undefined) this.#choices.set(choice, (events = new ChoiceEvents(choice, calls, this.emit, () => this.end(choice))));
    return events;
  }
}
