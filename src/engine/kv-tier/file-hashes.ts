// SHA-256 hashes of model files, computed in the background and remembered by path, size, modification time and inode.
import { createHash } from 'node:crypto';
import { readdirSync, readFileSync, renameSync, statSync, writeFileSync } from 'node:fs';
import { open } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { setImmediate as nextTurn } from 'node:timers/promises';

const CHUNK_BYTES = 1 << 20;
const MAX_REMEMBERED = 2_000;

interface Remembered {
  readonly identity: string;
  readonly hash: string;
}

/** Returns all files that contain a model's weights, tokenizer and configuration. Throws the file system's error. */
export function modelFiles(path: string): string[] {
  if (statSync(path).isDirectory())
    return readdirSync(path, { withFileTypes: true })
      .filter((entry) => !entry.isDirectory() && /\.(safetensors|json|model|txt|jinja)$/.test(entry.name))
      .map(({ name }) => join(path, name))
      .sort();
  const [, stem, count] = /^(.*)-00001-of-(\d{5})\.gguf$/.exec(basename(path)) ?? [];
  if (stem === undefined || count === undefined) return [path];
  return readdirSync(dirname(path))
    .filter((name) => name.startsWith(`${stem}-`) && name.endsWith(`-of-${count}.gguf`))
    .map((name) => join(dirname(path), name))
    .sort();
}

export class FileHashes {
  readonly #known: Map<string, Remembered>;

  /** `memory`: the file in which hashes are stored. */
  constructor(private readonly memory: string) {
    let known: [string, Remembered][] = [];
    try {
      known = Object.entries(JSON.parse(readFileSync(memory, 'utf8')) as Record<string, Remembered>);
    } catch {
      // If the file is missing or damaged, the hashes are computed again.
    }
    this.#known = new Map(known);
  }

  /** Returns the hash of all files of a model. Rejects with the file system's error, or if `signal` aborts. */
  async ofModel(paths: readonly string[], signal: AbortSignal): Promise<Buffer> {
    const all = createHash('sha256');
    for (const path of paths)
      for (const file of modelFiles(path)) all.update(`${basename(file)}\0${await this.#of(file, signal)}\n`);
    return all.digest();
  }

  async #of(path: string, signal: AbortSignal): Promise<string> {
    const identity = identityOf(path);
    const known = this.#known.get(path);
    if (known?.identity === identity) return known.hash;
    const hash = createHash('sha256');
    const file = await open(path, 'r');
    try {
      const chunk = Buffer.allocUnsafe(CHUNK_BYTES);
      for (;;) {
        const { bytesRead } = await file.read(chunk, 0, chunk.length, null);
        if (bytesRead === 0) break;
        hash.update(chunk.subarray(0, bytesRead));
        signal.throwIfAborted();
        await nextTurn(); // look-ups come first
      }
    } finally {
      await file.close();
    }
    const digest = hash.digest('hex');
    if (identityOf(path) !== identity) throw new Error(`${path} changed while it was read`);
    this.#known.delete(path);
    this.#known.set(path, { identity, hash: digest });
    for (const [oldest] of this.#known) {
      if (this.#known.size <= MAX_REMEMBERED) break;
      this.#known.delete(oldest);
    }
    this.#save();
    return digest;
  }

  #save(): void {
    try {
      writeFileSync(`${this.memory}.new`, JSON.stringify(Object.fromEntries(this.#known)), { mode: 0o600 });
      renameSync(`${this.memory}.new`, this.memory);
    } catch {
      // If the file cannot be written, the hashes are computed again after the next startup.
    }
  }
}

function identityOf(path: string): string {
  const { size, mtimeMs, ino } = statSync(path);
  return `${size} ${mtimeMs} ${ino}`;
}
