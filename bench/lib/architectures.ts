// What make-model writes for each architecture: which tensors a layer has, and the metadata keys that
// describe it. Made for files of random weights; native/model/architectures.cc is what reads them.

import type { MetadataValue } from './gguf-writer.js';
import type { ModelShape } from './model-shapes.js';

export interface Layout {
  readonly qkvBias?: boolean;
  readonly qkNorm?: 'head' | 'row';
  readonly preNorm?: false;
  readonly postNorm?: boolean;
  readonly fused?: boolean;             // one tensor for Q, K and V, one for gate and up
  readonly tied?: boolean;              // no output.weight
  readonly ropeFactors?: boolean;       // LongRoPE's two tensors
  readonly experts?: 'never' | 'if asked' | 'always';
  readonly expertsHaveKey?: boolean;    // a key of their own for their width; else feed_forward_length is theirs
  readonly sharedExpert?: 'if asked' | 'gated';
  readonly windows?: boolean;           // reads attention.sliding_window
  readonly embeddingScale?: 'root';     // the network multiplies embeddings by sqrt(embedding)
  readonly keys?: (shape: ModelShape) => readonly (readonly [key: string, value: MetadataValue])[];
  readonly ropeBase?: number;           // default 1000000
}

const real = (value: number): MetadataValue => ({ type: 'float32', value });
const graniteKeys = ({ headSize }: ModelShape) => [
  ['attention.scale', real(1 / headSize)],
  ['embedding_scale', real(12)],
  ['residual_scale', real(0.22)],
  ['logit_scale', real(8)],
] as const;

export const LAYOUTS = {
  llama: { experts: 'if asked', windows: true, ropeBase: 10000 },
  qwen2: { qkvBias: true },
  qwen2moe: { qkvBias: true, experts: 'always', expertsHaveKey: true, sharedExpert: 'gated' },
  qwen3: { qkNorm: 'head' },
  qwen3moe: { qkNorm: 'head', experts: 'always', expertsHaveKey: true },
  gemma: { tied: true, embeddingScale: 'root', ropeBase: 10000 },
  gemma2: {
    postNorm: true, tied: true, windows: true, embeddingScale: 'root', ropeBase: 10000,
    keys: () => [['attn_logit_softcapping', real(50)], ['final_logit_softcapping', real(30)]],
  },
  gemma3: { qkNorm: 'head', postNorm: true, tied: true, windows: true, embeddingScale: 'root' },
  phi3: {
    fused: true, ropeFactors: true, windows: true, ropeBase: 10000,
    keys: ({ context }) => [
      ['rope.scaling.original_context_length', { type: 'uint32', value: Math.ceil(context / 4) }],
      ['rope.scaling.attn_factor', real(1.1902)],
    ],
  },
  smollm3: { tied: true },
  granite: { tied: true, ropeBase: 10000, keys: graniteKeys },
  granitemoe: { tied: true, experts: 'always', sharedExpert: 'if asked', ropeBase: 10000, keys: graniteKeys },
  olmo2: { qkNorm: 'row', preNorm: false, postNorm: true, windows: true },
  olmoe: { qkNorm: 'row', experts: 'always', ropeBase: 10000 },
  exaone: {},
  internlm2: {},
} as const satisfies Record<string, Layout>;

export type Architecture = keyof typeof LAYOUTS;
export const ARCHITECTURES = Object.keys(LAYOUTS) as Architecture[];
export const layoutOf = (architecture: Architecture): Layout => LAYOUTS[architecture];
