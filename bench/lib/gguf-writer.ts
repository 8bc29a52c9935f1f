// Writes GGUF version 3: the header from one buffer, followed by the streamed tensor data. native/formats/gguf/parser.h
// describes the layout.

export type MetadataValue =
  | { type: 'uint32' | 'float32'; value: number }
  | { type: 'bool'; value: boolean }
  | { type: 'string'; value: string }
  | { type: 'strings'; value: readonly string[] }
  | { type: 'int32s' | 'float32s'; value: readonly number[] }
  | { type: 'encoded'; value: Buffer }; // a value as encoded in another file, starting with its type number

export type Metadata = readonly (readonly [key: string, value: MetadataValue])[];

// GGUF value type numbers.
const UINT32 = 4,
  INT32 = 5,
  FLOAT32 = 6,
  BOOL = 7,
  STRING = 8,
  ARRAY = 9;

export const ALIGNMENT = 32;

export interface TensorEntry {
  readonly name: string;
  readonly dims: readonly number[]; // dims[0] varies fastest: the row length
  readonly ggmlType: number;
  readonly bytes: number;
}

// `positions`: where each tensor's data starts, in bytes from the start of the file.
export interface GgufHead {
  readonly head: Buffer; // everything before the data section, including padding
  readonly positions: readonly number[];
  readonly fileBytes: number;
}

const align = (n: number) => Math.ceil(n / ALIGNMENT) * ALIGNMENT;

function uint32(value: number): Buffer {
  const out = Buffer.allocUnsafe(4);
  out.writeUInt32LE(value);
  return out;
}

function uint64(value: number): Buffer {
  const out = Buffer.allocUnsafe(8);
  out.writeBigUInt64LE(BigInt(value));
  return out;
}

function text(value: string): Buffer {
  const bytes = Buffer.from(value, 'utf8');
  return Buffer.concat([uint64(bytes.length), bytes]);
}

function numbers(type: number, values: readonly number[]): Buffer {
  const body = Buffer.from((type === INT32 ? Int32Array.from(values) : Float32Array.from(values)).buffer);
  return Buffer.concat([uint32(ARRAY), uint32(type), uint64(values.length), body]);
}

function encode(entry: MetadataValue): Buffer {
  switch (entry.type) {
    case 'uint32':
      return Buffer.concat([uint32(UINT32), uint32(entry.value)]);
    case 'float32':
      return Buffer.concat([uint32(FLOAT32), Buffer.from(Float32Array.of(entry.value).buffer)]);
    case 'bool':
      return Buffer.concat([uint32(BOOL), Buffer.of(entry.value ? 1 : 0)]);
    case 'string':
      return Buffer.concat([uint32(STRING), text(entry.value)]);
    case 'strings':
      return Buffer.concat([uint32(ARRAY), uint32(STRING), uint64(entry.value.length), ...entry.value.map(text)]);
    case 'int32s':
      return numbers(INT32, entry.value);
    case 'float32s':
      return numbers(FLOAT32, entry.value);
    case 'encoded':
      return entry.value;
  }
}

// Lays out the tensors in the given order.
export function ggufHead(metadata: Metadata, tensors: readonly TensorEntry[]): GgufHead {
  const parts: Buffer[] = [Buffer.from('GGUF'), uint32(3), uint64(tensors.length), uint64(metadata.length)];
  for (const [key, value] of metadata) parts.push(text(key), encode(value));
  const offsets: number[] = [];
  let dataBytes = 0;
  for (const { name, dims, ggmlType, bytes } of tensors) {
    dataBytes = align(dataBytes);
    parts.push(text(name), uint32(dims.length), ...dims.map(uint64), uint32(ggmlType), uint64(dataBytes));
    offsets.push(dataBytes);
    dataBytes += bytes;
  }
  const unpadded = Buffer.concat(parts);
  const head = Buffer.alloc(align(unpadded.length));
  unpadded.copy(head);
  return { head, positions: offsets.map((offset) => head.length + offset), fileBytes: head.length + dataBytes };
}
