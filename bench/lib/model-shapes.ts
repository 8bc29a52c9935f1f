// The sizes of the models that make-model can write by name.

import { MAX_VOCABULARY, MIN_VOCABULARY } from './synthetic-vocabulary.js';

export interface ModelShape {
  readonly embedding: number; // hidden size
  readonly layers: number;
  readonly heads: number;
  readonly kvHeads: number;
  readonly headSize: number;
  readonly feedForward: number;
  readonly vocabulary: number;
  readonly context: number;
  readonly experts: number; // 0 if there are none
  readonly usedExperts: number; // active experts per token
  readonly expertFeedForward: number;
  readonly sharedFeedForward: number; // width of the shared expert; 0 if there is none
  readonly window: number; // sliding-window size in tokens; 0 if no layer has one
}

// A mixture of experts with as many layers as the dense preset; two of its eight experts are active per token.
const mixture = (feedForward: number) =>
  ({ experts: 8, usedExperts: 2, expertFeedForward: feedForward, sharedFeedForward: 0, window: 0 }) as const;

export const PRESETS = {
  // Small enough for tests, but large enough for every encoding: row lengths are multiples of 256.
  tiny: {
    embedding: 256,
    layers: 2,
    heads: 4,
    kvHeads: 2,
    headSize: 64,
    feedForward: 512,
    vocabulary: 1024,
    context: 2048,
    ...mixture(256),
  },
  // 1.1 billion parameters, the shape of TinyLlama.
  '1b': {
    embedding: 2048,
    layers: 22,
    heads: 32,
    kvHeads: 4,
    headSize: 64,
    feedForward: 5632,
    vocabulary: 32000,
    context: 4096,
    ...mixture(2816),
  },
  // 7.2 billion parameters, the shape of Mistral 7B.
  '7b': {
    embedding: 4096,
    layers: 32,
    heads: 32,
    kvHeads: 8,
    headSize: 128,
    feedForward: 14336,
    vocabulary: 32000,
    context: 8192,
    ...mixture(14336),
  },
  // 3.1 billion parameters, 0.6 billion active: many small experts with a few in use, like Qwen3 30B-A3B, at a tenth of
  // its size.
  '3b-a1b': {
    embedding: 2048,
    layers: 16,
    heads: 16,
    kvHeads: 4,
    headSize: 128,
    feedForward: 6144,
    vocabulary: 32000,
    context: 4096,
    experts: 32,
    usedExperts: 4,
    expertFeedForward: 768,
    sharedFeedForward: 0,
    window: 0,
  },
  // 30.5 billion parameters, 3.3 billion active: the shape of Qwen3 30B-A3B.
  '30b-a3b': {
    embedding: 2048,
    layers: 48,
    heads: 32,
    kvHeads: 4,
    headSize: 128,
    feedForward: 6144,
    vocabulary: 151936,
    context: 40960,
    experts: 128,
    usedExperts: 8,
    expertFeedForward: 768,
    sharedFeedForward: 0,
    window: 0,
  },
} as const satisfies Record<string, ModelShape>;
export type Preset = keyof typeof PRESETS;

const LARGEST = 1 << 20; // limit for any dimension, so that the product of two dimensions is exact

const MAY_BE_NONE = new Set<string>(['experts', 'sharedFeedForward', 'window'] satisfies (keyof ModelShape)[]);

export function checkShape(shape: ModelShape): void {
  for (const [field, value] of Object.entries(shape) as [string, number][]) {
    const least = MAY_BE_NONE.has(field) ? 0 : 1;
    if (!Number.isInteger(value) || value < least || value > LARGEST)
      throw new RangeError(`${field} is ${value}; it must be an integer from ${least} to ${LARGEST}`);
  }
  if (shape.experts > 0 && shape.usedExperts > shape.experts)
    throw new RangeError(`usedExperts (${shape.usedExperts}) is more than experts (${shape.experts})`);
  if (shape.heads % shape.kvHeads !== 0)
    throw new RangeError(`heads (${shape.heads}) must be a multiple of kvHeads (${shape.kvHeads})`);
  if (shape.headSize % 2 !== 0) throw new RangeError(`headSize (${shape.headSize}) must be even`);
  if (shape.vocabulary < MIN_VOCABULARY || shape.vocabulary > MAX_VOCABULARY)
    throw new RangeError(`vocabulary is ${shape.vocabulary}; ${MIN_VOCABULARY} to ${MAX_VOCABULARY} are possible`);
}
