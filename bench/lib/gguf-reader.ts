// Reads the header of a GGUF file that make-model uses as a pattern. The engine validates the same files when it loads
// them, so this reader checks only what it would otherwise misread. native/formats/gguf/parser.h describes the layout.

import { readFileSync } from 'node:fs';

/**
 * A metadata value as stored in the file. `numbers`: the elements of a numeric array, or a list with the single number.
 */
export interface PatternValue {
  readonly type: number; // GGUF type number; for an array, that of its elements
  readonly isArray: boolean;
  readonly numbers: readonly number[] | null; // null for a string or an array of strings
  readonly text: string | null;
  readonly encoded: Buffer; // the type and the value, as encoded in the file
}

export interface Pattern {
  readonly metadata: ReadonlyMap<string, PatternValue>;
  readonly tensors: readonly { readonly name: string; readonly dims: readonly number[] }[];
}

const STRING = 8,
  ARRAY = 9;
const SIZES: Record<number, number> = { 0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8 };

function numberAt(bytes: Buffer, at: number, type: number): number {
  switch (type) {
    case 0:
    case 7:
      return bytes.readUInt8(at);
    case 1:
      return bytes.readInt8(at);
    case 2:
      return bytes.readUInt16LE(at);
    case 3:
      return bytes.readInt16LE(at);
    case 4:
      return bytes.readUInt32LE(at);
    case 5:
      return bytes.readInt32LE(at);
    case 6:
      return bytes.readFloatLE(at);
    case 10:
      return Number(bytes.readBigUInt64LE(at));
    case 11:
      return Number(bytes.readBigInt64LE(at));
    default:
      return bytes.readDoubleLE(at);
  }
}

/** Encodes a number as a GGUF type. */
export function encodeNumber(type: number, value: number): Buffer {
  const out = Buffer.alloc(SIZES[type] ?? 8);
  switch (type) {
    case 0:
    case 7:
      out.writeUInt8(value);
      break;
    case 1:
      out.writeInt8(value);
      break;
    case 2:
      out.writeUInt16LE(value);
      break;
    case 3:
      out.writeInt16LE(value);
      break;
    case 4:
      out.writeUInt32LE(value);
      break;
    case 5:
      out.writeInt32LE(value);
      break;
    case 6:
      out.writeFloatLE(value);
      break;
    case 10:
      out.writeBigUInt64LE(BigInt(value));
      break;
    case 11:
      out.writeBigInt64LE(BigInt(value));
      break;
    default:
      out.writeDoubleLE(value);
  }
  return out;
}

export function readPattern(path: string): Pattern {
  const bytes = readFileSync(path);
  let at = 24;
  if (bytes.length < at || bytes.toString('latin1', 0, 4) !== 'GGUF' || bytes.readUInt32LE(4) < 2)
    throw new RangeError(`${path} is not a GGUF file of version 2 or 3`);
  const u32 = () => bytes.readUInt32LE((at += 4) - 4);
  const u64 = () => Number(bytes.readBigUInt64LE((at += 8) - 8));
  const text = () => {
    const length = u64();
    return bytes.toString('utf8', at, (at += length));
  };
  const nTensors = Number(bytes.readBigUInt64LE(8)),
    nKeys = Number(bytes.readBigUInt64LE(16));
  const metadata = new Map<string, PatternValue>();
  for (let i = 0; i < nKeys; i++) {
    const key = text(),
      begin = at,
      outer = u32(),
      isArray = outer === ARRAY;
    const type = isArray ? u32() : outer,
      count = isArray ? u64() : 1;
    let numbers: number[] | null = null,
      only: string | null = null;
    if (type === STRING) {
      for (let j = 0; j < count; j++) {
        const one = text();
        if (!isArray) only = one;
      }
    } else {
      const size = SIZES[type];
      if (size === undefined) throw new RangeError(`${path}: '${key}' has an unsupported type`);
      numbers = Array.from({ length: count }, (_, j) => numberAt(bytes, at + j * size, type));
      at += count * size;
    }
    metadata.set(key, { type, isArray, numbers, text: only, encoded: bytes.subarray(begin, at) });
  }
  const tensors = Array.from({ length: nTensors }, () => {
    const name = text(),
      nDims = u32(),
      dims = Array.from({ length: nDims }, u64);
    u32();
    u64();
    return { name, dims };
  });
  return { metadata, tensors };
}
