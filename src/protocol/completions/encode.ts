// Generation events → the completions wire form, whole and streamed. Pure: one PromptAnswer per prompt is told the events in
// order; a wrong order throws (event-order.ts).
import type { GenerationEvent, PromptLogprob, SpelledToken } from '../../generation/types.js';
import { EventOrder, type ChoiceEvent } from '../chat-completions/event-order.js';
import { wireUsage } from '../chat-completions/encode.js';
import { wirePromptLogprobs } from '../prompt-logprobs.js';
import type { Usage } from '../usage.js';
import { LogprobWriter, noLogprobs, type LegacyLogprobs } from './logprobs.js';

/** What all answers of one request have in common. */
export interface CompletionEnvelope {
  id: string;
  created: number;              // seconds
  model: string;                // the name asked for
  fingerprint: string;
}

/** What is told of one prompt's choices. */
export interface PromptRules {
  /** Number of the prompt's first choice. */
  readonly first: number;
  /** Choices that are generated, and of these told. */
  readonly candidates: number;
  readonly n: number;
  /** Of the prompt and the answer. Null: none. */
  readonly logprobs: number | null;
  readonly promptLogprobs: number | null;
  readonly returnTokens: boolean;
  /** The prompt, where it is echoed; else null. */
  readonly echo: string | null;
  readonly promptIds: readonly number[];
  readonly spell: (id: number) => SpelledToken;
}

interface Choice {
  text: string;
  ids: number[];
  logprobs: LegacyLogprobs;
  readonly writer: LogprobWriter;
  sum: number;                  // of its tokens' log-probabilities
  finish: { reason: 'stop' | 'length'; stop: string | null } | null;
}

type FinishedEvent = Extract<GenerationEvent, { type: 'finished' }>;
type TextEvent = Extract<GenerationEvent, { type: 'text' }>;

const finishReason = ({ reason }: FinishedEvent): 'stop' | 'length' => (reason === 'end_of_turn' || reason === 'stop_string' ? 'stop' : 'length');

export function addUsage(all: readonly Usage[]): Usage {
  const sum = (key: keyof Usage): number => all.reduce((total, usage) => total + usage[key], 0);
  return { promptTokens: sum('promptTokens'), cachedTokens: sum('cachedTokens'), completionTokens: sum('completionTokens'), reasoningTokens: sum('reasoningTokens') };
}

/** What has come of one prompt. */
export class PromptAnswer {
  readonly #order: EventOrder;
  readonly #choices: Choice[];
  readonly #prompt: PromptLogprob[] = [];

  constructor(readonly rules: PromptRules) {
    this.#order = new EventOrder(rules.candidates);
    this.#choices = Array.from({ length: rules.candidates }, () => ({
      text: '', ids: [], logprobs: noLogprobs(), writer: new LogprobWriter(rules.logprobs ?? 0), sum: 0, finish: null,
    }));
  }

  /** What the prompt is told as, if it is: before the choices' first text. */
  prompt({ logprobs }: Extract<GenerationEvent, { type: 'prompt' }>): void {
    this.#prompt.push(...logprobs);
  }

  /** Begins each choice with the prompt if it is echoed; once, before the first event of a choice. */
  begin(): void {
    const { echo, logprobs, promptIds, spell } = this.rules;
    if (echo === null) return;
    for (const choice of this.#choices) {
      choice.text = echo;
      if (logprobs === null) continue;
      const [first] = promptIds;
      if (first !== undefined) choice.writer.first(spell(first), choice.logprobs);
      for (const entry of this.#prompt) choice.writer.add(entry, choice.logprobs);
    }
  }

  tokens({ choice, ids }: Extract<GenerationEvent, { type: 'tokens' }>): void {
    this.#of(choice).ids.push(...ids);
  }

  event(event: ChoiceEvent): void {
    this.#order.take(event);
    if (event.type === 'text') this.#text(event);
    else if (event.type === 'finished') this.#of(event.choice).finish = { reason: finishReason(event), stop: event.stopString };
  }

  #text({ choice: index, text, logprobs }: TextEvent): void {
    const choice = this.#of(index);
    choice.text += text;
    for (const entry of logprobs ?? []) {
      choice.sum += entry.logprob;
      choice.writer.add(entry, choice.logprobs);
    }
  }

  #of(index: number): Choice {
    const choice = this.#choices[index];
    if (choice === undefined) throw new Error(`an event of choice ${index}, which nobody asked for`);
    return choice;
  }

  /** What has come of a choice since it was last taken, as one entry of `choices`; null if that is nothing. */
  take(index: number): object | null {
    const choice = this.#of(index);
    const { text, ids, logprobs, finish } = choice;
    if (text === '' && ids.length === 0 && logprobs.tokens.length === 0 && finish === null) return null;
    choice.text = '';
    choice.ids = [];
    choice.logprobs = noLogprobs();
    return this.#wire(index, { text, ids, logprobs, finish });
  }

  /** All choices, or the best of them, after the last event. */
  whole(): object[] {
    this.#order.complete();
    const ranked = this.#choices.map((choice, index) => ({ choice, index }));
    if (this.rules.n < this.rules.candidates) ranked.sort((a, b) => mean(b.choice) - mean(a.choice) || a.index - b.index);
    return ranked.slice(0, this.rules.n).map(({ choice }, place) => this.#wire(place, choice));
  }

  #wire(place: number, { text, ids, logprobs, finish }: Pick<Choice, 'text' | 'ids' | 'logprobs' | 'finish'>): object {
    const { first, promptLogprobs, returnTokens, promptIds, logprobs: wanted } = this.rules;
    return {
      index: first + place, text, logprobs: wanted === null ? null : logprobs, finish_reason: finish?.reason ?? null, stop_reason: finish?.stop ?? null,
      ...(promptLogprobs === null ? {} : { prompt_logprobs: wirePromptLogprobs(this.#prompt, promptLogprobs) }),
      ...(returnTokens ? { token_ids: ids, prompt_token_ids: promptIds } : {}),
    };
  }
}

/** The mean of a choice's log-probabilities: what the best of several is chosen by. */
const mean = ({ sum, logprobs }: Choice): number => sum / Math.max(1, logprobs.tokens.length);

/** One answer's JSON, or one chunk's: they are alike. `usage`: undefined where none is told, null where it comes later. */
export function completionBody({ id, created, model, fingerprint }: CompletionEnvelope, choices: readonly object[], usage: Usage | null | undefined): object {
  return {
    id, object: 'text_completion', created, model, system_fingerprint: fingerprint, choices,
    ...(usage === undefined ? {} : { usage: usage === null ? null : wireUsage(usage) }),
  };
}
