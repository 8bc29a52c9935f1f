// Writes vision files with random weights. One encoder has the shape of SigLIP so400m with Gemma 3's projector, for
// images of 896 x 896 pixels; the other has the shape of InternViT 300M with InternVL's projector, for tiles of 448 x
// 448.
import { writeRandomModel } from '../make-model.js';
import type { Metadata } from './gguf-writer.js';
import type { RandomTensor } from './model-tensors.js';
import type { WeightType } from './random-weights.js';

export interface RandomEncoderOptions {
  readonly out: string;
  readonly rowWidth: number; // embedding width of the text model
  readonly kind?: keyof typeof TOWERS; // default so400m
  readonly type?: WeightType; // type of the matrices; default f16
  readonly layers?: number; // default: as in the published encoder
}

interface EncoderShape {
  readonly projector: string;
  readonly image: number;
  readonly width: number;
  readonly inner: number;
  readonly layers: number;
  readonly heads: number;
  readonly mean: readonly number[];
  readonly std: readonly number[];
}

const PATCH = 14;
const HALVES = [0.5, 0.5, 0.5];
const TOWERS = {
  so400m: {
    projector: 'gemma3',
    image: 896,
    width: 1_152,
    inner: 4_304,
    layers: 27,
    heads: 16,
    mean: HALVES,
    std: HALVES,
  },
  'internvit-300m': {
    projector: 'internvl',
    image: 448,
    width: 1_024,
    inner: 4_096,
    layers: 24,
    heads: 16,
    mean: [0.485, 0.456, 0.406],
    std: [0.229, 0.224, 0.225],
  },
} as const satisfies Record<string, EncoderShape>;

/** Writes the file unless it exists. */
export function makeRandomEncoder({
  out,
  rowWidth,
  kind = 'so400m',
  type = 'f16',
  layers = TOWERS[kind].layers,
}: RandomEncoderOptions): { written: boolean; bytes: number } {
  const { projector, image, width, inner, heads, mean, std } = TOWERS[kind];
  const count = (key: string, value: number) => [`clip.vision.${key}`, { type: 'uint32', value }] as const;
  const numbers = (value: readonly number[]) => ({ type: 'float32s', value: [...value] }) as const;
  const metadata: Metadata = [
    ['general.architecture', { type: 'string', value: 'clip' }],
    ['general.name', { type: 'string', value: `random ${kind}` }],
    ['general.file_type', { type: 'uint32', value: 1 }],
    ['clip.has_vision_encoder', { type: 'bool', value: true }],
    ['clip.projector_type', { type: 'string', value: projector }],
    ['clip.use_gelu', { type: 'bool', value: true }],
    count('projection_dim', rowWidth),
    count('image_size', image),
    count('patch_size', PATCH),
    count('embedding_length', width),
    count('feed_forward_length', inner),
    count('block_count', layers),
    count('attention.head_count', heads),
    ['clip.vision.attention.layer_norm_epsilon', { type: 'float32', value: 1e-6 }],
    ['clip.vision.image_mean', numbers(mean)],
    ['clip.vision.image_std', numbers(std)],
    ...(projector === 'internvl'
      ? [count('projector.scale_factor', 2), count('preproc_min_tiles', 1), count('preproc_max_tiles', 12)]
      : []),
  ];
  const tensors: RandomTensor[] = [];
  const weight = (name: string, rows: number, cols: number) =>
    tensors.push({ name: `${name}.weight`, dims: [cols, rows], type, mean: 0, std: 1 / Math.sqrt(cols) });
  const vector = (name: string, size: number, around: number, spread: number) =>
    tensors.push({ name, dims: [size], type: 'f32', mean: around, std: spread });
  const matrix = (name: string, rows: number, cols: number) => {
    weight(name, rows, cols);
    vector(`${name}.bias`, rows, 0, 0.02);
  };
  const norm = (name: string, size: number = width) => {
    vector(`${name}.weight`, size, 1, 0.05);
    vector(`${name}.bias`, size, 0, 0.02);
  };
  const patches = (image / PATCH) ** 2;
  if (projector === 'internvl') vector('v.class_embd', width, 0, 0.3);
  tensors.push({ name: 'v.patch_embd.weight', dims: [PATCH, PATCH, 3, width], type, mean: 0, std: 0.04 });
  vector('v.patch_embd.bias', width, 0, 0.02);
  tensors.push({
    name: 'v.position_embd.weight',
    dims: [width, patches + (projector === 'internvl' ? 1 : 0)],
    type: 'f32',
    mean: 0,
    std: 0.3,
  });
  for (let layer = 0; layer < layers; layer++) {
    const at = `v.blk.${layer}.`;
    norm(`${at}ln1`);
    for (const name of ['attn_q', 'attn_k', 'attn_v', 'attn_out']) matrix(at + name, width, width);
    norm(`${at}ln2`);
    matrix(`${at}ffn_up`, inner, width);
    matrix(`${at}ffn_down`, width, inner);
    if (projector === 'internvl') for (const name of ['ls1', 'ls2']) vector(`${at}${name}.weight`, width, 1, 0.05);
  }
  if (projector === 'internvl') {
    norm('mm.model.mlp.0', 4 * width);
    matrix('mm.model.mlp.1', rowWidth, 4 * width);
    matrix('mm.model.mlp.3', rowWidth, rowWidth);
  } else {
    norm('v.post_ln');
    vector('mm.soft_emb_norm.weight', width, 1, 0.05);
    weight('mm.input_projection', rowWidth, width);
  }
  return writeRandomModel(out, metadata, tensors, 7);
}
