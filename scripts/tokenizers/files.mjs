// Writes a tokenizer.json as loadable model files: a Hugging Face directory, and the GGUF file that llama.cpp's
// converter would create. The weights are zeros, because only the vocabulary matters.
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

const WIDTH = 4;

/** The number of embedding rows: the highest token id + 1. */
export function rowsOf(tokenizer) {
  const { vocab } = tokenizer.model;
  const highest = Array.isArray(vocab) ? vocab.length - 1 : Object.values(vocab).reduce((a, b) => Math.max(a, b), 0);
  return (tokenizer.added_tokens ?? []).reduce((most, { id }) => Math.max(most, id), highest) + 1;
}

/** Writes a one-layer Llama to a directory. `tokenizer`: an object, or the file's text. */
export function writeFolder(folder, tokenizer, rows) {
  mkdirSync(folder, { recursive: true });
  const layer = 'model.layers.0.';
  const shapes = {
    'model.embed_tokens.weight': [rows, WIDTH],
    'model.norm.weight': [WIDTH],
    'lm_head.weight': [rows, WIDTH],
    ...Object.fromEntries(
      ['input_layernorm', 'post_attention_layernorm'].map((name) => [`${layer}${name}.weight`, [WIDTH]]),
    ),
    ...Object.fromEntries(
      ['q_proj', 'k_proj', 'v_proj', 'o_proj'].map((name) => [`${layer}self_attn.${name}.weight`, [WIDTH, WIDTH]]),
    ),
    ...Object.fromEntries(
      ['gate_proj', 'up_proj', 'down_proj'].map((name) => [`${layer}mlp.${name}.weight`, [WIDTH, WIDTH]]),
    ),
  };
  let at = 0;
  const header = {};
  for (const [name, shape] of Object.entries(shapes)) {
    const bytes = shape.reduce((a, b) => a * b, 2);
    header[name] = { dtype: 'BF16', shape, data_offsets: [at, at + bytes] };
    at += bytes;
  }
  const head = Buffer.from(JSON.stringify(header));
  const size = Buffer.alloc(8);
  size.writeBigUInt64LE(BigInt(head.length));
  writeFileSync(join(folder, 'model.safetensors'), Buffer.concat([size, head, Buffer.alloc(at)]));
  writeFileSync(
    join(folder, 'config.json'),
    JSON.stringify({
      architectures: ['LlamaForCausalLM'],
      hidden_size: WIDTH,
      num_hidden_layers: 1,
      num_attention_heads: 1,
      num_key_value_heads: 1,
      head_dim: WIDTH,
      intermediate_size: WIDTH,
      max_position_embeddings: 64,
      rms_norm_eps: 1e-5,
      vocab_size: rows,
    }),
  );
  writeFileSync(join(folder, 'tokenizer.json'), typeof tokenizer === 'string' ? tokenizer : JSON.stringify(tokenizer));
  return folder;
}

const u32 = (value) => {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32LE(value);
  return bytes;
};
const u64 = (value) => {
  const bytes = Buffer.alloc(8);
  bytes.writeBigUInt64LE(BigInt(value));
  return bytes;
};
const string = (text) => {
  const bytes = Buffer.from(text);
  return Buffer.concat([u64(bytes.length), bytes]);
};
const entry = (key, type, ...value) => Buffer.concat([string(key), u32(type), ...value]);
const strings = (key, list) => entry(key, 9, u32(8), u64(list.length), Buffer.concat(list.map(string)));
const integers = (key, list) => entry(key, 9, u32(5), u64(list.length), Buffer.from(Int32Array.from(list).buffer));

/** Writes a GGUF file without tensors, with a byte-level vocabulary. `pre`: llama.cpp's name for its pre-tokenizer. */
export function writeGguf(path, tokenizer, pre) {
  const rows = rowsOf(tokenizer);
  const tokens = Array.from({ length: rows }, (_, id) => `[PAD${id}]`);
  const kinds = new Int32Array(rows).fill(5);
  for (const [text, id] of Object.entries(tokenizer.model.vocab)) {
    tokens[id] = text;
    kinds[id] = 1;
  }
  for (const { id, content, special } of tokenizer.added_tokens) {
    tokens[id] = content;
    kinds[id] = special ? 3 : 4;
  }
  const merges = tokenizer.model.merges.map((merge) => (Array.isArray(merge) ? merge.join(' ') : merge));
  const entries = [
    entry('general.architecture', 8, string('llama')),
    entry('tokenizer.ggml.model', 8, string('gpt2')),
    entry('tokenizer.ggml.pre', 8, string(pre)),
    strings('tokenizer.ggml.tokens', tokens),
    integers('tokenizer.ggml.token_type', kinds),
    strings('tokenizer.ggml.merges', merges),
    entry('tokenizer.ggml.add_bos_token', 7, Buffer.from([0])),
  ];
  writeFileSync(path, Buffer.concat([Buffer.from('GGUF'), u32(3), u64(0), u64(entries.length), ...entries]));
  return path;
}
