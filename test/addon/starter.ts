// The embedded model, with options suitable for tests.
import { join } from 'node:path';
import type { LoadOptions, NativeChannel, NativeEngine, SubmitOptions } from '../../src/engine/addon-types.js';
import { decodeEvents, type EngineEvent } from '../../src/engine/events.js';
import { loadAddon, packageRoot } from '../../src/engine/load-addon.js';

export const starterPath = join(packageRoot, 'models', 'starter-q8_0.gguf');

export const loadOptions: LoadOptions = {
  threads: 1,
  device: 'cpu',
  isa: 'auto',
  arithmetic: 'production',
  kvType: 'f16',
  maxContext: 512,
  kvBytes: 0,
  maxBatchTokens: 64,
  maxSequences: 8,
  stepMs: 0,
  queueMax: 64,
  queueMaxTokens: 1_000_000,
  prefixCache: true,
  speculation: 'auto',
};

export function submitOptions(prompt: Int32Array, more: Partial<SubmitOptions> = {}): SubmitOptions {
  return {
    prompt,
    organization: 1,
    n: 1,
    maxTokens: 16,
    temperature: 0,
    topK: 0,
    topP: 1,
    minP: 0,
    repetitionPenalty: 1,
    frequencyPenalty: 0,
    presencePenalty: 0,
    seed: 7n,
    logitBias: [],
    topLogprobs: -1,
    stop: [],
    stopTokens: [],
    ignoreEos: true,
    prefixCache: true,
    queueWaitMs: 0,
    generationMs: 60_000,
    reasoning: null,
    ...more,
  };
}

export const plainText = { addSpecial: false, parseSpecial: true, guard: 0 };

export function loadStarter(name: string, options: Partial<LoadOptions> = {}): Promise<NativeEngine> {
  return loadAddon().load(name, starterPath, { ...loadOptions, ...options }, () => {});
}

export function promptOf(engine: NativeEngine, text = 'Name three colours.'): Int32Array {
  return engine.tokenize(`<|im_start|>user\n${text}<|im_end|>\n<|im_start|>assistant\n`, plainText);
}

export function must<T>(value: T | undefined): T {
  if (value === undefined) throw new Error('a value was expected');
  return value;
}

/** Records the events of all requests on a native channel, and how often JavaScript was woken. */
export class Recorder {
  readonly events = new Map<number, EngineEvent[]>();
  readonly channel: NativeChannel;
  wakeups = 0;
  #waiting: (() => void)[] = [];

  constructor(engine: NativeEngine) {
    this.channel = engine.open((buffer) => {
      this.wakeups++;
      decodeEvents(buffer, (id, event) => {
        const list = this.events.get(id) ?? [];
        list.push(event);
        this.events.set(id, list);
      });
      for (const wake of this.#waiting.splice(0)) wake();
    });
  }

  of(id: number): EngineEvent[] {
    return this.events.get(id) ?? [];
  }

  text(id: number, choice = 0): string {
    return this.of(id)
      .map((event) => (event.type === 'text' && event.choice === choice ? event.text : ''))
      .join('');
  }

  /** Resolves when `check`, which is called after each wake-up, returns true. */
  async until(check: () => boolean): Promise<void> {
    while (!check()) await new Promise<void>((resolve) => this.#waiting.push(resolve));
  }

  ended(id: number): Promise<void> {
    return this.until(() => this.of(id).some((event) => event.type === 'finished' || event.type === 'failed'));
  }
}
