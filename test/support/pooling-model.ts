// Creates embedding model files by adding metadata to the repository's small models.
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { root } from '../e2e/monolith.js';

/** Values of the GGUF key `<architecture>.pooling_type`. */
export const POOLING = { mean: 1, cls: 2, last: 3 } as const;

/** Small decoder models in test/data/vectors, by architecture. */
const SOURCES = { llama: 'llama.q8_0.gguf', qwen3: 'qwen3.f16.gguf' } as const;

export interface PoolingModel {
  readonly path: string;
  remove(): void;
}

/** Writes a copy of a decoder model that is declared as an embedding model. */
export function embeddingModel(
  architecture: keyof typeof SOURCES = 'qwen3',
  pooling: keyof typeof POOLING = 'last',
): PoolingModel {
  const folder = mkdtempSync(join(tmpdir(), 'monolith-embedding-'));
  const path = join(folder, `${architecture}-embedding.gguf`);
  const source = readFileSync(join(root, 'test', 'data', 'vectors', 'models', SOURCES[architecture]));
  writeFileSync(path, withMetadata(source, `${architecture}.pooling_type`, POOLING[pooling]));
  return { path, remove: () => rmSync(folder, { recursive: true }) };
}

const UINT32 = 4,
  STRING = 8;
const ALIGNMENT = 32;
/**
 * The GGUF header contains the magic, the version, the number of tensors and the number of metadata entries. HEADER is
 * its size in bytes, COUNT_AT the offset of the number of metadata entries.
 */
const HEADER = 24,
  COUNT_AT = 16;

/**
 * Adds a metadata entry in front of the others, followed by a filler entry. Both together have a multiple of the
 * alignment in bytes, so that the tensors stay aligned.
 */
function withMetadata(file: Buffer, name: string, value: number): Buffer {
  const own = Buffer.concat([text(name), uint32(UINT32), uint32(value)]);
  const filler = Buffer.concat([text('general.filler'), uint32(STRING)]);
  const used = own.length + filler.length + 8;
  const rest = Buffer.alloc((ALIGNMENT - (used % ALIGNMENT)) % ALIGNMENT, 'x');
  const head = Buffer.from(file.subarray(0, HEADER));
  head.writeBigUInt64LE(head.readBigUInt64LE(COUNT_AT) + 2n, COUNT_AT);
  return Buffer.concat([head, own, filler, uint64(rest.length), rest, file.subarray(HEADER)]);
}

const text = (value: string): Buffer => Buffer.concat([uint64(Buffer.byteLength(value)), Buffer.from(value)]);

function uint32(value: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32LE(value);
  return bytes;
}

function uint64(value: number): Buffer {
  const bytes = Buffer.alloc(8);
  bytes.writeBigUInt64LE(BigInt(value));
  return bytes;
}
