// Writes a model file with random weights for benchmarks. The shape, encoding and seed determine every byte.
//
//   npm run bench -- make-model --preset 1b --type q8_0
//   npm run bench -- make-model --like tiny-of-the-family.gguf --set block_count=24 --set embedding_length=2048 \
//     --type q4_k_m
//   npm run bench -- make-model --family qwen3.5-2b --patterns FOLDER_OF_TINY_FILES --type q8_0
//
// The second form works for any family that the engine can load: the addon determines which tensors the changed
// metadata requires. The third form is the second with the sizes of a published model (lib/family-shapes.ts). If the
// file already exists and was made with the same options, it is kept.

import { closeSync, mkdirSync, openSync, readSync, renameSync, rmSync, statSync, writeSync } from 'node:fs';
import { basename, dirname, join, resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import { parseArgs } from 'node:util';

import { ggufHead, type GgufHead, type Metadata } from './lib/gguf-writer.js';
import { ARCHITECTURES, hasExperts, layoutOf, sharedWidth, type Architecture } from './lib/architectures.js';
import { PRESETS, checkShape, type ModelShape, type Preset } from './lib/model-shapes.js';
import { FAMILIES, FAMILY_SHAPES, type FamilyShape } from './lib/family-shapes.js';
import { patternModel } from './lib/pattern-model.js';
import { MODEL_TYPES, randomTensors, type ModelType, type RandomTensor } from './lib/model-tensors.js';
import { ENCODINGS, tableFiller, tensorKey, weightFiller } from './lib/random-weights.js';
import { syntheticTokenizer } from './lib/synthetic-vocabulary.js';
import { isRead, wantedTensors } from './lib/wanted-tensors.js';

export interface MakeModelOptions {
  readonly preset?: Preset; // default 1b
  readonly architecture?: Architecture; // default llama
  readonly type?: ModelType; // default q8_0
  readonly seed?: number; // default 1; 32 bits
  // for architectures that exist both dense and as a mixture of experts: whether to write a mixture of experts; default
  // false
  readonly experts?: boolean;
  readonly shape?: Partial<ModelShape>; // fields to override in the preset
  // GGUF file whose family and metadata keys replace preset, architecture and shape
  readonly like?: string;
  readonly set?: Readonly<Record<string, string>>; // with `like`: keys to change, without the architecture prefix
  // with `like`: dimensions that no key determines
  readonly tensors?: Readonly<Record<string, readonly number[]>>;
  // with `like`: names in `tensors` to write although this engine does not read them
  readonly unread?: readonly string[];
  readonly layers?: readonly number[]; // with `like`: for each layer, the index of the pattern's layer to copy
  readonly vocabulary?: number; // with `like`: size of a synthetic vocabulary
  readonly out?: string; // default bench/out/<architecture>-<preset>-<type>.gguf
  readonly force?: boolean; // overwrite an existing file
}

export interface MadeModel {
  readonly path: string;
  readonly bytes: number;
  readonly parameters: number;
  readonly written: boolean; // false if the file already existed
  readonly seconds: number;
}

// GGUF file type numbers, by predominant tensor type.
const FILE_TYPES: Record<ModelType, number> = {
  f32: 0,
  f16: 1,
  q4_0: 2,
  q4_1: 3,
  q8_0: 7,
  q5_0: 8,
  q5_1: 9,
  q2_k: 10,
  q3_k: 11,
  q4_k: 14,
  q4_k_m: 15,
  q5_k: 16,
  q6_k: 18,
  iq4_nl: 25,
  iq4_xs: 30,
  bf16: 32,
  mxfp4: 38,
  iq2_xxs: 19,
  iq2_xs: 20,
  iq3_xxs: 23,
  iq1_s: 24,
  iq3_s: 26,
  iq2_s: 28,
  iq1_m: 31,
  tq1_0: 36,
  tq2_0: 37,
  nvfp4: 39,
};

const QUANTIZATION_VERSION = 2;

function metadataOf(
  architecture: Architecture,
  shape: ModelShape,
  type: ModelType,
  seed: number,
  experts: boolean,
): Metadata {
  const layout = layoutOf(architecture);
  const feedForward =
    hasExperts(architecture, experts) && !layout.expertsHaveKey ? shape.expertFeedForward : shape.feedForward;
  const keys = layout.keys?.(shape) ?? [];
  const partial = keys.some(([key]) => key === 'rope.dimension_count');
  const count = (key: string, value: number) => [`${architecture}.${key}`, { type: 'uint32', value }] as const;
  const real = (key: string, value: number) => [`${architecture}.${key}`, { type: 'float32', value }] as const;
  return [
    ['general.architecture', { type: 'string', value: architecture }],
    ['general.name', { type: 'string', value: 'Random weights' }],
    ['general.description', { type: 'string', value: `Random weights, seed ${seed}; it has learned nothing.` }],
    ['general.file_type', { type: 'uint32', value: FILE_TYPES[type] }],
    ['general.quantization_version', { type: 'uint32', value: QUANTIZATION_VERSION }],
    count('context_length', shape.context),
    count('embedding_length', shape.embedding),
    count('block_count', shape.layers),
    count('feed_forward_length', feedForward),
    count('attention.head_count', shape.heads),
    count('attention.head_count_kv', shape.kvHeads),
    count('attention.key_length', shape.headSize),
    count('attention.value_length', shape.headSize),
    real('attention.layer_norm_rms_epsilon', architecture === 'llama' ? 1e-5 : 1e-6),
    real('rope.freq_base', layout.ropeBase ?? 1000000),
    count('vocab_size', shape.vocabulary),
    ...(hasExperts(architecture, experts)
      ? [
          count('expert_count', shape.experts),
          count('expert_used_count', shape.usedExperts),
          ...(layout.expertsHaveKey ? [count('expert_feed_forward_length', shape.expertFeedForward)] : []),
          ...(sharedWidth(architecture, shape) > 0
            ? [count('expert_shared_feed_forward_length', sharedWidth(architecture, shape))]
            : []),
        ]
      : []),
    ...(layout.windows && shape.window > 0 ? [count('attention.sliding_window', shape.window)] : []),
    ...(partial ? [] : [count('rope.dimension_count', shape.headSize)]),
    ...keys.map(([key, value]) => [`${architecture}.${key}`, value] as const),
    ...syntheticTokenizer(shape.vocabulary),
  ];
}

const valuesOf = (tensor: RandomTensor) => tensor.dims.reduce((product, n) => product * n, 1);

function bytesOf(tensor: RandomTensor): number {
  const { blockValues, blockBytes } = ENCODINGS[tensor.type];
  return (valuesOf(tensor) / blockValues) * blockBytes;
}

// Returns whether the file at `path` starts with this header and has this size, which means that it was made with the
// same options.
function isThere(path: string, { head, fileBytes }: GgufHead): boolean {
  const status = statSync(path, { throwIfNoEntry: false });
  if (!status?.isFile() || status.size !== fileBytes) return false;
  const file = openSync(path, 'r');
  try {
    const found = Buffer.alloc(head.length);
    return readSync(file, found, 0, found.length, 0) === found.length && found.equals(head);
  } finally {
    closeSync(file);
  }
}

function writeFully(file: number, bytes: Uint8Array, position: number): void {
  for (let done = 0; done < bytes.length; ) done += writeSync(file, bytes, done, bytes.length - done, position + done);
}

// Size of the buffer for whole blocks, whose number is a multiple of 4. Small enough to stay in the CPU cache between
// filling and writing.
const BUFFER_BYTES = 2 << 20;

function writeTensor(file: number, position: number, tensor: RandomTensor, key: number, buffer: ArrayBuffer): void {
  const { blockValues, blockBytes } = ENCODINGS[tensor.type];
  const nBlocks = valuesOf(tensor) / blockValues;
  const perBuffer = Math.floor(BUFFER_BYTES / blockBytes / 4) * 4;
  const fill =
    tensor.type === 'i32'
      ? tableFiller(key, tensor.dims[0] ?? 1, tensor.below ?? 1)
      : weightFiller(tensor.type, key, tensor.std, tensor.mean);
  const bytes = new Uint8Array(buffer),
    words = new Uint32Array(buffer);
  for (let first = 0; first < nBlocks; first += perBuffer) {
    const count = Math.min(perBuffer, nBlocks - first);
    fill(bytes, words, first, count);
    writeFully(file, bytes.subarray(0, count * blockBytes), position + first * blockBytes);
  }
}

function describedModel(
  architecture: Architecture,
  shape: ModelShape,
  type: ModelType,
  seed: number,
  experts: boolean,
): { metadata: Metadata; tensors: RandomTensor[] } {
  checkShape(shape);
  if (experts && !hasExperts(architecture, true)) throw new RangeError(`${architecture} has no experts`);
  if (hasExperts(architecture, experts) && shape.experts === 0) throw new RangeError(`${architecture} needs experts`);
  const { embedding, layers, vocabulary } = shape,
    { tied = false, carries, embeddingScale } = layoutOf(architecture);
  const metadata = metadataOf(architecture, shape, type, seed, experts),
    optional = carries?.(shape) ?? [],
    table = [embedding, vocabulary];
  const wanted = wantedTensors(architecture, metadata, [
    { name: 'token_embd.weight', dims: table },
    ...(tied ? [] : [{ name: 'output.weight', dims: table }]),
    ...optional,
  ]);
  // Models that scale their embeddings up get smaller embeddings. A tied embedding table also produces the logits.
  const embeddingGain = tied ? 2.5 : Math.sqrt(embedding) / (embeddingScale === 'root' ? Math.sqrt(embedding) : 1);
  const factors = optional
    .filter(({ name }) => isRead(name))
    .map(
      ({ name, dims }): RandomTensor => ({
        name,
        dims,
        type: 'f32',
        ...(name.includes('long') ? { mean: 4, std: 0.5 } : { mean: 1, std: 0.05 }),
      }),
    );
  return { metadata, tensors: [...factors, ...randomTensors(wanted, { type, layers, embeddingGain })] };
}

// Writes the model unless it already exists. Throws RangeError if the shape is invalid, and passes on errors from
// writeRandomModel().
export function makeModel(options: MakeModelOptions = {}): MadeModel {
  const { preset = '1b', architecture = 'llama', type = 'q8_0', seed = 1, experts = false, force = false } = options;
  if (!Number.isInteger(seed) || seed < 0 || seed > 0xffffffff)
    throw new RangeError(`seed is ${seed}; it must be an integer from 0 to 2^32 - 1`);
  const { like } = options;
  const name = like === undefined ? `${architecture}-${preset}` : `like-${basename(like, '.gguf')}`;
  const path = resolve(options.out ?? join('bench', 'out', `${name}-${type}.gguf`));
  const started = performance.now();
  const { metadata, tensors } =
    like === undefined
      ? describedModel(architecture, { ...PRESETS[preset], ...options.shape }, type, seed, experts)
      : patternModel({
          like,
          type,
          ...(options.set && { set: options.set }),
          ...(options.tensors && { tensors: options.tensors }),
          ...(options.unread && { unread: options.unread }),
          ...(options.layers && { layers: options.layers }),
          ...(options.vocabulary !== undefined && { vocabulary: options.vocabulary }),
        });
  const parameters = tensors.reduce((sum, tensor) => sum + valuesOf(tensor), 0);
  const { written, bytes } = writeRandomModel(path, metadata, tensors, seed, force);
  return { path, bytes, parameters, written, seconds: (performance.now() - started) / 1000 };
}

/**
 * Writes a file with these tensors and random weights, unless it already exists. Passes on file system errors. Never
 * leaves a partially written file under the final name.
 */
export function writeRandomModel(
  path: string,
  metadata: Metadata,
  tensors: readonly RandomTensor[],
  seed: number,
  force = false,
): { written: boolean; bytes: number } {
  const layout = ggufHead(
    metadata,
    tensors.map((tensor) => ({
      name: tensor.name,
      dims: tensor.dims,
      ggmlType: ENCODINGS[tensor.type].ggmlType,
      bytes: bytesOf(tensor),
    })),
  );
  if (!force && isThere(path, layout)) return { written: false, bytes: layout.fileBytes };

  mkdirSync(dirname(path), { recursive: true });
  const partial = join(dirname(path), `.${basename(path)}.${process.pid}.partial`);
  try {
    const file = openSync(partial, 'w');
    try {
      writeFully(file, layout.head, 0);
      const buffer = new ArrayBuffer(BUFFER_BYTES + 4);
      tensors.forEach((tensor, i) => writeTensor(file, layout.positions[i] ?? 0, tensor, tensorKey(seed, i), buffer));
    } finally {
      closeSync(file);
    }
    renameSync(partial, path);
  } catch (error) {
    rmSync(partial, { force: true });
    throw error;
  }
  return { written: true, bytes: layout.fileBytes };
}

const USAGE = `make-model: write a GGUF file with random weights
  --preset ${Object.keys(PRESETS).join('|')}   (1b)
  --architecture ${ARCHITECTURES.join('|')}   (llama)
  --type ${MODEL_TYPES.join('|')}   (q8_0)
  --seed N   (1)
  --out FILE   (bench/out/<architecture>-<preset>-<type>.gguf)
  --embedding N --layers N --heads N --kv-heads N --head-size N --feed-forward N --vocabulary N --context N
  --window N   sliding-window size of the layers that have one, in tokens (none)
  --experts N --used-experts N --expert-feed-forward N --shared-feed-forward N   for a mixture of experts; --experts makes a llama model one
  --like FILE   write a model with that file's family and metadata keys; its layers are repeated if there are more of them
  --set KEY=VALUE   with --like: change a key, without the architecture prefix; an array is a list of numbers with commas; works with --vocabulary
  --family ${FAMILIES.join('|')}
    write a model with the shape of a published one, based on a tiny file in the folder --patterns DIR ($MONOLITH_VECTORS2/models)
  --force   overwrite an existing file`;

function oneOf<T extends string>(option: string, value: string, allowed: readonly T[]): T {
  const found = allowed.find((candidate) => candidate === value);
  if (found === undefined) throw new RangeError(`--${option} ${value}: must be one of ${allowed.join(', ')}`);
  return found;
}

function integer(option: string, value: string): number {
  if (!/^\d{1,10}$/.test(value)) throw new RangeError(`--${option} ${value}: must be a whole number`);
  return Number(value);
}

function keyAndValue(text: string): [key: string, value: string] {
  const at = text.indexOf('=');
  if (at < 1) throw new RangeError(`--set ${text}: must be KEY=VALUE`);
  return [text.slice(0, at), text.slice(at + 1)];
}

const SHAPE_OPTIONS = {
  embedding: 'embedding',
  layers: 'layers',
  heads: 'heads',
  'kv-heads': 'kvHeads',
  'head-size': 'headSize',
  'feed-forward': 'feedForward',
  vocabulary: 'vocabulary',
  context: 'context',
  window: 'window',
  experts: 'experts',
  'used-experts': 'usedExperts',
  'expert-feed-forward': 'expertFeedForward',
  'shared-feed-forward': 'sharedFeedForward',
} as const satisfies Record<string, keyof ModelShape>;

// Returns the options that --family expands to: pattern, keys, vocabulary and file name.
function familyOptions(
  name: string | undefined,
  patterns = join(process.env['MONOLITH_VECTORS2'] ?? '', 'models'),
  type: string,
): Partial<MakeModelOptions> {
  if (name === undefined) return {};
  const { like, set, vocabulary, tensors, unread, layers }: FamilyShape =
    FAMILY_SHAPES[oneOf('family', name, FAMILIES)];
  return {
    like: join(patterns, like),
    set,
    vocabulary,
    ...(tensors && { tensors }),
    ...(unread && { unread }),
    ...(layers && { layers }),
    out: join('bench', 'out', `${name}-${type}.gguf`),
  };
}

// Runs the command with the arguments that follow `make-model`. Prints the path and size of the file.
export function makeModelCommand(args: readonly string[]): void {
  const text = { type: 'string' } as const;
  const { values } = parseArgs({
    args: [...args],
    options: {
      preset: text,
      architecture: text,
      type: text,
      seed: text,
      out: text,
      embedding: text,
      layers: text,
      heads: text,
      'kv-heads': text,
      'head-size': text,
      'feed-forward': text,
      vocabulary: text,
      context: text,
      window: text,
      experts: text,
      'used-experts': text,
      'expert-feed-forward': text,
      'shared-feed-forward': text,
      like: text,
      set: { type: 'string', multiple: true },
      family: text,
      patterns: text,
      force: { type: 'boolean' },
      help: { type: 'boolean', short: 'h' },
    },
  });
  if (values.help) {
    console.log(USAGE);
    return;
  }
  const shape: Partial<Record<keyof ModelShape, number>> = {};
  for (const [option, field] of Object.entries(SHAPE_OPTIONS) as [keyof typeof SHAPE_OPTIONS, keyof ModelShape][]) {
    const value = values[option];
    if (value !== undefined) shape[field] = integer(option, value);
  }
  const patterned = familyOptions(values.family, values.patterns, values.type ?? 'q8_0');
  const made = makeModel({
    shape,
    ...patterned,
    ...(shape.experts !== undefined && { experts: shape.experts > 0 }),
    ...(values.preset !== undefined && { preset: oneOf('preset', values.preset, Object.keys(PRESETS) as Preset[]) }),
    ...(values.architecture !== undefined && {
      architecture: oneOf('architecture', values.architecture, ARCHITECTURES),
    }),
    ...(values.type !== undefined && { type: oneOf('type', values.type, MODEL_TYPES) }),
    ...(values.seed !== undefined && { seed: integer('seed', values.seed) }),
    ...(values.out !== undefined && { out: values.out }),
    ...(values.like !== undefined && {
      like: values.like,
      set: Object.fromEntries((values.set ?? []).map(keyAndValue)),
    }),
    ...(values.like !== undefined && shape.vocabulary !== undefined && { vocabulary: shape.vocabulary }),
    ...(values.force && { force: true }),
  });
  const size = `${(made.bytes / 1e6).toFixed(1)} MB, ${(made.parameters / 1e6).toFixed(1)}M parameters`;
  console.log(`${made.path}: ${size}, ${made.written ? `written in ${made.seconds.toFixed(1)} s` : 'already there'}`);
}

if (process.argv[1] !== undefined && import.meta.url === pathToFileURL(process.argv[1]).href) {
  try {
    makeModelCommand(process.argv.slice(2));
  } catch (error) {
    console.error(`make-model: ${error instanceof Error ? error.message : String(error)}`);
    process.exitCode = 1;
  }
}
