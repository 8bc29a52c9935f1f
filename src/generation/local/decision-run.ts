// Runs the questions of one decision request in the engine. The first question runs alone, so that its pages are in the
// prefix cache when the other questions start. Event-loop thread only.
import { performance } from 'node:perf_hooks';
import { setTimeout as sleep } from 'node:timers/promises';
import type { AdapterInfo, NativeImage, SubmitOptions } from '../../engine/addon-types.js';
import type { Engine } from '../../engine/engine.js';
import type { EngineEvent, RawLogprob, StartedEvent } from '../../engine/events.js';
import { ApiError, apiError } from '../../shared/errors.js';
import type { RunningGeneration } from '../provider.js';
import type { GenerationEvent } from '../types.js';
import { checkAdapter, codeOf, submitFailure } from './engine-failure.js';

/** Maximum number of concurrent engine requests per decision request. */
const MAX_AT_ONCE = 8;

/** Delay before an engine request is resubmitted if the queue was full, in ms. */
const RETRY_MS = 10;

/** Maximum number of tokens to compare in one engine request: the engine's maximum number of top log probabilities. */
const MAX_COMPARED = 20;

/**
 * The logit bias of the compared tokens. It exceeds the difference between any two logits of a language model, so all
 * other tokens have negligible probability. It is the same for all compared tokens, so their probability ratios do not
 * change.
 */
const BIAS = 100;

export interface DecisionPrompt {
  /** The tokens of the prompt's text. */
  readonly tokens: Int32Array;
  /** Number of tokens, including image tokens. */
  readonly length: number;
  readonly images: { at: number; image: NativeImage }[];
  /** The tokens of the allowed answers, in order. At least two, all distinct. */
  readonly answers: readonly number[];
}

export interface DecisionRunOptions {
  readonly engine: Engine;
  readonly model: string;
  readonly adapter: AdapterInfo | null;
  /** The options that all engine requests share. */
  readonly common: SubmitOptions;
  readonly prompts: readonly DecisionPrompt[];
  /** Receives the probabilities before `finished` is emitted. */
  keep(probabilities: readonly (readonly number[])[]): void;
  onEvent(event: GenerationEvent): void;
}

/**
 * Splits the tokens of the allowed answers into lists that one engine request can compare. Each list after the first
 * one also contains the very first token, as the common reference.
 */
export function comparisons(tokens: readonly number[]): number[][] {
  const [reference] = tokens as [number];
  const lists = [tokens.slice(0, MAX_COMPARED)];
  for (let at = MAX_COMPARED; at < tokens.length; at += MAX_COMPARED - 1)
    lists.push([reference, ...tokens.slice(at, at + MAX_COMPARED - 1)]);
  return lists;
}

interface Compared {
  /** Log probability of each token, in order. */
  readonly logs: readonly number[];
  readonly started: StartedEvent;
}

export class DecisionRun implements RunningGeneration {
  readonly #running = new Set<{ cancel(): void }>();
  readonly #waiting: (() => void)[] = [];
  #count = 0;
  #isOver = false;
  /** Deadline of the whole request. */
  #deadline = Infinity;
  #steps = 0;
  #cachedTokens = 0;
  #queueMs = 0;

  constructor(private readonly options: DecisionRunOptions) {}

  start(): this {
    const { engine, adapter, model } = this.options;
    checkAdapter(engine, adapter, model);
    // Starts asynchronously, because `onEvent` must not be called before start() has returned.
    void Promise.resolve()
      .then(() => this.#run())
      .catch((error: unknown) => this.#fail(error));
    return this;
  }

  cancel(): void {
    this.#isOver = true;
    for (const generation of this.#running) generation.cancel();
    this.#running.clear();
    this.#waiting.length = 0;
  }

  async #run(): Promise<void> {
    const { prompts, keep, onEvent } = this.options;
    const began = performance.now();
    this.#deadline = began + this.options.common.generationMs;
    const [first, ...others] = prompts as [DecisionPrompt, ...DecisionPrompt[]];
    const probabilities = [
      await this.#question(first, true),
      ...(await Promise.all(others.map((prompt) => this.#question(prompt, false)))),
    ];
    if (this.#isOver) return;
    keep(probabilities);
    const queueMs = this.#queueMs;
    const promptTokens = prompts.reduce((sum, { length }) => sum + length, 0);
    onEvent({ type: 'started', promptTokens, cachedTokens: this.#cachedTokens, queueMs });
    onEvent({
      type: 'finished',
      choice: 0,
      reason: 'end_of_turn',
      stopString: null,
      completionTokens: this.#steps,
      reasoningTokens: 0,
      calls: 0,
      timings: { prefillMs: Math.max(0, performance.now() - began - queueMs), decodeMs: 0 },
    });
  }

  /**
   * Returns the probabilities of a question's answers. `isFirst`: the question's queue time counts as the request's
   * queue time.
   */
  async #question({ tokens, length, images, answers }: DecisionPrompt, isFirst: boolean): Promise<number[]> {
    const all: number[] = [];
    for (const compared of comparisons(answers)) {
      const { logs, started } = await this.#compare({ prompt: tokens, images }, compared, isFirst);
      if (all.length > 0) {
        const offset = all[0]! - logs[0]!;
        for (const log of logs.slice(1)) all.push(log + offset);
        continue;
      }
      all.push(...logs);
      // The prompt is counted once per question. The question's other steps read it from the prefix cache.
      this.#cachedTokens += Math.min(started.cachedTokens, length);
      if (isFirst) this.#queueMs = started.queueMs;
    }
    const best = Math.max(...all);
    const weights = all.map((log) => Math.exp(log - best));
    const total = weights.reduce((sum, weight) => sum + weight, 0);
    if (!Number.isFinite(total))
      throw apiError('model_error', 'The model returned a value that is not a finite number.', null);
    return weights.map((weight) => weight / total);
  }

  /**
   * Computes the log probabilities of tokens that may follow a prompt, relative to each other. The first question fails
   * if the queue is full. Later questions wait, because the request's own questions may have filled the queue.
   */
  async #compare(
    prompt: Pick<SubmitOptions, 'prompt' | 'images'>,
    compared: readonly number[],
    isFirst: boolean,
  ): Promise<Compared> {
    await this.#slot();
    const giveUp = performance.now() + this.options.common.queueWaitMs;
    for (;;) {
      // After cancel(), the promise is never settled, because nothing waits for it any longer.
      if (this.#isOver) return new Promise<never>(() => undefined);
      try {
        return await this.#submit(prompt, compared);
      } catch (error) {
        if (isFirst || !(error instanceof QueueFull) || performance.now() > giveUp)
          throw error instanceof QueueFull ? error.failure : error;
        await sleep(RETRY_MS);
      }
    }
  }

  /** Runs one engine request. Rejects with QueueFull, and keeps the slot, if the engine's queue is full. */
  #submit(prompt: Pick<SubmitOptions, 'prompt' | 'images'>, compared: readonly number[]): Promise<Compared> {
    const { engine, common } = this.options;
    return new Promise((resolve, reject) => {
      let started: StartedEvent | null = null;
      let found: readonly RawLogprob[] = [];
      const receive = (event: EngineEvent): void => {
        if (event.type === 'started') started = event;
        else if (event.type === 'text') found = event.logprobs?.[0]?.top ?? found;
        else if (event.type === 'failed') {
          this.#leave(generation);
          reject(new EngineFailure(event));
        } else if (event.type === 'finished') {
          this.#leave(generation);
          this.#steps++;
          if (started === null || found.length === 0) return reject(new EngineFailure(OUT_OF_TIME));
          const byToken = new Map(found.map(({ token, logprob }) => [token, logprob]));
          resolve({ logs: compared.map((token) => byToken.get(token) ?? -Infinity), started });
        }
      };
      let generation: { cancel(): void };
      try {
        generation = engine.generate(
          {
            ...common,
            ...prompt,
            generationMs: Math.max(1, Math.ceil(this.#deadline - performance.now())),
            logitBias: compared.map((token) => ({ token, bias: BIAS })),
            topLogprobs: compared.length,
          },
          receive,
        );
      } catch (error) {
        const failure = submitFailure(error, 'input', () => engine.queueDrainMs());
        return reject(codeOf(error) === 'queue_full' ? new QueueFull(failure) : (failure as Error));
      }
      this.#running.add(generation);
    });
  }

  #slot(): Promise<void> {
    if (this.#count < MAX_AT_ONCE) {
      this.#count++;
      return Promise.resolve();
    }
    return new Promise((resolve) => this.#waiting.push(resolve));
  }

  /** Passes the slot of a finished engine request to the next one. */
  #leave(generation: { cancel(): void }): void {
    this.#running.delete(generation);
    const next = this.#waiting.shift();
    if (next === undefined) this.#count--;
    else next();
  }

  /** Ends the whole request on the first failure. */
  #fail(error: unknown): void {
    if (this.#isOver) return;
    this.cancel();
    const { engine, onEvent } = this.options;
    if (error instanceof EngineFailure) {
      const { code, message } = error.event;
      return onEvent({
        type: 'failed',
        code,
        message,
        ...(code === 'queue_timeout' ? { retryAfterMs: engine.queueDrainMs() } : {}),
      });
    }
    const failure =
      error instanceof ApiError
        ? error
        : apiError('model_error', 'The model failed to handle this request.', null, { cause: error });
    onEvent({ type: 'failed', code: 'upstream', message: failure.message, error: failure });
  }
}

type Failure = Pick<Extract<EngineEvent, { type: 'failed' }>, 'code' | 'message'>;

/**
 * The engine ends a request before it has generated a token if the request's time limit is reached or the model is
 * being unloaded.
 */
const OUT_OF_TIME: Failure = {
  code: 'queue_timeout',
  message: 'the questions were not answered within the time limit',
};

/** Thrown if the engine ended an engine request with an error. */
class EngineFailure extends Error {
  constructor(readonly event: Failure) {
    super(event.message);
  }
}

/** Thrown if the engine's queue was full. `failure`: the error for the client. */
class QueueFull extends Error {
  constructor(readonly failure: unknown) {
    super('queue full');
  }
}
