// The random weights of a model: each tensor's encoding and the magnitude of its values. The addon determines which
// tensors exist (wanted-tensors.ts).

import { ENCODINGS, WEIGHT_TYPES, type WeightType } from './random-weights.js';
import type { WantedTensor } from './wanted-tensors.js';

// `q4_k_m` mixes Q4_K and Q6_K, as llama.cpp's quantizer does.
export const MODEL_TYPES = [...WEIGHT_TYPES, 'q4_k_m'] as const;
export type ModelType = (typeof MODEL_TYPES)[number];

export interface RandomTensor {
  readonly name: string;
  readonly dims: readonly number[];
  readonly type: WeightType | 'i32';
  readonly mean: number;
  readonly std: number;
  readonly below?: number; // for i32: the exclusive upper bound of the values
}

export interface Weighting {
  readonly type: ModelType;
  readonly layers: number;
  readonly experts?: number; // for tables of expert indices: the number of experts
  // the embeddings' standard deviation, multiplied by the square root of the embedding length; if absent, the standard
  // deviation is 1
  readonly embeddingGain?: number;
  // if a row is not a whole number of blocks, fall back to an encoding with smaller blocks, as quantizers do; otherwise
  // refuse it
  readonly mixed?: boolean;
}

// The standard deviations keep the residual stream and the logits at realistic magnitudes. A matrix maps unit variance
// to unit variance, values added to the residual stream are smaller by a factor of sqrt(2 * layers), and logits have a
// standard deviation of about 2.5.
export function randomTensors(wanted: readonly WantedTensor[], weighting: Weighting): RandomTensor[] {
  return wanted.map(({ name, shape, vector }) => {
    const columns = shape[0] ?? 1;
    if (TABLE.test(name))
      return { name, dims: shape, type: 'i32', mean: 0, std: 0, below: Math.max(1, weighting.experts ?? 1) };
    if (vector) {
      const [mean, std] = vectorValues(name, weighting.layers) ?? [0, shape.length > 1 ? 1 / Math.sqrt(columns) : 0.1];
      return { name, dims: shape, type: 'f32', mean, std };
    }
    return {
      name,
      dims: shape,
      type: encodingOf(name, columns, weighting),
      mean: 0,
      std: gainOf(name, columns, weighting) / Math.sqrt(columns),
    };
  });
}

// The table that maps each token id to its experts (DeepSeek V4).
const TABLE = /\.ffn_gate_tid2eid\.weight$/;

// Tensors whose output is added to the residual stream.
const ADDS = /^blk\.\d+\.(attn_output|ffn_down|ffn_down_exps|ffn_down_shexp|ssm_out|shortconv\.out_proj)\.weight$/;
const residual = (layers: number) => 1 / Math.sqrt(2 * layers);

function gainOf(name: string, columns: number, { layers, embeddingGain }: Weighting): number {
  if (name === 'output.weight') return 2.5;
  if (name === 'token_embd.weight') return embeddingGain ?? Math.sqrt(columns);
  return ADDS.test(name) ? residual(layers) : 1;
}

// Vectors whose mean is not 0: scale factors, and decays, which must be negative.
function vectorValues(name: string, layers: number): readonly [mean: number, std: number] | null {
  if (/^blk\.\d+\.post_.*norm\.weight$/.test(name)) return [residual(layers), 0.1 * residual(layers)];
  if (/norm.*\.weight$|(scale|ssm_d)(\.weight)?$/.test(name)) return [1, 0.1];
  return name.endsWith('ssm_a') ? [-1, 0.1] : null;
}

function encodingOf(name: string, columns: number, { type, layers, mixed }: Weighting): WeightType {
  if (/\.ffn_gate_inp|^(position_embd|token_types)\./.test(name)) return 'f32'; // converters keep these in F32
  const wanted = type === 'q4_k_m' ? mixtureType(name, layers) : type;
  const { blockValues } = ENCODINGS[wanted];
  if (columns % blockValues === 0) return wanted;
  if (mixed !== true)
    throw new RangeError(
      `${name}: rows of ${columns} values are not a multiple of the ${wanted} block size (${blockValues} values)`,
    );
  return columns % ENCODINGS.q8_0.blockValues === 0 ? 'q8_0' : 'f16';
}

// The tensors that are most sensitive to errors get Q6_K: always the output matrix, and the value and down projections
// in the first and last eighth of the layers and in every third layer in between.
function mixtureType(name: string, layers: number): WeightType {
  if (name === 'output.weight') return 'q6_k';
  const [, layer = '0', heavy] = /^blk\.(\d+)\.(attn_v|attn_qkv|ffn_down\w*)?/.exec(name) ?? [];
  const at = Number(layer),
    eighth = Math.floor(layers / 8);
  const sensitive = at < eighth || at >= layers - eighth || (at - eighth) % 3 === 2;
  return sensitive && heavy !== undefined ? 'q6_k' : 'q4_k';
}
