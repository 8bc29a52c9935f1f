// Properties of a model file or folder that can be determined without reading the weights: architecture and memory use.

import type { LoadOptions, MemoryPlan, ModelInfo } from './addon-types.js';
import { modelBytes } from './catalog.js';
import { loadAddon } from './load-addon.js';

export interface FileFact {
  readonly bytes: number | null;
  readonly architecture: string | null;
  readonly parameters: number | null;
  readonly quantization: string | null;
  /** The model's output type: text (`generation`), vectors (`embedding`) or scores (`ranking`). */
  readonly task: 'generation' | 'embedding' | 'ranking' | null;
  /**
   * Memory that loading the model would take, in bytes: weights, KV cache, recurrent states and activations. Null if
   * the model cannot be loaded.
   */
  readonly memory: number | null;
  /** Breakdown of `memory`, in bytes. */
  readonly plan: LoadBytes | null;
  /** Why the model cannot be served. Null if no problem can be found without reading the weights. */
  readonly problem: string | null;
}

/** Planned memory use after loading, in bytes, by purpose. */
export interface LoadBytes {
  readonly weights: number;
  /** Keys and values of the context. */
  readonly kv: number;
  /** Recurrent states of all sequence slots. */
  readonly states: number;
  readonly activations: number;
}

const loadBytes = ({ weightBytes, kvBytes, slots, slotBytes, activationBytes }: MemoryPlan): LoadBytes => ({
  weights: weightBytes,
  kv: kvBytes,
  states: slots * slotBytes,
  activations: activationBytes,
});

export const planBytes = ({ weightBytes, kvBytes, slots, slotBytes, activationBytes }: MemoryPlan): number =>
  weightBytes + kvBytes + slots * slotBytes + activationBytes;

/**
 * Whether a model would fit into memory: 'yes'; 'later', once other programs have freed some memory; or 'no', if it
 * never fits on this machine.
 */
export function fitOf(
  { memory }: Pick<FileFact, 'memory'>,
  machine: { total: number; available: number },
): 'yes' | 'later' | 'no' | null {
  if (memory === null) return null;
  return memory <= machine.available ? 'yes' : memory <= machine.total ? 'later' : 'no';
}

/** Returns a model's output type. */
export const taskOf = ({ embeddings }: ModelInfo): 'generation' | 'embedding' | 'ranking' =>
  embeddings === null ? 'generation' : embeddings.pooling === 'rank' ? 'ranking' : 'embedding';

/**
 * Inspects each file once. A file that cannot be loaded is inspected again, because the reason may be a lack of free
 * memory.
 */
export class FileFacts {
  readonly #known = new Map<string, Promise<FileFact>>();

  constructor(private readonly options: LoadOptions) {}

  /** Never rejects. */
  of(file: string): Promise<FileFact> {
    let fact = this.#known.get(file);
    if (fact !== undefined) return fact;
    fact = this.#look(file).then((found) => {
      if (found.plan === null) this.#known.delete(file);
      return found;
    });
    this.#known.set(file, fact);
    return fact;
  }

  async #look(file: string): Promise<FileFact> {
    const bytes = modelBytes(file);
    try {
      const { model, plan, reason } = await loadAddon().inspect(file, this.options);
      return {
        bytes,
        architecture: model?.architecture ?? null,
        parameters: model?.parameters ?? null,
        quantization: model?.quantization ?? null,
        task: model === null ? null : taskOf(model),
        memory: plan === null ? null : planBytes(plan),
        plan: plan === null ? null : loadBytes(plan),
        problem: reason,
      };
    } catch (error) {
      return {
        bytes,
        architecture: null,
        parameters: null,
        quantization: null,
        task: null,
        memory: null,
        plan: null,
        problem: (error as Error).message,
      };
    }
  }
}
