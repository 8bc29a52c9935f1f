// Finds a model's vision encoder: the file named in its settings, a file with one of the usual names next to the model
// file, or the model's own Hugging Face directory. Reads only directories and config.json files.
import { readdirSync, readFileSync, statSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import type { CatalogModel } from './catalog.js';

export interface VisionFile {
  readonly path: string;
  /**
   * Whether the file was found by its name and not named in the settings. If such a file does not fit the model, the
   * model is served without it.
   */
  readonly found: boolean;
}

/** Maximum size of a config.json. Actual files have a few kilobytes. */
const MAX_CONFIG_BYTES = 1 << 20;

/** Preferred order of types if a directory contains the same vision encoder in several types. */
const TYPES = ['bf16', 'f16', 'f32', 'q8_0'];

/**
 * The vision encoder's file, or null. Candidates have "mmproj" in their name and end in .gguf. For a model file, the
 * candidate's name must contain the model's name (without quantization suffixes), or the directory must contain only
 * one model. If a directory has no such file, the directory itself is used if its config.json describes a vision
 * encoder.
 */
export function visionFileOf({ file, vision }: Pick<CatalogModel, 'file' | 'vision'>): VisionFile | null {
  if (vision === null) return null;
  if (vision !== undefined) return { path: vision, found: false };
  const isFolder = statSync(file, { throwIfNoEntry: false })?.isDirectory() === true;
  const folder = isFolder ? file : dirname(file);
  let names: string[];
  try {
    names = readdirSync(folder)
      .filter((name) => name.toLowerCase().endsWith('.gguf'))
      .sort();
  } catch {
    return null; // loading it reports what is wrong
  }
  const encoders = names.filter(isTower);
  const own = isFolder ? encoders : encoders.filter((name) => isOf(name, basename(file)));
  const models = new Set(names.filter((name) => !isTower(name)).map(stemOf));
  const candidates = own.length > 0 ? own : models.size <= 1 ? encoders : [];
  const [best] = candidates.sort((a, b) => rank(a) - rank(b));
  if (best !== undefined) return { path: join(folder, best), found: true };
  return isFolder && hasVisionEncoder(folder) ? { path: folder, found: true } : null;
}

function hasVisionEncoder(folder: string): boolean {
  const path = join(folder, 'config.json');
  try {
    if (statSync(path).size > MAX_CONFIG_BYTES) return false;
    const config: unknown = JSON.parse(readFileSync(path, 'utf8'));
    return (
      typeof config === 'object' &&
      config !== null &&
      'vision_config' in config &&
      typeof config.vision_config === 'object' &&
      config.vision_config !== null
    );
  } catch {
    return false; // loading it reports what is wrong
  }
}

const isTower = (name: string): boolean => name.toLowerCase().includes('mmproj');

/** The name without its extension, quantization suffix and part number. */
function stemOf(name: string): string {
  return name
    .toLowerCase()
    .replace(/\.gguf$/, '')
    .replace(/-\d{5}-of-\d{5}$/, '')
    .replace(/[-._](?:ud-)?(?:i?q\d\w*|bf16|f16|f32|fp16|mxfp4\w*)$/, '');
}

function isOf(encoder: string, model: string): boolean {
  const rest = stemOf(encoder).replace(/[-._]?mmproj[-._]?/, '');
  return rest !== '' && (stemOf(model).startsWith(rest) || rest.startsWith(stemOf(model)));
}

function rank(name: string): number {
  const at = TYPES.findIndex((type) => name.toLowerCase().includes(type));
  return at === -1 ? TYPES.length : at;
}
