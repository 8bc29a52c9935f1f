// Shapes of published models, for make-model --family: what a tiny file of the family becomes by changing keys. Whoever is too
// large has fewer layers, or fewer experts, or a smaller vocabulary: `cut` says what; widths, heads, states, experts' widths and
// how many of them a token takes are the model's own.

export interface FamilyShape {
  readonly like: string;                         // a golden vector's file (../shared/vectors2/models), or MONOLITH_VECTORS2's
  readonly vocabulary: number;
  readonly cut: string;                          // what is smaller than in the published model; '': nothing
  readonly set: Readonly<Record<string, string>>;
  readonly tensors?: Readonly<Record<string, readonly number[]>>;
  readonly unread?: readonly string[];           // of `tensors`: those that stay where this engine reads none
  readonly layers?: readonly number[];           // which of the pattern's layers each is like, where repeating them does not do
}

const repeated = <T>(count: number, pattern: readonly T[]) => Array.from({ length: count }, (_, i) => pattern[i % pattern.length] as T);
const times = (count: number, pattern: readonly (number | boolean)[]) => repeated(count, pattern).join(',');

// Nemotron-H's layers by letter: a state space, attention, a network.
const letters = (layers: string, kvHeads: number, width: number) => ({
  'block_count': String(layers.length),
  'attention.head_count_kv': [...layers].map((layer) => (layer === '*' ? kvHeads : 0)).join(','),
  'feed_forward_length': [...layers].map((layer) => (layer === '-' ? width : 0)).join(','),
});

// Of a network beside the experts, whose width no key tells.
const shared = (embedding: number, width: number) => ({
  'ffn_gate_shexp.weight': [embedding, width], 'ffn_up_shexp.weight': [embedding, width], 'ffn_down_shexp.weight': [width, embedding],
});

const latents = (keyDim: number, valueDim: number, rank = 512) => ({
  'attention.kv_lora_rank': String(rank), 'attention.key_length': String(rank + 64), 'attention.value_length': String(rank), 'rope.dimension_count': '64',
  'attention.key_length_mla': String(keyDim), 'attention.value_length_mla': String(valueDim),
});

export const FAMILY_SHAPES = {
  'qwen3.5-2b': {
    like: 'qwen35.f16.gguf', vocabulary: 248_320, cut: '',
    set: {
      'embedding_length': '2048', 'block_count': '24', 'feed_forward_length': '6144', 'attention.head_count': '8', 'attention.head_count_kv': '2',
      'attention.key_length': '256', 'attention.value_length': '256', 'rope.dimension_count': '64', 'rope.dimension_sections': '11,11,10,0',
      'ssm.state_size': '128', 'ssm.group_count': '16', 'ssm.time_step_rank': '16', 'ssm.inner_size': '2048',
    },
  },
  'qwen3.5-35b-a3b': {
    like: 'qwen35moe.q8_0.gguf', vocabulary: 32_000, cut: '4 of 40 layers, vocabulary',
    set: {
      'embedding_length': '2048', 'block_count': '4', 'full_attention_interval': '4', 'attention.head_count': '16', 'attention.head_count_kv': '2',
      'attention.key_length': '256', 'attention.value_length': '256', 'rope.dimension_count': '64', 'rope.dimension_sections': '11,11,10,0',
      'ssm.state_size': '128', 'ssm.group_count': '16', 'ssm.time_step_rank': '32', 'ssm.inner_size': '4096',
      'expert_count': '256', 'expert_used_count': '8', 'expert_feed_forward_length': '512', 'expert_shared_feed_forward_length': '512',
    },
  },
  'qwen3-next-80b-a3b': {
    like: 'qwen3next.q8_0.gguf', vocabulary: 32_000, cut: '4 of 48 layers, 256 of 512 experts, vocabulary',
    set: {
      'embedding_length': '2048', 'block_count': '4', 'full_attention_interval': '4', 'attention.head_count': '16', 'attention.head_count_kv': '2',
      'attention.key_length': '256', 'attention.value_length': '256', 'rope.dimension_count': '64',
      'ssm.state_size': '128', 'ssm.group_count': '16', 'ssm.time_step_rank': '32', 'ssm.inner_size': '4096',
      'expert_count': '256', 'expert_used_count': '10', 'expert_feed_forward_length': '512', 'expert_shared_feed_forward_length': '512',
    },
  },
  'gemma-3n-e2b': {
    like: 'gemma3n.q4_0.gguf', vocabulary: 131_072, cut: 'half the vocabulary (and so of the per-layer embeddings)',
    set: {
      'embedding_length': '2048', 'block_count': '30', 'feed_forward_length': '8192', 'attention.head_count': '8', 'attention.head_count_kv': '2',
      'attention.key_length': '256', 'attention.value_length': '256', 'rope.dimension_count': '256', 'attention.sliding_window': '512',
    },
    // Published files have keys and values of the layers that share another's, too.
    tensors: {
      'per_layer_token_embd.weight': [30 * 256, 131_072],
      'attn_k.weight': [2048, 512], 'attn_v.weight': [2048, 512], 'attn_k_norm.weight': [256],
    },
    unread: ['attn_k.weight', 'attn_v.weight', 'attn_k_norm.weight'],
  },
  'gemma-4-e2b': {
    like: 'gemma4-ple.q8_0.gguf', vocabulary: 131_072, cut: 'half the vocabulary (and so of the per-layer embeddings)',
    set: {
      'embedding_length': '1536', 'block_count': '35', 'feed_forward_length': [...Array(15).fill(6144), ...Array(20).fill(12_288)].join(','),
      'attention.head_count': '8', 'attention.head_count_kv': '1', 'attention.key_length': '512', 'attention.value_length': '512',
      'attention.key_length_swa': '256', 'attention.value_length_swa': '256', 'rope.dimension_count': '512', 'rope.dimension_count_swa': '256',
      'attention.sliding_window': '512', 'attention.sliding_window_pattern': times(35, [true, true, true, true, false]),
      'embedding_length_per_layer_input': '256', 'attention.shared_kv_layers': '20',
    },
    layers: [...repeated(15, [0, 0, 0, 0, 2]), ...repeated(20, [3, 3, 3, 3, 5])],
  },
  'gemma-4-31b': {
    like: 'gemma4.f16.gguf', vocabulary: 32_000, cut: '6 of 60 layers, vocabulary',
    set: {
      'embedding_length': '5376', 'block_count': '6', 'feed_forward_length': '21504',
      'attention.head_count': '32', 'attention.head_count_kv': '16,16,16,16,16,4', 'attention.key_length': '512', 'attention.value_length': '512',
      'attention.key_length_swa': '256', 'attention.value_length_swa': '256', 'rope.dimension_count': '512', 'rope.dimension_count_swa': '256',
      'attention.sliding_window': '1024', 'attention.sliding_window_pattern': times(6, [true, true, true, true, true, false]),
    },
    layers: [0, 0, 0, 0, 0, 1],
  },
  'gemma-4-26b-a4b': {
    like: 'gemma4-moe.q8_0.gguf', vocabulary: 32_000, cut: '5 of 30 layers, vocabulary',
    set: {
      'embedding_length': '2816', 'block_count': '5', 'feed_forward_length': '2112',
      'attention.head_count': '16', 'attention.head_count_kv': '8,8,8,8,2', 'attention.key_length': '512', 'attention.value_length': '512',
      'attention.key_length_swa': '256', 'attention.value_length_swa': '256', 'rope.dimension_count': '512', 'rope.dimension_count_swa': '256',
      'attention.sliding_window': '1024', 'attention.sliding_window_pattern': times(5, [true, true, true, true, false]),
      'expert_count': '128', 'expert_used_count': '8', 'expert_feed_forward_length': '704',
    },
    layers: [0, 0, 0, 0, 1],
  },
  'deepseek-v2-lite': {
    like: 'deepseek2-lite.q4_0.gguf', vocabulary: 32_000, cut: '3 of 26 mixtures (the others are dense, as the first layer), vocabulary',
    set: {
      'embedding_length': '2048', 'feed_forward_length': '10944', 'attention.head_count': '16', ...latents(192, 128),
      'leading_dense_block_count': '24', 'expert_count': '64', 'expert_used_count': '6', 'expert_feed_forward_length': '1408',
    },
    tensors: shared(2048, 2816),
  },
  'deepseek-v3': {
    like: 'deepseek2-v3.q8_0.gguf', vocabulary: 32_000, cut: '3 of 61 layers (2 of them mixtures), 24 of 256 experts, vocabulary',
    set: {
      'embedding_length': '7168', 'block_count': '3', 'feed_forward_length': '18432', 'attention.head_count': '128', ...latents(192, 128),
      'attention.q_lora_rank': '1536', 'leading_dense_block_count': '1',
      'expert_count': '24', 'expert_used_count': '8', 'expert_group_count': '8', 'expert_group_used_count': '4', 'expert_feed_forward_length': '2048',
    },
    tensors: shared(7168, 2048),
  },
  'mistral-small-4': {
    like: 'mistral4.q8_0.gguf', vocabulary: 32_000, cut: '2 of 36 layers, 64 of 128 experts, vocabulary',
    set: {
      'embedding_length': '4096', 'block_count': '2', 'feed_forward_length': '12288', 'attention.head_count': '32', ...latents(128, 128, 256),
      'attention.q_lora_rank': '1024', 'expert_count': '64', 'expert_used_count': '4', 'expert_feed_forward_length': '2048',
    },
    tensors: shared(4096, 2048),
  },
  'glm-4.7-flash': {
    like: 'deepseek2-glm47flash.q8_0.gguf', vocabulary: 32_000, cut: '6 of 47 layers, vocabulary',
    set: {
      'embedding_length': '2048', 'block_count': '6', 'feed_forward_length': '10240', 'attention.head_count': '20', ...latents(256, 256),
      'attention.q_lora_rank': '768', 'expert_count': '64', 'expert_used_count': '4', 'expert_feed_forward_length': '1536',
    },
    tensors: shared(2048, 1536),
  },
  'nemotron-h-4b': {
    like: 'nemotron-h.q8_0.gguf', vocabulary: 32_000, cut: '26 of 52 layers, vocabulary',
    set: {
      'embedding_length': '3072', ...letters('M-M-M-MM-M*-M-M-M-MM-M*-M-', 8, 12_288), 'attention.head_count': '32',
      'attention.key_length': '128', 'attention.value_length': '128',
      'ssm.inner_size': '7168', 'ssm.state_size': '128', 'ssm.time_step_rank': '112', 'ssm.group_count': '8',
    },
  },
  'nemotron-3-nano-30b-a3b': {
    like: 'nemotron-h-moe.q8_0.gguf', vocabulary: 32_000, cut: '5 of 52 layers, vocabulary',
    set: {
      'embedding_length': '2688', ...letters('M-M*-', 2, 1856), 'attention.head_count': '32',
      'attention.key_length': '128', 'attention.value_length': '128',
      'ssm.inner_size': '4096', 'ssm.state_size': '128', 'ssm.time_step_rank': '64', 'ssm.group_count': '8',
      'expert_count': '128', 'expert_used_count': '6', 'expert_feed_forward_length': '1856', 'expert_shared_feed_forward_length': '3712',
    },
  },
  'granite-4.0-h-tiny': {
    like: 'granitehybrid.q8_0.gguf', vocabulary: 100_352, cut: '16 of 40 layers',
    set: {
      'embedding_length': '1536', 'block_count': '16', 'feed_forward_length': '512', 'attention.head_count': '12',
      'attention.head_count_kv': Array.from({ length: 16 }, (_, i) => (i % 10 === 5 ? 4 : 0)).join(','), 'rope.dimension_count': '128',
      'ssm.inner_size': '3072', 'ssm.state_size': '128', 'ssm.time_step_rank': '48', 'ssm.group_count': '1',
      'expert_count': '64', 'expert_used_count': '6', 'expert_feed_forward_length': '512', 'expert_shared_feed_forward_length': '1024',
    },
  },
  'mamba2-1.3b': {
    like: 'mamba2.q8_0.gguf', vocabulary: 50_304, cut: '',
    set: {
      'embedding_length': '2048', 'block_count': '48', 'ssm.inner_size': '4096', 'ssm.state_size': '128', 'ssm.time_step_rank': '64', 'ssm.group_count': '1',
    },
  },
  'falcon-h1-1.5b': {
    like: 'falcon-h1.q8_0.gguf', vocabulary: 65_536, cut: '',
    set: {
      'embedding_length': '2048', 'block_count': '24', 'feed_forward_length': '4096', 'attention.head_count': '8', 'attention.head_count_kv': '2',
      'attention.key_length': '128', 'attention.value_length': '128',
      'ssm.inner_size': '3072', 'ssm.state_size': '256', 'ssm.time_step_rank': '48', 'ssm.group_count': '1',
    },
  },
  'lfm2-1.2b': {
    like: 'lfm2.f16.gguf', vocabulary: 65_536, cut: '',
    set: {
      'embedding_length': '2048', 'block_count': '16', 'feed_forward_length': '8192', 'attention.head_count': '32',
      'attention.head_count_kv': '0,0,8,0,0,8,0,0,8,0,8,0,8,0,8,0',
    },
  },
  'lfm2-8b-a1b': {
    like: 'lfm2moe.q8_0.gguf', vocabulary: 65_536, cut: '10 of 24 layers',
    set: {
      'embedding_length': '2048', 'block_count': '10', 'feed_forward_length': '7168', 'attention.head_count': '32',
      'attention.head_count_kv': '0,0,8,0,0,0,8,0,0,0', 'expert_count': '32', 'expert_used_count': '4', 'expert_feed_forward_length': '1792',
    },
  },
  'kimi-linear-48b-a3b': {
    like: 'kimi-linear.q8_0.gguf', vocabulary: 32_000, cut: '4 of 27 layers, 128 of 256 experts, vocabulary',
    set: {
      'embedding_length': '2304', 'block_count': '4', 'feed_forward_length': '9216', 'attention.head_count': '32', 'attention.head_count_kv': '0,0,0,1',
      ...latents(192, 128), 'kda.head_dim': '128', 'expert_count': '128', 'expert_used_count': '8', 'expert_feed_forward_length': '1024',
    },
    tensors: {
      ...shared(2304, 1024), 'ssm_f_a.weight': [2304, 128], 'ssm_f_b.weight': [128, 4096], 'ssm_g_a.weight': [2304, 128], 'ssm_g_b.weight': [128, 4096],
    },
  },
  'minimax-m2': {
    like: 'minimax-m2.q8_0.gguf', vocabulary: 32_000, cut: '4 of 62 layers, 64 of 256 experts, vocabulary',
    set: {
      'embedding_length': '3072', 'block_count': '4', 'feed_forward_length': '1536', 'attention.head_count': '48', 'attention.head_count_kv': '8',
      'attention.key_length': '128', 'attention.value_length': '128', 'rope.dimension_count': '64',
      'expert_count': '64', 'expert_used_count': '8', 'expert_feed_forward_length': '1536',
    },
  },
} as const satisfies Record<string, FamilyShape>;

export type Family = keyof typeof FAMILY_SHAPES;
export const FAMILIES = Object.keys(FAMILY_SHAPES) as Family[];
