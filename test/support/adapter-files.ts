// Writes small LoRA adapters for a GGUF model, with random matrices, as a GGUF file or as a PEFT folder. The same
// options give the same matrices in both forms.
//
//   writeAdapter(join(folder, 'a.gguf'), { seed: 1 });
//   writePeftAdapter(join(folder, 'a'), { seed: 1 });

import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { ggufHead, type Metadata } from '../../bench/lib/gguf-writer.js';

/** The embedded model, models/starter-q8_0.gguf. */
const LAYERS = 4;
const HIDDEN = 160;
const FEED_FORWARD = 448;
const F32 = 0;

export interface AdapterOptions {
  /** Adapters with different seeds change the output in different ways. */
  readonly seed: number;
  readonly rank?: number;
  /** Size of the random values. The default changes almost every greedy response. */
  readonly magnitude?: number;
  /** Hidden size; a wrong value creates an adapter for another model. */
  readonly hidden?: number;
}

interface Matrix {
  /** Name in a GGUF file, without `.weight`. */
  readonly gguf: string;
  /** Name in a PEFT file, without `.lora_A.weight`. */
  readonly peft: string;
  readonly a: Float32Array;
  readonly b: Float32Array;
  readonly inputs: number;
  readonly outputs: number;
}

/** No queries and keys: GGUF files of this architecture store their rows in another order than PEFT. */
const TARGETS = [
  ['attn_v', 'self_attn.v_proj', 'hidden', 'hidden'],
  ['attn_output', 'self_attn.o_proj', 'hidden', 'hidden'],
  ['ffn_gate', 'mlp.gate_proj', 'hidden', 'feedForward'],
  ['ffn_up', 'mlp.up_proj', 'hidden', 'feedForward'],
  ['ffn_down', 'mlp.down_proj', 'feedForward', 'hidden'],
] as const;

const RANK = 8;

function matricesOf({ seed, rank = RANK, magnitude = 0.15, hidden = HIDDEN }: AdapterOptions): Matrix[] {
  let state = Math.imul(seed, 0x9e3779b1) >>> 0 || 1;
  const next = (): number => {
    // xorshift32
    state ^= state << 13;
    state ^= state >>> 17;
    state = (state ^ (state << 5)) >>> 0;
    return magnitude * ((2 * state) / 2 ** 32 - 1);
  };
  const sizes = { hidden, feedForward: FEED_FORWARD };
  return Array.from({ length: LAYERS }, (_, layer) => layer).flatMap((layer) =>
    TARGETS.map(([gguf, peft, from, to]) => {
      const [inputs, outputs] = [sizes[from], sizes[to]];
      return {
        gguf: `blk.${layer}.${gguf}`,
        peft: `base_model.model.model.layers.${layer}.${peft}`,
        a: Float32Array.from({ length: rank * inputs }, next),
        b: Float32Array.from({ length: outputs * rank }, next),
        inputs,
        outputs,
      };
    }),
  );
}

const bytesOf = ({ buffer }: Float32Array): Buffer => Buffer.from(buffer as ArrayBuffer);

export function writeAdapter(path: string, options: AdapterOptions): void {
  const { rank = RANK } = options;
  const metadata: Metadata = [
    ['general.architecture', { type: 'string', value: 'llama' }],
    ['general.type', { type: 'string', value: 'adapter' }],
    ['adapter.type', { type: 'string', value: 'lora' }],
    ['adapter.lora.alpha', { type: 'float32', value: 2 * rank }],
  ];
  const tensors = matricesOf(options).flatMap(({ gguf, a, b, inputs, outputs }) => [
    { name: `${gguf}.weight.lora_a`, dims: [inputs, rank], data: bytesOf(a) },
    { name: `${gguf}.weight.lora_b`, dims: [rank, outputs], data: bytesOf(b) },
  ]);
  const layout = ggufHead(
    metadata,
    tensors.map(({ name, dims, data }) => ({ name, dims, ggmlType: F32, bytes: data.length })),
  );
  const file = Buffer.alloc(layout.fileBytes);
  layout.head.copy(file);
  tensors.forEach(({ data }, at) => data.copy(file, layout.positions[at]));
  writeFileSync(path, file);
}

export function writePeftAdapter(folder: string, options: AdapterOptions): void {
  const { rank = RANK } = options;
  mkdirSync(folder, { recursive: true });
  const config = {
    peft_type: 'LORA',
    task_type: 'CAUSAL_LM',
    base_model_name_or_path: 'starter',
    r: rank,
    lora_alpha: 2 * rank,
    bias: 'none',
    fan_in_fan_out: false,
    target_modules: TARGETS.map(([, peft]) => peft.slice(peft.indexOf('.') + 1)),
  };
  writeFileSync(join(folder, 'adapter_config.json'), JSON.stringify(config));
  const tensors = matricesOf(options).flatMap(({ peft, a, b, inputs, outputs }) => [
    { name: `${peft}.lora_A.weight`, shape: [rank, inputs], data: bytesOf(a) },
    { name: `${peft}.lora_B.weight`, shape: [outputs, rank], data: bytesOf(b) },
  ]);
  let at = 0;
  const entries = tensors.map(({ name, shape, data }) => {
    const from = at;
    at += data.length;
    return [name, { dtype: 'F32', shape, data_offsets: [from, at] }] as const;
  });
  const header = Buffer.from(JSON.stringify({ __metadata__: { format: 'pt' }, ...Object.fromEntries(entries) }));
  const length = Buffer.alloc(8);
  length.writeBigUInt64LE(BigInt(header.length));
  writeFileSync(
    join(folder, 'adapter_model.safetensors'),
    Buffer.concat([length, header, ...tensors.map(({ data }) => data)]),
  );
}
