// The metadata keys and the optional tensors that make-model writes for each architecture that it knows by name. The
// metadata determines all other tensors (wanted-tensors.ts).

import type { MetadataValue } from './gguf-writer.js';
import type { ModelShape } from './model-shapes.js';
import type { ListedTensor } from './wanted-tensors.js';

export interface Layout {
  readonly tied?: boolean; // no output.weight
  readonly carries?: (shape: ModelShape) => readonly ListedTensor[];
  readonly experts?: 'never' | 'if asked' | 'always';
  readonly expertsHaveKey?: boolean; // a separate key holds the expert width; otherwise it is feed_forward_length
  readonly sharedExpert?: 'if asked' | 'gated';
  readonly windows?: boolean; // reads attention.sliding_window
  readonly embeddingScale?: 'root'; // the model multiplies embeddings by sqrt(embedding)
  readonly keys?: (shape: ModelShape) => readonly (readonly [key: string, value: MetadataValue])[];
  readonly ropeBase?: number; // default 1000000
}

const biases = ({ heads, kvHeads, headSize }: ModelShape): ListedTensor[] =>
  [
    ['q', heads],
    ['k', kvHeads],
    ['v', kvHeads],
  ].map(([one, n]) => ({ name: `blk.0.attn_${one}.bias`, dims: [Number(n) * headSize] }));
const fusedQkv = ({ embedding, heads, kvHeads, headSize }: ModelShape): ListedTensor => ({
  name: 'blk.0.attn_qkv.weight',
  dims: [embedding, (heads + 2 * kvHeads) * headSize],
});
const ropeFactors = ({ headSize }: ModelShape): ListedTensor[] =>
  ['long', 'short'].map((which) => ({ name: `rope_factors_${which}.weight`, dims: [headSize / 2] }));
const real = (value: number): MetadataValue => ({ type: 'float32', value });
const graniteKeys = ({ headSize }: ModelShape) =>
  [
    ['attention.scale', real(1 / headSize)],
    ['embedding_scale', real(12)],
    ['residual_scale', real(0.22)],
    ['logit_scale', real(8)],
  ] as const;

export const LAYOUTS = {
  llama: { experts: 'if asked', windows: true, ropeBase: 10000 },
  qwen2: {},
  qwen2moe: { experts: 'always', expertsHaveKey: true, sharedExpert: 'gated' },
  qwen3: {},
  qwen3moe: { experts: 'always', expertsHaveKey: true },
  gemma: { tied: true, embeddingScale: 'root', ropeBase: 10000 },
  gemma2: {
    tied: true,
    windows: true,
    embeddingScale: 'root',
    ropeBase: 10000,
    keys: () => [
      ['attn_logit_softcapping', real(50)],
      ['final_logit_softcapping', real(30)],
    ],
  },
  gemma3: { tied: true, windows: true, embeddingScale: 'root' },
  phi3: {
    carries: (shape) => [fusedQkv(shape), ...ropeFactors(shape)],
    windows: true,
    ropeBase: 10000,
    keys: ({ context }) => [
      ['rope.scaling.original_context_length', { type: 'uint32', value: Math.ceil(context / 4) }],
      ['rope.scaling.attn_factor', real(1.1902)],
    ],
  },
  smollm3: { tied: true },
  granite: { tied: true, ropeBase: 10000, keys: graniteKeys },
  granitemoe: { tied: true, experts: 'always', sharedExpert: 'if asked', ropeBase: 10000, keys: graniteKeys },
  minicpm: { ropeBase: 10000, keys: (shape) => graniteKeys(shape).slice(1) },
  olmo2: { windows: true },
  olmoe: { experts: 'always', ropeBase: 10000 },
  exaone: {},
  exaone4: { windows: true },
  glm4: {
    carries: biases,
    ropeBase: 10000,
    keys: ({ headSize }) => [['rope.dimension_count', { type: 'uint32', value: headSize / 2 }]],
  },
  seed_oss: { carries: biases },
  ernie4_5: {},
  internlm2: {},
  xverse: { ropeBase: 10000 },
} as const satisfies Record<string, Layout>;

export type Architecture = keyof typeof LAYOUTS;
export const ARCHITECTURES = Object.keys(LAYOUTS) as Architecture[];
export const layoutOf = (architecture: Architecture): Layout => LAYOUTS[architecture];

/** Whether a model is a mixture of experts. `asked` decides for architectures that exist in both forms. */
export const hasExperts = (architecture: Architecture, asked: boolean): boolean => {
  const { experts = 'never' } = layoutOf(architecture);
  return experts === 'always' || (experts === 'if asked' && asked);
};

/** Width of the shared expert; 0 if there is none. */
export function sharedWidth(architecture: Architecture, shape: ModelShape): number {
  const { sharedExpert } = layoutOf(architecture);
  if (sharedExpert === undefined) return 0;
  return shape.sharedFeedForward || (sharedExpert === 'gated' ? shape.expertFeedForward : 0);
}
