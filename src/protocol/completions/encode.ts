// Encodes generation events as completions JSON, streamed or not. Pure: one PromptAnswer per prompt receives the events
// in order and throws if they are out of order (event-order.ts).
import type { GenerationEvent, SpelledToken } from '../../generation/types.js';
import { JsonText } from '../../http/json-text.js';
import { GrowingText } from '../../shared/growing-text.js';
import { EventOrder, type ChoiceEvent } from '../chat-completions/event-order.js';
import { wireUsage } from '../chat-completions/encode.js';
import { PromptLogprobWriter } from '../prompt-logprobs.js';
import type { Usage } from '../usage.js';
import { LegacyLogprobs, LogprobWriter } from './logprobs.js';

/** Fields that all of a request's choices and chunks share. */
export interface CompletionEnvelope {
  id: string;
  created: number; // seconds
  model: string; // the model name from the request
  fingerprint: string;
}

/** The options that determine the content of the response for one prompt. */
export interface PromptRules {
  /** Index of the first of the prompt's choices among all choices. */
  readonly first: number;
  /** Number of choices generated (`candidates`) and returned (`n`). */
  readonly candidates: number;
  readonly n: number;
  /**
   * Number of most likely tokens to report for each token of the output (`logprobs`) and of the prompt
   * (`promptLogprobs`); null if not requested.
   */
  readonly logprobs: number | null;
  readonly promptLogprobs: number | null;
  readonly returnTokens: boolean;
  /** The prompt if it is echoed, otherwise null. */
  readonly echo: string | null;
  readonly promptIds: readonly number[];
  readonly spell: (id: number) => SpelledToken;
}

interface Choice {
  text: GrowingText;
  ids: number[];
  logprobs: LegacyLogprobs;
  writer: LogprobWriter;
  sum: number; // sum of its tokens' log probabilities
  scored: number; // number of tokens in `sum`
  finish: { reason: 'stop' | 'length'; stop: string | null } | null;
}

type FinishedEvent = Extract<GenerationEvent, { type: 'finished' }>;
type TextEvent = Extract<GenerationEvent, { type: 'text' }>;

const finishReason = ({ reason }: FinishedEvent): 'stop' | 'length' =>
  reason === 'end_of_turn' || reason === 'stop_string' ? 'stop' : 'length';

/** The output for one prompt. */
export class PromptAnswer {
  readonly #order: EventOrder;
  readonly #choices: Choice[];
  readonly #prompt: PromptLogprobWriter | null;
  /**
   * The echoed prompt's log probabilities. Every choice starts with them, so they are kept until the last choice has
   * started.
   */
  #echoed: { readonly logprobs: LegacyLogprobs; readonly writer: LogprobWriter } | null;

  constructor(readonly rules: PromptRules) {
    const {
      candidates,
      echo,
      logprobs,
      promptLogprobs,
      promptIds: [first],
      spell,
    } = rules;
    this.#order = new EventOrder(candidates);
    this.#choices = Array.from({ length: candidates }, () => ({
      text: new GrowingText(),
      ids: [],
      logprobs: new LegacyLogprobs(),
      writer: new LogprobWriter(logprobs ?? 0),
      sum: 0,
      scored: 0,
      finish: null,
    }));
    this.#prompt = promptLogprobs === null ? null : new PromptLogprobWriter(promptLogprobs);
    this.#echoed =
      echo === null || logprobs === null
        ? null
        : { logprobs: new LegacyLogprobs(), writer: new LogprobWriter(logprobs) };
    if (first !== undefined) this.#echoed?.writer.first(spell(first), this.#echoed.logprobs);
  }

  /** Number of characters of log probabilities in memory. */
  get size(): number {
    return this.#choices.reduce(
      (sum, { logprobs }) => sum + logprobs.size,
      (this.#prompt?.list.size ?? 0) + (this.#echoed?.logprobs.size ?? 0),
    );
  }

  /** Adds the prompt's log probabilities, if requested. They arrive before the first text of any choice. */
  prompt({ logprobs }: Extract<GenerationEvent, { type: 'prompt' }>): void {
    for (const entry of logprobs) {
      this.#prompt?.add(entry);
      this.#echoed?.writer.add(entry, this.#echoed.logprobs);
    }
  }

  /** Starts each choice with the prompt if it is echoed. Must be called once, before the first event for any choice. */
  begin(): void {
    const { echo, logprobs } = this.rules;
    if (echo === null) return;
    for (const choice of this.#choices) {
      choice.text.add(echo);
      if (this.#echoed === null) continue;
      choice.logprobs.append(this.#echoed.logprobs);
      choice.writer = new LogprobWriter(logprobs ?? 0, this.#echoed.writer.at);
    }
    this.#echoed = null;
  }

  tokens({ choice, ids }: Extract<GenerationEvent, { type: 'tokens' }>): void {
    this.#of(choice).ids.push(...ids);
  }

  event(event: ChoiceEvent): void {
    this.#order.take(event);
    if (event.type === 'text') this.#text(event);
    else if (event.type === 'finished')
      this.#of(event.choice).finish = { reason: finishReason(event), stop: event.stopString };
  }

  #text({ choice: index, text, logprobs }: TextEvent): void {
    const choice = this.#of(index);
    choice.text.add(text);
    for (const entry of logprobs ?? []) {
      choice.sum += entry.logprob;
      choice.scored++;
      choice.writer.add(entry, choice.logprobs);
    }
  }

  #of(index: number): Choice {
    const choice = this.#choices[index];
    if (choice === undefined) throw new Error(`received an event for choice ${index}, which was not requested`);
    return choice;
  }

  /**
   * Returns the output that the choice has produced since the last call, as one entry of `choices`, or null if there is
   * none.
   */
  take(index: number): JsonText | null {
    const choice = this.#of(index);
    const { text, ids, logprobs, finish } = choice;
    if (text.length === 0 && ids.length === 0 && logprobs.length === 0 && finish === null) return null;
    choice.text = new GrowingText();
    choice.ids = [];
    if (logprobs.length > 0) choice.logprobs = new LegacyLogprobs();
    return this.#wire(index, { text, ids, logprobs, finish });
  }

  /**
   * Returns all choices, or only the best ones if the request asks for fewer than were generated. Must be called after
   * the last event.
   */
  whole(): JsonText[] {
    this.#order.complete();
    const ranked = this.#choices.map((choice, index) => ({ choice, index }));
    if (this.rules.n < this.rules.candidates)
      ranked.sort((a, b) => mean(b.choice) - mean(a.choice) || a.index - b.index);
    return ranked.slice(0, this.rules.n).map(({ choice }, place) => this.#wire(place, choice));
  }

  #wire(
    place: number,
    { text, ids, logprobs, finish }: Pick<Choice, 'text' | 'ids' | 'logprobs' | 'finish'>,
  ): JsonText {
    const { first, returnTokens, promptIds, logprobs: wanted } = this.rules;
    const wire = new JsonText().add(`{"index":${first + place},"text":${JSON.stringify(text.toString())},"logprobs":`);
    if (wanted === null) wire.add('null');
    else logprobs.into(wire);
    wire.add(
      `,"finish_reason":${JSON.stringify(finish?.reason ?? null)},"stop_reason":${JSON.stringify(finish?.stop ?? null)}`,
    );
    if (this.#prompt !== null) this.#prompt.list.into(wire.add(',"prompt_logprobs":'));
    if (returnTokens) wire.add(`,"token_ids":${JSON.stringify(ids)},"prompt_token_ids":${JSON.stringify(promptIds)}`);
    return wire.add('}');
  }
}

/** The mean log probability of a choice, which `best_of` uses to rank the choices. */
const mean = ({ sum, scored }: Choice): number => sum / Math.max(1, scored);

/**
 * Builds the JSON of a response or of a chunk; both have the same form. `usage`: undefined omits the field; null means
 * that a later chunk contains the usage.
 */
export function completionBody(
  { id, created, model, fingerprint }: CompletionEnvelope,
  choices: readonly JsonText[],
  usage: Usage | null | undefined,
): JsonText {
  const head = JSON.stringify({ id, object: 'text_completion', created, model, system_fingerprint: fingerprint });
  const body = new JsonText().add(`${head.slice(0, -1)},"choices":[`);
  for (const [index, choice] of choices.entries()) body.add(index === 0 ? '' : ',').append(choice);
  return body.add(
    usage === undefined ? ']}' : `],"usage":${JSON.stringify(usage === null ? null : wireUsage(usage))}}`,
  );
}
