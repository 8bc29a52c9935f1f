// Embeds a list of token sequences with one engine: one request per sequence, a limited number of them at a time.
import type { SubmitOptions } from './addon-types.js';
import type { Generation } from './engine.js';
import type { EngineEvent, FailureCode } from './events.js';

/** Maximum requests of one call that the engine holds at the same time. Enough to fill the steps of any device. */
const kMostSubmitted = 64;

export interface EmbedOptions {
  /** The organization's 32-bit number: the unit of fair scheduling. */
  organization: number;
  /** Cancels the inputs that are not finished; the promise rejects with the signal's reason. */
  signal?: AbortSignal;
  /** Maximum queue wait of an input in ms; absent = 30 s. */
  queueWaitMs?: number;
  /** Maximum time from an input's first step to its end in ms; absent = 1 h. */
  generationMs?: number;
}

/** An input that the engine accepted could not be embedded. */
export class EmbedError extends Error {
  constructor(
    readonly code: FailureCode,
    message: string,
  ) {
    super(message);
    this.name = 'EmbedError';
  }
}

type Generate = (options: SubmitOptions, onEvent: (event: EngineEvent) => void) => Generation;

/**
 * Resolves with one vector per input, before normalization, or with a reranker's scores. If an input fails, the others
 * are cancelled. Rejects with an EmbedError, with the signal's reason, or with the errors of NativeChannel.submit.
 */
export function embedInputs(
  generate: Generate,
  inputs: readonly Int32Array[],
  options: EmbedOptions,
): Promise<Float32Array[]> {
  return new EmbedRun(generate, inputs, options).promise;
}

class EmbedRun {
  readonly promise: Promise<Float32Array[]>;
  readonly #vectors: Float32Array[];
  readonly #running = new Set<Generation>();
  #next = 0;
  #left: number;
  #settled = false;
  #resolve!: (vectors: Float32Array[]) => void;
  #reject!: (reason: unknown) => void;
  readonly #onAbort = (): void => this.#fail(this.options.signal?.reason);

  constructor(
    private readonly generate: Generate,
    private readonly inputs: readonly Int32Array[],
    private readonly options: EmbedOptions,
  ) {
    this.#vectors = new Array<Float32Array>(inputs.length);
    this.#left = inputs.length;
    this.promise = new Promise((resolve, reject) => {
      this.#resolve = resolve;
      this.#reject = reject;
    });
    const { signal } = options;
    signal?.addEventListener('abort', this.#onAbort, { once: true });
    if (signal?.aborted === true) this.#onAbort();
    else if (this.#left === 0) this.#finish();
    else this.#submit();
  }

  #submit(): void {
    while (!this.#settled && this.#next < this.inputs.length && this.#running.size < kMostSubmitted) {
      try {
        this.#start(this.#next);
      } catch (error) {
        // The queue is full of other requests: continue when one of this call's inputs has finished.
        if (this.#running.size > 0 && (error as { code?: unknown }).code === 'queue_full') return;
        return this.#fail(error);
      }
      this.#next++;
    }
  }

  #start(index: number): void {
    const generation = this.generate(this.#request(this.inputs[index] as Int32Array), (event) => {
      if (event.type === 'vector') this.#vectors[index] = event.values;
      else if (event.type === 'failed') this.#fail(new EmbedError(event.code, event.message));
      else if (event.type === 'finished') {
        this.#running.delete(generation);
        if (this.#vectors[index] === undefined)
          this.#fail(new EmbedError('shutdown', 'the engine ended the input before it was embedded'));
        else if (--this.#left === 0) this.#finish();
        else this.#submit();
      }
    });
    this.#running.add(generation);
  }

  #request(prompt: Int32Array): SubmitOptions {
    const { organization, queueWaitMs = 30_000, generationMs = 3_600_000 } = this.options;
    return {
      prompt,
      organization,
      queueWaitMs,
      generationMs,
      output: 'vector',
      n: 1,
      maxTokens: 0,
      temperature: 0,
      topK: 0,
      topP: 1,
      minP: 0,
      repetitionPenalty: 1,
      frequencyPenalty: 0,
      presencePenalty: 0,
      seed: 0n,
      logitBias: [],
      topLogprobs: -1,
      stop: [],
      stopTokens: [],
      ignoreEos: false,
      prefixCache: false,
      reasoning: null,
    };
  }

  #settle(): boolean {
    if (this.#settled) return false;
    this.#settled = true;
    this.options.signal?.removeEventListener('abort', this.#onAbort);
    return true;
  }

  #finish(): void {
    if (this.#settle()) this.#resolve(this.#vectors);
  }

  #fail(reason: unknown): void {
    if (!this.#settle()) return;
    for (const generation of this.#running) generation.cancel();
    this.#running.clear();
    this.#reject(reason);
  }
}
