// A vision file of random weights: a tower of SigLIP so400m's shape with Gemma 3's projector, for pictures of 896 x 896.
import { writeRandomModel } from '../make-model.js';
import type { Metadata } from './gguf-writer.js';
import type { RandomTensor } from './model-tensors.js';
import type { WeightType } from './random-weights.js';

export interface RandomTowerOptions {
  readonly out: string;
  readonly rowWidth: number;          // of the text model's rows
  readonly type?: WeightType;         // of matrices; default f16
  readonly layers?: number;           // default 27
  readonly image?: number;            // side in pixels; default 896
}

const PATCH = 14, WIDTH = 1_152, INNER = 4_304, HEADS = 16;

/** Writes the file unless it is there. */
export function makeRandomTower({ out, rowWidth, type = 'f16', layers = 27, image = 896 }: RandomTowerOptions): { written: boolean; bytes: number } {
  const count = (key: string, value: number) => [`clip.vision.${key}`, { type: 'uint32', value }] as const;
  const halves = { type: 'float32s', value: [0.5, 0.5, 0.5] } as const;
  const metadata: Metadata = [
    ['general.architecture', { type: 'string', value: 'clip' }],
    ['general.name', { type: 'string', value: 'random so400m' }],
    ['general.file_type', { type: 'uint32', value: 1 }],
    ['clip.has_vision_encoder', { type: 'bool', value: true }],
    ['clip.projector_type', { type: 'string', value: 'gemma3' }],
    ['clip.use_gelu', { type: 'bool', value: true }],
    count('projection_dim', rowWidth), count('image_size', image), count('patch_size', PATCH), count('embedding_length', WIDTH),
    count('feed_forward_length', INNER), count('block_count', layers), count('attention.head_count', HEADS),
    ['clip.vision.attention.layer_norm_epsilon', { type: 'float32', value: 1e-6 }],
    ['clip.vision.image_mean', halves], ['clip.vision.image_std', halves],
  ];
  const tensors: RandomTensor[] = [];
  const matrix = (name: string, rows: number, cols: number) => {
    tensors.push({ name: `${name}.weight`, dims: [cols, rows], type, mean: 0, std: 1 / Math.sqrt(cols) });
    tensors.push({ name: `${name}.bias`, dims: [rows], type: 'f32', mean: 0, std: 0.02 });
  };
  const norm = (name: string) => {
    tensors.push({ name: `${name}.weight`, dims: [WIDTH], type: 'f32', mean: 1, std: 0.05 });
    tensors.push({ name: `${name}.bias`, dims: [WIDTH], type: 'f32', mean: 0, std: 0.02 });
  };
  const side = image / PATCH;
  tensors.push({ name: 'v.patch_embd.weight', dims: [PATCH, PATCH, 3, WIDTH], type, mean: 0, std: 0.04 });
  tensors.push({ name: 'v.patch_embd.bias', dims: [WIDTH], type: 'f32', mean: 0, std: 0.02 });
  tensors.push({ name: 'v.position_embd.weight', dims: [WIDTH, side * side], type: 'f32', mean: 0, std: 0.3 });
  for (let layer = 0; layer < layers; layer++) {
    const at = `v.blk.${layer}.`;
    norm(`${at}ln1`);
    for (const name of ['attn_q', 'attn_k', 'attn_v', 'attn_out']) matrix(at + name, WIDTH, WIDTH);
    norm(`${at}ln2`);
    matrix(`${at}ffn_up`, INNER, WIDTH);
    matrix(`${at}ffn_down`, WIDTH, INNER);
  }
  norm('v.post_ln');
  tensors.push({ name: 'mm.soft_emb_norm.weight', dims: [WIDTH], type: 'f32', mean: 1, std: 0.05 });
  tensors.push({ name: 'mm.input_projection.weight', dims: [rowWidth, WIDTH], type, mean: 0, std: 1 / Math.sqrt(WIDTH) });
  return writeRandomModel(out, metadata, tensors, 7);
}
