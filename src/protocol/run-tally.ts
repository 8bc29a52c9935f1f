// Token counts and times of one generation. Event-loop thread only.
import { performance } from 'node:perf_hooks';
import type { PreparedGeneration } from '../generation/provider.js';
import type { Counted, GenerationEvent, PredictionCount } from '../generation/types.js';
import type { FinishedUsage } from '../shared/usage-sink.js';
import { wallClock } from '../shared/wall-clock.js';
import type { CancelStage, GenerationMeter } from '../telemetry/types.js';
import type { Usage } from './usage.js';

export type RunEvent = Exclude<GenerationEvent, { type: 'failed' | 'written' }>;
export type OutputEvent = Extract<RunEvent, { choice: number; tokens: number }>;
export type StartedEvent = Extract<RunEvent, { type: 'started' }>;
export type ContinuedEvent = Extract<RunEvent, { type: 'continued' }>;
export type FinishedEvent = Extract<RunEvent, { type: 'finished' }>;

/** The counts for one choice so far. */
interface ChoiceTally {
  tokens: number;
  reasoningTokens: number;
  lastTokenAt: number;
}

/** Sums up tokens and times from the events. */
export class RunTally {
  /** A performance.now() time; null if the stage has not been reached. */
  startedAt: number | null = null;
  firstTokenAt: number | null = null;
  /** Milliseconds spent in the engine's queue. */
  queueMs: number | null = null;
  /** Milliseconds that the vision encoder spent on the request's images; null if no images were encoded. */
  towerMs: number | null = null;
  /** Whether the token counts are still an estimate after the end. */
  estimated = false;
  choicesLeft: number;
  #promptTokens: number; // an estimate until the run starts, if it was one at admission
  #cachedTokens = 0;
  #completionTokens = 0;
  #reasoningTokens = 0;
  #webSearches = 0;
  #mcpCalls = 0;
  #prediction: PredictionCount | null = null;
  readonly #choices: ChoiceTally[];

  /** `receivedAt`: performance.now() when the request arrived. The meter receives each time as soon as it is known. */
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
      case 'thought':
      case 'search_started':
      case 'mcp_listing_started':
      case 'mcp_listing_finished':
      case 'mcp_approval':
      case 'mcp_started':
        return;
      case 'mcp_finished':
        this.#mcpCalls++;
        return;
      case 'search_finished':
        if ('results' in event.outcome) this.#webSearches++;
        return;
      case 'continued':
        this.#continued(event);
        return;
      case 'finished':
        this.choicesLeft--;
        if (event.counted !== undefined) this.#recount(event, event.counted);
        this.#count(event.choice, event.completionTokens, event.reasoningTokens);
        if (event.prediction !== undefined) this.#addPrediction(event.prediction);
        return;
      default:
        if (event.tokens > 0) this.#output(event);
    }
  }

  get completionTokens(): number {
    return this.#completionTokens;
  }

  /** Number of MCP calls, including failed ones. */
  get mcpCalls(): number {
    return this.#mcpCalls;
  }

  get usage(): Usage {
    return {
      promptTokens: this.#promptTokens,
      cachedTokens: this.#cachedTokens,
      completionTokens: this.#completionTokens,
      reasoningTokens: this.#reasoningTokens,
      ...(this.#webSearches === 0 ? {} : { webSearches: this.#webSearches }),
      ...(this.#prediction === null ? {} : { prediction: this.#prediction }),
    };
  }

  /** Returns the times of arrival, start and first token, and the current time as the end. */
  times(): Pick<FinishedUsage, 'receivedAt' | 'startedAt' | 'firstTokenAt' | 'endedAt'> {
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

  /** The stage to report if the run is cancelled now. */
  get stage(): CancelStage {
    if (this.startedAt === null) return 'queue';
    return this.firstTokenAt === null ? 'prefill' : 'decode';
  }

  /** Adds a new round. Its prompt counts in full, including cached tokens. Inter-token latency excludes the calls. */
  #continued(event: ContinuedEvent): void {
    this.queueMs = (this.queueMs ?? 0) + Math.round(event.queueMs);
    this.#promptTokens += event.promptTokens;
    this.#cachedTokens += event.cachedTokens;
    for (const choice of this.#choices) choice.lastTokenAt = 0;
    this.meter.started(event);
  }

  #addPrediction({ accepted, rejected }: PredictionCount): void {
    const { accepted: before = 0, rejected: others = 0 } = this.#prediction ?? {};
    this.#prediction = { accepted: before + accepted, rejected: others + rejected };
  }

  #output(event: OutputEvent): void {
    const { choice, tokens } = event;
    const now = performance.now();
    if (this.firstTokenAt === null) {
      this.firstTokenAt = now;
      this.meter.firstToken(now - this.receivedAt);
    }
    const counted = this.#choice(choice);
    if (counted.lastTokenAt > 0) this.meter.laterTokens(tokens, now - counted.lastTokenAt);
    counted.lastTokenAt = now;
    this.#count(
      choice,
      counted.tokens + tokens,
      counted.reasoningTokens + (event.type === 'text' && event.section === 'reasoning' ? tokens : 0),
    );
  }

  /** Replaces the estimated counts for the choice and the prompt. */
  #recount(
    { choice: index, completionTokens, reasoningTokens }: FinishedEvent,
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

  /**
   * Raises the choice's counts to these totals, because the final event may report more tokens than the earlier events
   * did. Counts never decrease.
   */
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
    if (choice === undefined) throw new Error(`received an event for choice ${index}, which was not requested`);
    return choice;
  }
}
