// The shapes that make-model can write: which tensors a decoder of a given architecture has, in which
// encoding, and how large their random values are.

import { ENCODINGS, WEIGHT_TYPES, type WeightType } from './random-weights.js';
import { MAX_VOCABULARY, MIN_VOCABULARY } from './synthetic-vocabulary.js';

export const ARCHITECTURES = ['llama', 'qwen2', 'qwen3'] as const;
export type Architecture = (typeof ARCHITECTURES)[number];

// `q4_k_m` mixes Q4_K and Q6_K as quantizers do.
export const MODEL_TYPES = [...WEIGHT_TYPES, 'q4_k_m'] as const;
export type ModelType = (typeof MODEL_TYPES)[number];

export interface ModelShape {
  readonly embedding: number;      // hidden size
  readonly layers: number;
  readonly heads: number;
  readonly kvHeads: number;
  readonly headSize: number;
  readonly feedForward: number;
  readonly vocabulary: number;
  readonly context: number;
}

export const PRESETS = {
  // Small enough for a test, large enough for every encoding: rows of 256 values and multiples.
  tiny: {
    embedding: 256, layers: 2, heads: 4, kvHeads: 2, headSize: 64,
    feedForward: 512, vocabulary: 1024, context: 2048,
  },
  // 1.1 billion parameters, the shape of TinyLlama.
  '1b': {
    embedding: 2048, layers: 22, heads: 32, kvHeads: 4, headSize: 64,
    feedForward: 5632, vocabulary: 32000, context: 4096,
  },
  // 7.2 billion parameters, the shape of Mistral 7B.
  '7b': {
    embedding: 4096, layers: 32, heads: 32, kvHeads: 8, headSize: 128,
    feedForward: 14336, vocabulary: 32000, context: 8192,
  },
} as const satisfies Record<string, ModelShape>;
export type Preset = keyof typeof PRESETS;

export interface RandomTensor {
  readonly name: string;
  readonly dims: readonly number[];
  readonly type: WeightType;
  readonly mean: number;
  readonly std: number;
}

const LARGEST = 1 << 20;   // of any dimension: products of two stay exact

export function checkShape(shape: ModelShape): void {
  for (const [field, value] of Object.entries(shape) as [string, number][])
    if (!Number.isInteger(value) || value < 1 || value > LARGEST)
      throw new RangeError(`${field} is ${value}; an integer from 1 to ${LARGEST} is needed`);
  if (shape.heads % shape.kvHeads !== 0)
    throw new RangeError(`heads (${shape.heads}) must be a multiple of kvHeads (${shape.kvHeads})`);
  if (shape.headSize % 2 !== 0) throw new RangeError(`headSize (${shape.headSize}) must be even`);
  if (shape.vocabulary < MIN_VOCABULARY || shape.vocabulary > MAX_VOCABULARY)
    throw new RangeError(`vocabulary is ${shape.vocabulary}; ${MIN_VOCABULARY} to ${MAX_VOCABULARY} can be made`);
}

// The encoding of one matrix. In the mix, what errors hurt most gets Q6_K: the output matrix always, and the
// value and down projections in the first and last eighth of the layers and in each third layer between.
function matrixType(type: ModelType, role: string, layer: number, layers: number): WeightType {
  if (type !== 'q4_k_m') return type;
  const eighth = Math.floor(layers / 8);
  const sensitive = layer < eighth || layer >= layers - eighth || (layer - eighth) % 3 === 2;
  return role === 'output' || (sensitive && (role === 'attn_v' || role === 'ffn_down')) ? 'q6_k' : 'q4_k';
}

// All tensors in file order. Deviations keep the residual stream and the logits at natural sizes: a matrix maps
// unit variance to unit variance, the two that add to the residual stream are smaller by sqrt(2 * layers),
// and logits have a deviation of about 2.5.
export function tensorsOf(architecture: Architecture, shape: ModelShape, type: ModelType): RandomTensor[] {
  const { embedding, layers, heads, kvHeads, headSize, feedForward, vocabulary } = shape;
  const tensors: RandomTensor[] = [];
  const matrix = (role: string, layer: number, rows: number, columns: number, gain: number) => {
    const name = layer < 0 ? `${role}.weight` : `blk.${layer}.${role}.weight`;
    const encoding = matrixType(type, role, layer, layers);
    const { blockValues } = ENCODINGS[encoding];
    if (columns % blockValues !== 0)
      throw new RangeError(
        `${name}: rows of ${columns} values are not whole blocks of ${encoding} (${blockValues} values)`);
    tensors.push({ name, dims: [columns, rows], type: encoding, mean: 0, std: gain / Math.sqrt(columns) });
  };
  const vector = (name: string, length: number, mean: number, std: number) => {
    tensors.push({ name, dims: [length], type: 'f32', mean, std });
  };
  const residual = 1 / Math.sqrt(2 * layers);
  matrix('token_embd', -1, vocabulary, embedding, Math.sqrt(embedding));
  vector('output_norm.weight', embedding, 1, 0.1);
  matrix('output', -1, vocabulary, embedding, 2.5);
  for (let layer = 0; layer < layers; layer++) {
    const block = `blk.${layer}`;
    vector(`${block}.attn_norm.weight`, embedding, 1, 0.1);
    matrix('attn_q', layer, heads * headSize, embedding, 1);
    matrix('attn_k', layer, kvHeads * headSize, embedding, 1);
    matrix('attn_v', layer, kvHeads * headSize, embedding, 1);
    if (architecture === 'qwen2') {
      vector(`${block}.attn_q.bias`, heads * headSize, 0, 0.1);
      vector(`${block}.attn_k.bias`, kvHeads * headSize, 0, 0.1);
      vector(`${block}.attn_v.bias`, kvHeads * headSize, 0, 0.1);
    }
    if (architecture === 'qwen3') {
      vector(`${block}.attn_q_norm.weight`, headSize, 1, 0.1);
      vector(`${block}.attn_k_norm.weight`, headSize, 1, 0.1);
    }
    matrix('attn_output', layer, embedding, heads * headSize, residual);
    vector(`${block}.ffn_norm.weight`, embedding, 1, 0.1);
    matrix('ffn_gate', layer, feedForward, embedding, 1);
    matrix('ffn_up', layer, feedForward, embedding, 1);
    matrix('ffn_down', layer, embedding, feedForward, residual);
  }
  return tensors;
}
