// Embeds a list of token sequences with one engine: one request per sequence, submitted as the EmbedQueue allows.
import type { SubmitOptions } from './addon-types.js';
import type { EmbedCall, EmbedQueue } from './embed-queue.js';
import type { EngineEvent, FailureCode } from './events.js';

export interface EmbedOptions {
  /** The organization's 32-bit number. Requests are scheduled fairly between these numbers. */
  organization: number;
  /** Whether the inputs yield to other requests (SubmitOptions.background). Defaults to false. */
  background?: boolean;
  /** AdapterInfo.id of the LoRA adapter to use. Absent or null: no adapter. */
  adapter?: number | null;
  /** When aborted, cancels the unfinished inputs and rejects the promise with the signal's reason. */
  signal?: AbortSignal;
  /** Maximum time in ms during which the engine computes none of the inputs. Default: 30 s. */
  queueWaitMs?: number;
  /** Maximum time in ms from the first engine step of an input until its result. Default: 1 h. */
  generationMs?: number;
}

/** Thrown if an input failed in the engine or if inputs waited too long in the queue. */
export class EmbedError extends Error {
  constructor(
    readonly code: FailureCode,
    message: string,
  ) {
    super(message);
    this.name = 'EmbedError';
  }
}

interface Submitted {
  cancel(): void;
}

/** The parts of an engine that embedInputs() uses. */
export interface Embedder {
  readonly queue: EmbedQueue;
  /** Whether the engine is ending its requests because it is about to be unloaded. */
  readonly isDraining?: boolean;
  generate(options: SubmitOptions, onEvent: (event: EngineEvent) => void): Submitted;
}

/**
 * Embeds each input. Resolves with one pooled vector per input, which is not normalized, or with the scores of a
 * reranker. If an input fails, the other inputs are cancelled. Rejects with an EmbedError, with the signal's reason, or
 * with an error of NativeChannel.submit.
 */
export function embedInputs(
  embedder: Embedder,
  inputs: readonly Int32Array[],
  options: EmbedOptions,
): Promise<Float32Array[]> {
  return new EmbedRun(embedder, inputs, options).promise;
}

class EmbedRun implements EmbedCall {
  readonly promise: Promise<Float32Array[]>;
  readonly organization: number;
  readonly #vectors: Float32Array[];
  readonly #running = new Set<Submitted>();
  readonly #queueWaitMs: number;
  #next = 0;
  #left: number;
  #settled = false;
  /** Number of inputs that the engine is computing. */
  #started = 0;
  /** Fails the call after `queueWaitMs`. Armed while the engine computes no input of this call. */
  #deadline: NodeJS.Timeout | undefined;
  #resolve!: (vectors: Float32Array[]) => void;
  #reject!: (reason: unknown) => void;
  readonly #onAbort = (): void => this.fail(this.options.signal?.reason);

  constructor(
    private readonly embedder: Embedder,
    private readonly inputs: readonly Int32Array[],
    private readonly options: EmbedOptions,
  ) {
    this.organization = options.organization;
    this.#queueWaitMs = options.queueWaitMs ?? 30_000;
    this.#vectors = new Array<Float32Array>(inputs.length);
    this.#left = inputs.length;
    this.promise = new Promise((resolve, reject) => {
      this.#resolve = resolve;
      this.#reject = reject;
    });
    const { signal } = options;
    if (signal?.aborted === true) this.#settleWith(() => this.#reject(signal.reason));
    else if (this.#left === 0) this.#settleWith(() => this.#resolve(this.#vectors));
    else {
      signal?.addEventListener('abort', this.#onAbort, { once: true });
      embedder.queue.add(this);
      this.#watchQueueWait();
    }
  }

  get submitted(): number {
    return this.#running.size;
  }
  get hasMore(): boolean {
    return !this.#settled && this.#next < this.inputs.length;
  }

  submitNext(): void {
    const index = this.#next;
    const prompt = this.inputs[index] as Int32Array;
    let hasStarted = false;
    const generation = this.embedder.generate(this.#request(prompt), (event) => {
      if (event.type === 'started') {
        hasStarted = true;
        this.#started++;
        clearTimeout(this.#deadline);
      } else if (event.type === 'vector') this.#vectors[index] = event.values;
      else if (event.type === 'failed') this.fail(new EmbedError(event.code, event.message));
      else if (event.type === 'finished') {
        if (hasStarted) this.#started--;
        this.#finished(index, generation, event.reason === 'time_limit');
      }
    });
    this.#next++;
    this.#running.add(generation);
  }

  fail(reason: unknown): void {
    const submitted = this.#running.size;
    if (!this.#settleWith(() => this.#reject(reason))) return;
    for (const generation of this.#running) generation.cancel();
    this.#running.clear();
    this.embedder.queue.ended(this, submitted, true);
  }

  #finished(index: number, generation: Submitted, isLate: boolean): void {
    if (this.#vectors[index] === undefined)
      return this.fail(
        isLate && this.embedder.isDraining !== true
          ? new EmbedError('queue_timeout', 'the input was not embedded within the time limit')
          : new EmbedError('shutdown', 'the engine ended the input before it was embedded'),
      );
    this.#running.delete(generation);
    if (--this.#left === 0) this.#settleWith(() => this.#resolve(this.#vectors));
    this.embedder.queue.ended(this, 1, this.#left === 0);
    this.#watchQueueWait();
  }

  #watchQueueWait(): void {
    if (this.#settled || this.#started > 0) return;
    clearTimeout(this.#deadline);
    this.#deadline = setTimeout(
      () => this.fail(new EmbedError('queue_timeout', 'the inputs waited too long in the queue')),
      this.#queueWaitMs,
    );
  }

  #request(prompt: Int32Array): SubmitOptions {
    const { organization, background = false, adapter = null, generationMs = 3_600_000 } = this.options;
    return {
      prompt,
      organization,
      background,
      adapter,
      // No separate queue limit: the call's own deadline applies, because an input may have to wait for many other
      // inputs of the call.
      queueWaitMs: generationMs,
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

  /** Marks the call as settled and calls `settle`. If the call is already settled, does nothing and returns false. */
  #settleWith(settle: () => void): boolean {
    if (this.#settled) return false;
    this.#settled = true;
    clearTimeout(this.#deadline);
    this.options.signal?.removeEventListener('abort', this.#onAbort);
    settle();
    return true;
  }
}
