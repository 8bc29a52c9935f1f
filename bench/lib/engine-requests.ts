// Requests for engine measurements, with unique prompts and fixed-length responses.
import type { LoadOptions, SubmitOptions } from '../../src/engine/addon-types.js';
import type { Engine } from '../../src/engine/engine.js';
import type { FinishedEvent } from '../../src/engine/events.js';

/** The server's defaults, but without the prefix cache and without a limit on the step time. */
export const benchLoadOptions: LoadOptions = {
  threads: 0,
  device: 'cpu',
  isa: 'auto',
  arithmetic: 'production',
  kvType: 'f16',
  maxContext: 0,
  kvBytes: 0,
  maxBatchTokens: 256,
  maxSequences: 32,
  stepMs: 0,
  queueMax: 1_024,
  queueMaxTokens: 100_000_000,
  prefixCache: false,
  speculation: 'off',
};

const ARITHMETICS = ['exact', 'production', 'fast'] as const;

/** Load options for an instruction set and an arithmetic. `fast` requires batch invariance to be off. */
export function kernelOptions(
  isa = 'auto',
  arithmetic = 'production',
): Pick<LoadOptions, 'isa' | 'arithmetic' | 'batchInvariant'> {
  const known = ARITHMETICS.find((name) => name === arithmetic);
  if (known === undefined)
    throw new Error(`unknown arithmetic "${arithmetic}"; expected one of ${ARITHMETICS.join(', ')}`);
  return { isa, arithmetic: known, batchInvariant: known !== 'fast' };
}

let nextPrompt = 1;

/** Returns the prompt with this number: pseudo-random token IDs from a small linear congruential generator. */
export function promptOf(number: number, length: number, vocabulary: number): Int32Array {
  let state = (number * 2_654_435_761) >>> 0;
  return Int32Array.from({ length }, () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return (state >>> 8) % vocabulary;
  });
}

const vocabularyOf = (engine: Engine): number => Math.min(engine.info.vocabulary, 1_000);

/** Returns a request with a unique prompt, so that none of it is cached. */
export function submission(engine: Engine, length: number, maxTokens: number): SubmitOptions {
  return {
    prompt: promptOf(nextPrompt++, length, vocabularyOf(engine)),
    organization: 1,
    n: 1,
    maxTokens,
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
    ignoreEos: true,
    prefixCache: false,
    queueWaitMs: 600_000,
    generationMs: 3_600_000,
    reasoning: null,
  };
}

/**
 * Returns a request whose prompt starts with the prompts of all shorter lengths, so that the cached prefix is not
 * computed again.
 */
export function continuation(engine: Engine, length: number, maxTokens: number): SubmitOptions {
  return { ...submission(engine, 1, maxTokens), prompt: promptOf(0, length, vocabularyOf(engine)), prefixCache: true };
}

/** Both callbacks run synchronously while the event is handled, before anything else can happen. */
export function finish(
  engine: Engine,
  options: SubmitOptions,
  onFirstToken: () => void = () => undefined,
  onEnd: () => void = () => undefined,
): Promise<FinishedEvent> {
  return new Promise((resolve, reject) => {
    let begun = false;
    engine.generate(options, (event) => {
      if (event.type === 'text' && !begun) {
        begun = true;
        onFirstToken();
      }
      if (event.type === 'finished') {
        onEnd();
        resolve(event);
      }
      if (event.type === 'failed') reject(new Error(`the engine failed: ${event.message}`));
    });
  });
}
