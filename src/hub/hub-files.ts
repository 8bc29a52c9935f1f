// Selects the servable weights among a repository's files: GGUF files, single or split, each with a quantization, or a
// directory with safetensors. No side effects.

import { showBytes } from '../config/kinds.js';
import { HubError } from './hub-error.js';

export interface HubFile {
  readonly path: string;
  readonly bytes: number;
  /**
   * Hash of the content: SHA-256 (64 digits) or, for small files, git's SHA-1 blob hash (40 digits). It is also the
   * blob's name in the cache.
   */
  readonly hash: string;
}

export interface Weights {
  /** The quantization from the file name, such as Q4_K_M; `safetensors` for a directory. */
  readonly quantization: string;
  /** The file to serve. For a split file, its first part; for a directory, ''. */
  readonly entry: string;
  /** All required files, sorted by name. */
  readonly files: readonly HubFile[];
  /** Size of the tensors in bytes. */
  readonly bytes: number;
}

const SPLIT = /^(.*)-(\d{5})-of-(\d{5})\.gguf$/;
const QUANTIZATION =
  /(?:^|[-._/])((?:UD-)?(?:I?Q\d(?:_[A-Z0-9]+)*|TQ\d_0|MXFP4(?:_MOE)?|NVFP4|BF16|F16|FP16|F32|FP32))(?=[-.]|$)/gi;
/** Repacked tensor formats that current engines no longer support. */
const REPACKED = /^Q4_0_\d_\d$/i;
/** Types with more than about eight bits per weight. */
const WIDE = /^(BF16|F16|FP16|F32|FP32)$/i;

/** Files in a directory that the loader reads. None of them can contain code. */
const OF_FOLDER =
  /^(config|generation_config|tokenizer|tokenizer_config|special_tokens_map|added_tokens|vocab|chat_template|preprocessor_config|processor_config|video_preprocessor_config|model\.safetensors\.index)\.json$|^(merges\.txt|tokenizer\.model|chat_template\.jinja)$/;
const SAFETENSORS = /^(?!consolidated)[^/]+\.safetensors$/;

const nameOf = (path: string): string => path.slice(path.lastIndexOf('/') + 1);
const folderOf = (path: string): string => path.slice(0, path.lastIndexOf('/') + 1);
/** Whether a file with this name can be part of servable weights. */
export const isServed = (path: string): boolean =>
  path.endsWith('.gguf') || OF_FOLDER.test(path) || SAFETENSORS.test(path);
const isProjector = (path: string): boolean => /mmproj/i.test(nameOf(path));

/** The last quantization in a file's name or, if it has none, in the names of its directories. */
export function quantizationOf(path: string): string | null {
  for (const text of [nameOf(path).replace(/\.gguf$/i, ''), folderOf(path).slice(0, -1)]) {
    const found = [...text.matchAll(QUANTIZATION)].at(-1)?.[1];
    if (found !== undefined) return found.toUpperCase();
  }
  return null;
}

/**
 * Returns all servable weights of a repository: GGUF before safetensors, and smaller before larger ones. Incomplete
 * split files are omitted.
 */
export function weightsOf(files: readonly HubFile[]): Weights[] {
  const groups = new Map<string, HubFile[]>();
  for (const file of files) {
    if (!file.path.endsWith('.gguf') || isProjector(file.path) || /imatrix/i.test(nameOf(file.path))) continue;
    const [, stem, , count] = SPLIT.exec(file.path) ?? [];
    const key = stem === undefined ? file.path : `${stem} of ${count as string}`;
    groups.set(key, [...(groups.get(key) ?? []), file]);
  }
  const found: Weights[] = [];
  for (const group of groups.values()) {
    const parts = [...group].sort((a, b) => (a.path < b.path ? -1 : 1));
    const first = parts[0] as HubFile;
    const [, , , count] = SPLIT.exec(first.path) ?? [];
    if (count !== undefined && !isWhole(parts, Number(count))) continue;
    const quantization = quantizationOf(first.path) ?? nameOf(first.path);
    if (REPACKED.test(quantization)) continue;
    found.push({ quantization, entry: first.path, files: parts, bytes: sum(parts) });
  }
  found.sort((a, b) => a.bytes - b.bytes);
  const tensors = files.filter(({ path }) => SAFETENSORS.test(path));
  if (tensors.length > 0 && files.some(({ path }) => path === 'config.json')) {
    const rest = files.filter(({ path }) => OF_FOLDER.test(path));
    found.push({ quantization: 'safetensors', entry: '', files: [...rest, ...tensors], bytes: sum(tensors) });
  }
  return found;
}

function isWhole(parts: readonly HubFile[], count: number): boolean {
  return parts.length === count && parts.every(({ path }, index) => Number(SPLIT.exec(path)?.[2]) === index + 1);
}

const sum = (files: readonly HubFile[]): number => files.reduce((total, { bytes }) => total + bytes, 0);

const PROJECTORS = ['F16', 'FP16', 'BF16', 'Q8_0', 'F32', 'FP32'];

/** Returns the vision projector for GGUF weights, preferring the most common type; null if there is none. */
export function projectorFor(weights: Weights, files: readonly HubFile[]): HubFile | null {
  if (weights.entry === '') return null;
  const found = files.filter(({ path }) => path.endsWith('.gguf') && isProjector(path));
  const rank = ({ path }: HubFile): number => {
    const at = PROJECTORS.indexOf(quantizationOf(path) ?? '');
    return at < 0 ? PROJECTORS.length : at;
  };
  return [...found].sort((a, b) => rank(a) - rank(b) || (a.path < b.path ? -1 : 1))[0] ?? null;
}

/**
 * Selects the weights by quantization, file or `safetensors`. The default is the largest set with at most eight bits
 * per weight that fits in half of `memory`, or the smallest if none fits. Throws HubError `no_such_weights` or
 * `too_large`.
 */
export function chooseWeights(repo: string, all: readonly Weights[], wanted: string | null, memory: number): Weights {
  if (all.length === 0)
    throw new HubError(
      'no_such_weights',
      `${repo} has no servable weights: no GGUF file, and no config.json with *.safetensors. (Pickled weights, *.bin and *.pth, are never read.)`,
    );
  return wanted === null ? byMemory(repo, all, memory) : named(repo, all, wanted);
}

const listed = (all: readonly Weights[]): string =>
  all.map(({ quantization, bytes }) => `${quantization} (${showBytes(bytes)})`).join(', ');

function named(repo: string, all: readonly Weights[], wanted: string): Weights {
  const asked = wanted.toUpperCase();
  const byFile = all.filter(({ entry, files }) => entry === wanted || files.some(({ path }) => path === wanted));
  const found = byFile.length > 0 ? byFile : all.filter(({ quantization }) => quantization.toUpperCase() === asked);
  const [one, other] = found;
  if (one === undefined) throw new HubError('no_such_weights', `${repo} has no "${wanted}"; it has ${listed(all)}`);
  if (other !== undefined)
    throw new HubError(
      'no_such_weights',
      `${repo} has "${wanted}" ${found.length} times; name the file: ${found.map(({ entry }) => `${repo}:${entry}`).join(', ')}`,
    );
  return one;
}

function byMemory(repo: string, all: readonly Weights[], memory: number): Weights {
  const files = all.filter(({ entry }) => entry !== '');
  const [only] = all;
  if (files.length === 0) {
    if ((only as Weights).bytes > memory) throw tooLarge(repo, only as Weights, memory);
    return only as Weights;
  }
  const narrow = files.filter(({ quantization }) => !WIDE.test(quantization));
  const candidates = narrow.length > 0 ? narrow : files;
  const chosen = candidates.filter(({ bytes }) => bytes <= memory / 2).at(-1) ?? (candidates[0] as Weights);
  if (chosen.bytes > memory) throw tooLarge(repo, chosen, memory);
  return chosen;
}

function tooLarge(repo: string, { quantization, bytes }: Weights, memory: number): HubError {
  return new HubError(
    'too_large',
    `the smallest weights of ${repo}, ${quantization}, take ${showBytes(bytes)}, and this machine has ${showBytes(memory)}. To download them anyway: ${repo}:${quantization}`,
  );
}
