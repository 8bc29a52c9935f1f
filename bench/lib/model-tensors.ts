// The tensors of a decoder of a given architecture and shape: in which encoding, and how large their random values are.

import { layoutOf, type Architecture } from './architectures.js';
import type { ModelShape } from './model-shapes.js';
import { ENCODINGS, WEIGHT_TYPES, type WeightType } from './random-weights.js';

// `q4_k_m` mixes Q4_K and Q6_K as quantizers do.
export const MODEL_TYPES = [...WEIGHT_TYPES, 'q4_k_m'] as const;
export type ModelType = (typeof MODEL_TYPES)[number];

export interface RandomTensor {
  readonly name: string;
  readonly dims: readonly number[];
  readonly type: WeightType;
  readonly mean: number;
  readonly std: number;
}

// The encoding of one matrix. In the mix, what errors hurt most gets Q6_K: the output matrix always, and the
// value and down projections in the first and last eighth of the layers and in each third layer between.
function matrixType(type: ModelType, role: string, layer: number, layers: number): WeightType {
  if (type !== 'q4_k_m') return type;
  const eighth = Math.floor(layers / 8);
  const sensitive = layer < eighth || layer >= layers - eighth || (layer - eighth) % 3 === 2;
  const heavy = role === 'attn_v' || role === 'attn_qkv' || role.startsWith('ffn_down');
  return role === 'output' || (sensitive && heavy) ? 'q6_k' : 'q4_k';
}

// Whether this file is a mixture of experts: for architectures that may be either, `asked` decides.
export const hasExperts = (architecture: Architecture, asked: boolean): boolean => {
  const { experts = 'never' } = layoutOf(architecture);
  return experts === 'always' || (experts === 'if asked' && asked);
};

// All tensors in file order. Deviations keep the residual stream and the logits at natural sizes: a matrix maps
// unit variance to unit variance, the two that add to the residual stream are smaller by sqrt(2 * layers),
// and logits have a deviation of about 2.5.
export function tensorsOf(architecture: Architecture, shape: ModelShape, type: ModelType, experts = false): RandomTensor[] {
  const { embedding, layers, heads, kvHeads, headSize, feedForward, vocabulary } = shape;
  const layout = layoutOf(architecture);
  const tensors: RandomTensor[] = [];
  const matrix = (role: string, layer: number, rows: number, columns: number, gain: number, depth = 0, plain = false) => {
    const name = layer < 0 ? `${role}.weight` : `blk.${layer}.${role}.weight`;
    const encoding = plain ? 'f32' : matrixType(type, role, layer, layers);
    const { blockValues } = ENCODINGS[encoding];
    if (columns % blockValues !== 0)
      throw new RangeError(
        `${name}: rows of ${columns} values are not whole blocks of ${encoding} (${blockValues} values)`);
    const dims = depth > 0 ? [columns, rows, depth] : [columns, rows];
    tensors.push({ name, dims, type: encoding, mean: 0, std: gain / Math.sqrt(columns) });
  };
  const vector = (name: string, length: number, mean: number, std: number) => {
    tensors.push({ name, dims: [length], type: 'f32', mean, std });
  };
  const residual = 1 / Math.sqrt(2 * layers);
  const q = heads * headSize, kv = kvHeads * headSize;

  const attention = (layer: number, block: string) => {
    if (layout.preNorm !== false) vector(`${block}.attn_norm.weight`, embedding, 1, 0.1);
    if (layout.fused === 'all') {
      matrix('attn_qkv', layer, q + 2 * kv, embedding, 1);
    } else {
      matrix('attn_q', layer, q, embedding, 1);
      matrix('attn_k', layer, kv, embedding, 1);
      matrix('attn_v', layer, kv, embedding, 1);
    }
    if (layout.qkvBias) {
      vector(`${block}.attn_q.bias`, q, 0, 0.1);
      vector(`${block}.attn_k.bias`, kv, 0, 0.1);
      vector(`${block}.attn_v.bias`, kv, 0, 0.1);
    }
    if (layout.qkNorm) {
      vector(`${block}.attn_q_norm.weight`, layout.qkNorm === 'head' ? headSize : q, 1, 0.1);
      vector(`${block}.attn_k_norm.weight`, layout.qkNorm === 'head' ? headSize : kv, 1, 0.1);
    }
    matrix('attn_output', layer, embedding, q, residual);
    if (layout.postNorm) vector(`${block}.post_attention_norm.weight`, embedding, residual, 0.1 * residual);
  };
  const network = (layer: number, suffix: string, width: number) => {
    if (layout.fused) {
      matrix('ffn_up', layer, 2 * width, embedding, 1);
    } else {
      matrix(`ffn_gate${suffix}`, layer, width, embedding, 1);
      matrix(`ffn_up${suffix}`, layer, width, embedding, 1);
    }
    matrix(`ffn_down${suffix}`, layer, embedding, width, residual);
  };
  const mixture = (layer: number, block: string) => {
    const { experts: count, expertFeedForward: width } = shape;
    matrix('ffn_gate_inp', layer, count, embedding, 1, 0, true);
    matrix('ffn_gate_exps', layer, width, embedding, 1, count);
    matrix('ffn_up_exps', layer, width, embedding, 1, count);
    matrix('ffn_down_exps', layer, embedding, width, residual, count);
    if (sharedWidth(architecture, shape) === 0) return;
    network(layer, '_shexp', sharedWidth(architecture, shape));
    if (layout.sharedExpert === 'gated') vector(`${block}.ffn_gate_inp_shexp.weight`, embedding, 0, 1 / Math.sqrt(embedding));
  };

  // Scaled up by the network, embeddings are written smaller; a tied table serves the logits too.
  const scaled = layout.embeddingScale === 'root' ? Math.sqrt(embedding) : 1;
  matrix('token_embd', -1, vocabulary, embedding, layout.tied ? 2.5 : Math.sqrt(embedding) / scaled);
  vector('output_norm.weight', embedding, 1, 0.1);
  if (!layout.tied) matrix('output', -1, vocabulary, embedding, 2.5);
  if (layout.ropeFactors) {
    vector('rope_factors_long.weight', headSize / 2, 4, 0.5);
    vector('rope_factors_short.weight', headSize / 2, 1, 0.05);
  }
  for (let layer = 0; layer < layers; layer++) {
    const block = `blk.${layer}`;
    attention(layer, block);
    if (layout.preNorm !== false) vector(`${block}.${layout.ffnNorm ?? 'ffn_norm'}.weight`, embedding, 1, 0.1);
    if (hasExperts(architecture, experts)) mixture(layer, block);
    else network(layer, '', feedForward);
    if (layout.postNorm) vector(`${block}.post_ffw_norm.weight`, embedding, residual, 0.1 * residual);
  }
  return tensors;
}

// Width of the network beside the experts; 0: there is none.
export function sharedWidth(architecture: Architecture, shape: ModelShape): number {
  const { sharedExpert } = layoutOf(architecture);
  if (sharedExpert === undefined) return 0;
  return shape.sharedFeedForward || (sharedExpert === 'gated' ? shape.expertFeedForward : 0);
}
