// The committed corpus of each fuzz target is one file, test/fuzz/corpus/TARGET.pack, so that the repository does not
// hold thousands of small files. Each input is stored as: length of its name (1 byte), name, length of its data (4
// bytes, little-endian), data. Inputs are sorted by name. Generated inputs are named by their hashes. Inputs with any
// other name are kept when a corpus is minimized. test/native/fuzz/replay_test.cc reads the same format.
//
// node scripts/fuzz/corpus-pack.mjs unpack TARGET FOLDER | pack TARGET FOLDER
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = resolve(dirname(fileURLToPath(import.meta.url)), '..', '..');

/** Path to a target's committed corpus. */
export const packOf = (target) => join(root, 'test', 'fuzz', 'corpus', `${target}.pack`);

/**
 * Returns the inputs in a pack as `{ name, bytes }`, or none if the file does not exist. Throws if the pack is damaged.
 */
export function readPack(path) {
  if (!existsSync(path)) return [];
  const pack = readFileSync(path);
  const inputs = [];
  for (let at = 0; at < pack.length; ) {
    const nameEnd = at + 1 + pack[at];
    if (nameEnd + 4 > pack.length) throw new Error(`${path}: cut off at byte ${at}`);
    const end = nameEnd + 4 + pack.readUInt32LE(nameEnd);
    if (end > pack.length) throw new Error(`${path}: cut off at byte ${nameEnd}`);
    inputs.push({ name: pack.toString('latin1', at + 1, nameEnd), bytes: pack.subarray(nameEnd + 4, end) });
    at = end;
  }
  return inputs;
}

/** Writes the files in a directory to a pack. File names have at most 255 ASCII characters. */
export function packFolder(folder, path) {
  const parts = [];
  for (const name of readdirSync(folder).sort()) {
    const bytes = readFileSync(join(folder, name));
    const length = Buffer.alloc(4);
    length.writeUInt32LE(bytes.length);
    parts.push(Buffer.from([name.length]), Buffer.from(name, 'latin1'), length, bytes);
  }
  mkdirSync(dirname(path), { recursive: true });
  writeFileSync(path, Buffer.concat(parts));
}

/** Replaces the contents of a directory with the inputs in a pack, one file per input. */
export function unpackTo(path, folder) {
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder, { recursive: true });
  for (const { name, bytes } of readPack(path)) writeFileSync(join(folder, name), bytes);
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const [action, target, folder] = process.argv.slice(2);
  if (!['pack', 'unpack'].includes(action) || target === undefined || folder === undefined) {
    console.error('usage: node scripts/fuzz/corpus-pack.mjs pack|unpack TARGET FOLDER');
    process.exit(2);
  }
  if (action === 'pack') packFolder(folder, packOf(target));
  else unpackTo(packOf(target), folder);
}
