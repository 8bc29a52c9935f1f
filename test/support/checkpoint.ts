// Converts a GGUF file of the llama architecture with a byte-level vocabulary back to a Hugging Face directory in F32,
// the inverse of llama.cpp's converter. Used by tests that serve a Hugging Face directory.
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

type Value = string | number | bigint | boolean | Value[];
interface Tensor {
  name: string;
  shape: number[];
  type: number;
  offset: number;
}

interface Gguf {
  metadata: Map<string, Value>;
  tensors: Tensor[];
  floats(tensor: Tensor): Float32Array;
}

/** Supports only what these files contain: no nested arrays, and only F32 and Q8_0 tensors. */
function readGguf(path: string): Gguf {
  const bytes = readFileSync(path);
  let at = 8;
  const u32 = (): number => {
    at += 4;
    return bytes.readUInt32LE(at - 4);
  };
  const u64 = (): number => {
    at += 8;
    return Number(bytes.readBigUInt64LE(at - 8));
  };
  const text = (): string => {
    const n = u64();
    at += n;
    return bytes.toString('utf8', at - n, at);
  };
  const value = (type: number): Value => {
    if (type === 8) return text();
    if (type === 9) {
      const of = u32();
      return Array.from({ length: u64() }, () => value(of));
    }
    const [size, read] = (
      {
        4: [4, () => bytes.readUInt32LE(at)],
        5: [4, () => bytes.readInt32LE(at)],
        6: [4, () => bytes.readFloatLE(at)],
        7: [1, () => bytes[at] === 1],
      } as Record<number, [number, () => Value]>
    )[type] as [number, () => Value];
    const result = read();
    at += size;
    return result;
  };
  const nTensors = u64();
  const metadata = new Map(
    Array.from({ length: u64() }, () => {
      const key = text();
      return [key, value(u32())] as const;
    }),
  );
  const tensors = Array.from({ length: nTensors }, (): Tensor => {
    const name = text();
    const shape = Array.from({ length: u32() }, u64);
    return { name, shape, type: u32(), offset: u64() };
  });
  const data = Math.ceil(at / 32) * 32;
  return {
    metadata,
    tensors,
    floats({ shape, type, offset }) {
      const values = new Float32Array(shape.reduce((a, b) => a * b, 1));
      const begin = data + offset;
      if (type === 0) return values.map((_, i) => bytes.readFloatLE(begin + 4 * i));
      for (let block = 0; block * 32 < values.length; block++) {
        const scale = halfToNumber(bytes.readUInt16LE(begin + block * 34));
        for (let i = 0; i < 32; i++) values[block * 32 + i] = scale * bytes.readInt8(begin + block * 34 + 2 + i);
      }
      return values;
    },
  };
}

function halfToNumber(bits: number): number {
  const exponent = (bits >> 10) & 31;
  const magnitude = exponent === 0 ? (bits & 1023) * 2 ** -24 : (1 + (bits & 1023) / 1024) * 2 ** (exponent - 15);
  return bits >> 15 === 1 ? -magnitude : magnitude;
}

const NAMES: Record<string, string> = {
  attn_norm: 'input_layernorm',
  attn_q: 'self_attn.q_proj',
  attn_k: 'self_attn.k_proj',
  attn_v: 'self_attn.v_proj',
  attn_output: 'self_attn.o_proj',
  ffn_norm: 'post_attention_layernorm',
  ffn_gate: 'mlp.gate_proj',
  ffn_up: 'mlp.up_proj',
  ffn_down: 'mlp.down_proj',
  token_embd: 'model.embed_tokens',
  output_norm: 'model.norm',
  output: 'lm_head',
};

function checkpointName(name: string): string {
  const [, layer, stem] = /^(?:blk\.(\d+)\.)?(\w+)\.weight$/.exec(name) as unknown as [
    string,
    string | undefined,
    string,
  ];
  return `${layer === undefined ? '' : `model.layers.${layer}.`}${NAMES[stem] ?? stem}.weight`;
}

/** Separates the two halves of each attention head's rows, which the GGUF converter interleaves. */
function withHalves(values: Float32Array, cols: number, heads: number): Float32Array {
  const rows = values.length / cols;
  const width = rows / heads;
  const out = new Float32Array(values.length);
  for (let row = 0; row < rows; row++) {
    const inHead = row % width;
    const to = row - inHead + (inHead % 2) * (width / 2) + (inHead >> 1);
    out.set(values.subarray(row * cols, (row + 1) * cols), to * cols);
  }
  return out;
}

/** Writes `shards` tensor files, with an index if there is more than one file. */
export function writeCheckpoint(gguf: string, folder: string, shards: number): void {
  const file = readGguf(gguf);
  const known = (key: string): Value => {
    const found = file.metadata.get(key);
    if (found === undefined) throw new Error(`${gguf} has no ${key}`);
    return found;
  };
  mkdirSync(folder, { recursive: true });
  const write = (name: string, content: object): void => writeFileSync(join(folder, name), JSON.stringify(content));
  const heads = {
    attn_q: known('llama.attention.head_count') as number,
    attn_k: known('llama.attention.head_count_kv') as number,
  };
  write('config.json', {
    architectures: ['LlamaForCausalLM'],
    hidden_act: 'silu',
    torch_dtype: 'float32',
    hidden_size: known('llama.embedding_length'),
    num_hidden_layers: known('llama.block_count'),
    num_attention_heads: heads.attn_q,
    num_key_value_heads: heads.attn_k,
    intermediate_size: known('llama.feed_forward_length'),
    max_position_embeddings: known('llama.context_length'),
    rms_norm_eps: known('llama.attention.layer_norm_rms_epsilon'),
    rope_theta: known('llama.rope.freq_base'),
    vocab_size: known('llama.vocab_size'),
    tie_word_embeddings: !file.tensors.some(({ name }) => name === 'output.weight'),
  });

  const tokens = known('tokenizer.ggml.tokens') as string[];
  const kinds = known('tokenizer.ggml.token_type') as number[];
  const digits = known('tokenizer.ggml.pre') === 'qwen2' ? '\\p{N}' : '\\p{N}{1,3}';
  write('tokenizer.json', {
    added_tokens: tokens.flatMap((content, id) => (kinds[id] === 1 ? [] : [{ id, content, special: kinds[id] === 3 }])),
    normalizer: { type: 'NFC' },
    pre_tokenizer: {
      type: 'Sequence',
      pretokenizers: [
        {
          type: 'Split',
          behavior: 'Isolated',
          invert: false,
          pattern: {
            Regex: `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|${digits}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+`,
          },
        },
        { type: 'ByteLevel', add_prefix_space: false, trim_offsets: false, use_regex: false },
      ],
    },
    post_processor: { type: 'ByteLevel', add_prefix_space: true, trim_offsets: false, use_regex: true },
    decoder: { type: 'ByteLevel' },
    model: {
      type: 'BPE',
      unk_token: null,
      byte_fallback: false,
      ignore_merges: false,
      vocab: Object.fromEntries(tokens.map((token, id) => [token, id] as const).filter(([, id]) => kinds[id] === 1)),
      merges: known('tokenizer.ggml.merges'),
    },
  });
  write('tokenizer_config.json', {
    bos_token: null,
    eos_token: tokens[known('tokenizer.ggml.eos_token_id') as number],
    add_bos_token: false,
  });
  write('generation_config.json', {
    eos_token_id: [known('tokenizer.ggml.eos_token_id')],
    temperature: 0.7,
    top_k: 20,
    top_p: 'much',
  });
  writeFileSync(join(folder, 'chat_template.jinja'), known('tokenizer.chat_template') as string);

  const names = Array.from({ length: shards }, (_, i) =>
    shards === 1 ? 'model.safetensors' : `model-${i + 1}-of-${shards}.safetensors`,
  );
  const weightMap: Record<string, string> = {};
  names.forEach((name, shard) => {
    const head: Record<string, object> = {};
    const parts: Buffer[] = [];
    let at = 0;
    file.tensors.forEach((tensor, i) => {
      if (Math.floor((i * shards) / file.tensors.length) !== shard) return;
      const stem = /\.(attn_[qk])\./.exec(tensor.name)?.[1] as keyof typeof heads | undefined;
      const values = file.floats(tensor);
      const ordered = stem === undefined ? values : withHalves(values, tensor.shape[0] as number, heads[stem]);
      const bytes = Buffer.from(ordered.buffer);
      head[checkpointName(tensor.name)] = {
        dtype: 'F32',
        shape: [...tensor.shape].reverse(),
        data_offsets: [at, (at += bytes.length)],
      };
      weightMap[checkpointName(tensor.name)] = name;
      parts.push(bytes);
    });
    const json = Buffer.from(JSON.stringify(head));
    const size = Buffer.alloc(8);
    size.writeBigUInt64LE(BigInt(json.length));
    writeFileSync(join(folder, name), Buffer.concat([size, json, ...parts]));
  });
  if (shards > 1) write('model.safetensors.index.json', { metadata: {}, weight_map: weightMap });
}
