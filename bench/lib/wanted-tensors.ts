// Determines which tensors a model needs by asking the addon, which uses the same code as when it loads a model.

import { closeSync, ftruncateSync, mkdtempSync, openSync, rmSync, writeSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { loadAddon } from '../../src/engine/load-addon.js';
import { ggufHead, type Metadata } from './gguf-writer.js';
import { ENCODINGS } from './random-weights.js';

export interface ListedTensor {
  readonly name: string;
  readonly dims: readonly number[];
}
export interface WantedTensor {
  readonly name: string;
  readonly shape: readonly number[];
  readonly vector: boolean;
}

/**
 * Whether the engine checks a tensor's values when it reads the file. The engine checks RoPE factors, which are all
 * written as 1 here.
 */
export const isRead = (name: string): boolean => name.startsWith('rope_');

/**
 * Returns the tensors that a model with this metadata needs. `listed`: the embedding table, whose number of rows is the
 * vocabulary size, and the optional tensors of the architecture to include. Throws RangeError with a message that
 * starts with `what`.
 */
export function wantedTensors(what: string, metadata: Metadata, listed: readonly ListedTensor[]): WantedTensor[] {
  const entries = listed.map(({ name, dims }) => ({
    name,
    dims,
    ggmlType: ENCODINGS.f32.ggmlType,
    bytes: 4 * dims.reduce((product, n) => product * n, 1),
  }));
  const { head, positions, fileBytes } = ggufHead(metadata, entries);
  const folder = mkdtempSync(join(tmpdir(), 'monolith-wanted-'));
  const path = join(folder, 'head.gguf');
  try {
    const file = openSync(path, 'w');
    try {
      writeSync(file, head);
      ftruncateSync(file, fileBytes); // extend the file with a hole in place of the tensor data
      entries.forEach(({ name, bytes }, i) => {
        if (isRead(name))
          writeSync(file, Buffer.from(new Float32Array(bytes / 4).fill(1).buffer), 0, bytes, positions[i] ?? 0);
      });
    } finally {
      closeSync(file);
    }
    return loadAddon().wantedTensors(path);
  } catch (error) {
    throw new RangeError(`${what}: ${(error as Error).message.replace(`${path}: `, '')}`, { cause: error });
  } finally {
    rmSync(folder, { recursive: true });
  }
}
