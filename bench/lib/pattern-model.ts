// Creates a model like an existing one but with different sizes: the same metadata with some keys changed. The addon
// determines which tensors the model needs, as it does when it loads a model, so this module has no code for specific
// families.

import { encodeNumber, readPattern, type Pattern, type PatternValue } from './gguf-reader.js';
import type { Metadata, MetadataValue } from './gguf-writer.js';
import { randomTensors, type ModelType, type RandomTensor } from './model-tensors.js';
import { syntheticTokenizer } from './synthetic-vocabulary.js';
import { isRead, wantedTensors, type ListedTensor } from './wanted-tensors.js';

export interface PatternOptions {
  readonly like: string; // a GGUF file of the family; a tiny one is enough
  // values to change by key, with or without the architecture prefix; per-layer arrays adapt to "block_count"
  readonly set?: Readonly<Record<string, string>>;
  // dimensions that no key determines, by tensor name without "blk.N."
  readonly tensors?: Readonly<Record<string, readonly number[]>>;
  // names in `tensors` to write although this engine does not read them, because other engines need them
  readonly unread?: readonly string[];
  readonly vocabulary?: number; // size of a synthetic vocabulary; default: the pattern's vocabulary
  readonly tokenizer?: (size: number) => Metadata; // the keys of that vocabulary; default: a tokenizer that works
  readonly layers?: readonly number[]; // for each layer, the index of the pattern's layer to copy; default: in turn
  readonly type: ModelType;
}

const UINT32 = 4,
  FLOAT32 = 6,
  BOOL = 7,
  ARRAY = 9;

function encoded(type: number, numbers: readonly number[], isArray: boolean): MetadataValue {
  const head = Buffer.alloc(isArray ? 16 : 4);
  head.writeUInt32LE(isArray ? ARRAY : type);
  if (isArray) {
    head.writeUInt32LE(type, 4);
    head.writeBigUInt64LE(BigInt(numbers.length), 8);
  }
  return { type: 'encoded', value: Buffer.concat([head, ...numbers.map((number) => encodeNumber(type, number))]) };
}

function changed(key: string, text: string, old: PatternValue | undefined): MetadataValue {
  if (old !== undefined && old.numbers === null) {
    if (old.isArray) throw new RangeError(`${key}: an array of strings cannot be set`);
    return { type: 'string', value: text };
  }
  const numbers = text.split(',').map((part) => (part === 'true' ? 1 : part === 'false' ? 0 : Number(part)));
  if (text === '' || numbers.some((number) => !Number.isFinite(number)))
    throw new RangeError(`${key}: '${text}' is no number, nor several with commas`);
  const type = old?.type ?? (/^(true|false)/.test(text) ? BOOL : numbers.every(Number.isInteger) ? UINT32 : FLOAT32);
  if (type !== FLOAT32 && type !== 12 && !numbers.every(Number.isInteger))
    throw new RangeError(`${key}: '${text}' must be a whole number`);
  return encoded(type, numbers, numbers.length > 1 || old?.isArray === true);
}

const blockOf = (name: string) => /^blk\.(\d+)\./.exec(name)?.[1];

/** Each layer copies the pattern's layer given by `like`; the MTP layers copy the pattern's last layer. */
function layered(
  pattern: Pattern,
  old: number,
  layers: number,
  guessing: number,
  like: (layer: number) => number,
): ListedTensor[] {
  const outside = pattern.tensors.filter(({ name }) => blockOf(name) === undefined);
  const inside = Array.from({ length: layers }, (_, layer) =>
    pattern.tensors
      .filter(({ name }) => blockOf(name) === String(layer < layers - guessing ? like(layer) : old - 1))
      .map(({ name, dims }) => ({ name: name.replace(/^blk\.\d+\./, `blk.${layer}.`), dims })),
  );
  return [...outside, ...inside.flat()];
}

/**
 * Returns the metadata and tensors of the model. Throws RangeError if a key is invalid, and passes on errors from the
 * addon.
 */
export function patternModel({
  like,
  set = {},
  tensors: told = {},
  unread = [],
  vocabulary,
  tokenizer = syntheticTokenizer,
  type,
  layers: order,
}: PatternOptions): { metadata: Metadata; tensors: RandomTensor[] } {
  const pattern = readPattern(like);
  const architecture = pattern.metadata.get('general.architecture')?.text ?? '';
  const own = (key: string) => pattern.metadata.get(`${architecture}.${key}`);
  const values = new Map<string, MetadataValue>();
  for (const [key, value] of pattern.metadata) {
    if (vocabulary === undefined || !(key.startsWith('tokenizer.') || key === `${architecture}.vocab_size`))
      values.set(key, { type: 'encoded', value: value.encoded });
  }
  const full = (key: string) => (pattern.metadata.has(key) ? key : `${architecture}.${key}`);
  for (const [key, text] of Object.entries(set))
    values.set(full(key), changed(key, text, pattern.metadata.get(full(key))));
  if (vocabulary !== undefined) for (const [key, value] of tokenizer(vocabulary)) values.set(key, value);
  const old = own('block_count')?.numbers?.[0] ?? 0,
    layers = Number(set['block_count'] ?? old);
  if (!Number.isInteger(layers) || layers < 1 || old < 1)
    throw new RangeError(`block_count: ${layers} layers, like the ${old} of ${like}`);
  if (
    order !== undefined &&
    (order.length !== layers || order.some((layer) => !Number.isInteger(layer) || layer < 0 || layer >= old))
  )
    throw new RangeError(`the layers of ${layers} must each be like one of the ${old} of ${like}`);
  const likeOf = (layer: number) => order?.[layer] ?? layer % old;
  if (layers !== old || order !== undefined) {
    const isSet = new Set(Object.keys(set).map(full));
    for (const [key, value] of pattern.metadata) {
      if (/^(general|tokenizer)\./.test(key) || !value.isArray || value.numbers?.length !== old || isSet.has(key))
        continue;
      values.set(
        key,
        encoded(
          value.type,
          Array.from({ length: layers }, (_, layer) => value.numbers?.[likeOf(layer)] ?? 0),
          true,
        ),
      );
    }
  }
  const metadata = [...values];

  const embedding = Number(set['embedding_length'] ?? own('embedding_length')?.numbers?.[0] ?? 0);
  // RoPE factors: one per two rotated dimensions.
  const rotated = own('rope.dimension_count')?.numbers?.[0] ?? 0,
    rotating = Number(set['rope.dimension_count'] ?? rotated);
  const shortName = (name: string) => name.replace(/^blk\.\d+\./, '');
  const dimsOf = (name: string, dims: readonly number[]): readonly number[] => {
    if (name === 'token_embd.weight') return [embedding, vocabulary ?? dims[1] ?? 0];
    if (isRead(name) && rotated > 0) return [((dims[0] ?? 0) / rotated) * rotating];
    return told[shortName(name)] ?? dims;
  };
  const guessing = Number(set['nextn_predict_layers'] ?? own('nextn_predict_layers')?.numbers?.[0] ?? 0);
  const listed = layered(pattern, old, layers, guessing, likeOf).map(({ name, dims }) => ({
    name,
    dims: dimsOf(name, dims),
  }));
  for (let layer = layers - guessing; layer < layers; layer++) {
    const name = `blk.${layer}.nextn.eh_proj.weight`; // the tensor that marks an MTP layer
    if (!listed.some((tensor) => tensor.name === name)) listed.push({ name, dims: [2 * embedding, embedding] });
  }
  const wanted = wantedTensors(`like ${like}`, metadata, listed);
  const known = new Set(wanted.map(({ name }) => name));
  const tensors = [
    ...randomTensors(wanted, {
      type,
      layers,
      experts: Number(set['expert_count'] ?? own('expert_count')?.numbers?.[0] ?? 0),
      mixed: true,
    }),
    ...listed
      .filter(({ name }) => (isRead(name) || unread.includes(shortName(name))) && !known.has(name))
      .map(({ name, dims }) => ({
        name,
        dims,
        type: dims.length === 1 ? ('f32' as const) : ('f16' as const),
        mean: 1,
        std: 0,
      })),
  ];
  return { metadata, tensors };
}
