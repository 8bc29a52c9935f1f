// What one generation has come to: its tokens and its times, told by its events. The only place that adds them up; limits,
// usage, metrics and answers read it. Event-loop thread only.
import { performance } from 'node:perf_hooks';
import type { Counted, GenerationEvent } from '../generation/types.js';
import type { PreparedGeneration } from '../generation/provider.js';
import { wallClock } from '../shared/wall-clock.js';
import type { CancelStage, GenerationMeter } from '../telemetry/types.js';
import type { Usage } from './usage.js';

export type RunEvent = Exclude<GenerationEvent, { type: 'failed' }>;
type OutputEvent = Exclude<RunEvent, { type: 'started' | 'finished' | 'prompt' | 'tokens' }>;

/** Of one choice, as its events told so far. */
interface ChoiceTally {
  tokens: number;
  reasoningTokens: number;
  lastTokenAt: number;
}

/** Milliseconds since 1970; null: it has not come to that. */
export interface RunTimes {
  readonly receivedAt: number;
  readonly startedAt: number | null;
  readonly firstTokenAt: number | null;
  readonly endedAt: number;
}

export class RunTally {
  /** performance.now(); null: it has not come to that. */
  startedAt: number | null = null;
  firstTokenAt: number | null = null;
  /** Milliseconds it waited in the engine's queue. */
  queueMs: number | null = null;
  /** And that the vision tower computed for it; null: nothing. */
  towerMs: number | null = null;
  /** Its usage is a guess, also at the end. */
  estimated = false;
  choicesLeft: number;
  #promptTokens: number; // an estimate until it has started, if it was one
  #cachedTokens = 0;
  #completionTokens = 0;
  #reasoningTokens = 0;
  readonly #choices: ChoiceTally[];

  /** `receivedAt`: performance.now() when the request arrived. The meter is told the times as they become known. */
  constructor(
    { promptTokens, n }: Pick<PreparedGeneration, 'promptTokens' | 'n'>,
    private readonly meter: GenerationMeter,
    private readonly receivedAt: number,
  ) {
    this.#promptTokens = promptTokens.tokens;
    this.choicesLeft = n;
    this.#choices = Array.from({ length: n }, () => ({ tokens: 0, reasoningTokens: 0, lastTokenAt: 0 }));
  }

  take(event: RunEvent): void {
    switch (event.type) {
      case 'started':
        this.startedAt = performance.now();
        this.queueMs = Math.round(event.queueMs);
        if (event.towerMs !== undefined) this.towerMs = Math.round(event.towerMs);
        this.#promptTokens = event.promptTokens;
        this.#cachedTokens = event.cachedTokens;
        this.meter.started(event);
        return;
      case 'prompt':
      case 'tokens':
        return;
      case 'finished':
        this.choicesLeft--;
        if (event.counted !== undefined) this.#recount(event, event.counted);
        this.#count(event.choice, event.completionTokens, event.reasoningTokens);
        return;
      default:
        if (event.tokens > 0) this.#output(event);
    }
  }

  get completionTokens(): number {
    return this.#completionTokens;
  }

  get usage(): Usage {
    return {
      promptTokens: this.#promptTokens,
      cachedTokens: this.#cachedTokens,
      completionTokens: this.#completionTokens,
      reasoningTokens: this.#reasoningTokens,
    };
  }

  /** When it arrived, began and told its first token, and when it ended, should that be now. */
  times(): RunTimes {
    const wall = wallClock();
    const at = (moment: number): number => Math.round(wall(moment));
    const { startedAt, firstTokenAt } = this;
    return {
      receivedAt: at(this.receivedAt),
      startedAt: startedAt === null ? null : at(startedAt),
      firstTokenAt: firstTokenAt === null ? null : at(firstTokenAt),
      endedAt: at(performance.now()),
    };
  }

  /** How far it is, should it end now. */
  get stage(): CancelStage {
    if (this.startedAt === null) return 'queue';
    return this.firstTokenAt === null ? 'prefill' : 'decode';
  }

  #output(event: OutputEvent): void {
    const { choice, tokens } = event;
    const now = performance.now();
    if (this.firstTokenAt === null) {
      this.firstTokenAt = now;
      this.meter.firstToken(now - this.receivedAt);
    }
    const told = this.#choice(choice);
    if (told.lastTokenAt > 0) this.meter.laterTokens(tokens, now - told.lastTokenAt);
    told.lastTokenAt = now;
    this.#count(
      choice,
      told.tokens + tokens,
      told.reasoningTokens + (event.type === 'text' && event.section === 'reasoning' ? tokens : 0),
    );
  }

  /** What was told of the choice and of the prompt were estimates. */
  #recount(
    { choice: index, completionTokens, reasoningTokens }: Extract<RunEvent, { type: 'finished' }>,
    { promptTokens, cachedTokens, estimated }: Counted,
  ): void {
    const choice = this.#choice(index);
    this.#promptTokens = promptTokens;
    this.#cachedTokens = cachedTokens;
    this.estimated ||= estimated;
    this.#completionTokens -= Math.max(0, choice.tokens - completionTokens);
    this.#reasoningTokens -= Math.max(0, choice.reasoningTokens - reasoningTokens);
    choice.tokens = Math.min(choice.tokens, completionTokens);
    choice.reasoningTokens = Math.min(choice.reasoningTokens, reasoningTokens);
  }

  /** A choice has so many by now: its end tells of more than its events did. What was told of is never taken back. */
  #count(index: number, tokens: number, reasoningTokens: number): void {
    const choice = this.#choice(index);
    const more = Math.max(0, tokens - choice.tokens);
    const reasoned = Math.max(0, reasoningTokens - choice.reasoningTokens);
    choice.tokens += more;
    choice.reasoningTokens += reasoned;
    this.#completionTokens += more;
    this.#reasoningTokens += reasoned;
  }

  #choice(index: number): ChoiceTally {
    const choice = this.#choices[index];
    if (choice === undefined) throw new Error(`an event of choice ${index}, which nobody asked for`);
    return choice;
  }
}
