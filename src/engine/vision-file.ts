// Where a model's vision tower is: named in its settings, beside its file under a usual name, or in its own Hugging Face folder.
// Reads folders, and of files config.json alone.
import { readdirSync, readFileSync, statSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import type { CatalogModel } from './catalog.js';

export interface VisionFile {
  readonly path: string;
  /** Nobody named it: if it does not fit the model, the model is served without. */
  readonly found: boolean;
}

/** Of a config.json; those of models have some kilobytes. */
const MOST_CONFIG_BYTES = 1 << 20;

/** In the order of preference where a folder has the same tower several times: most hold it in one of these. */
const TYPES = ['bf16', 'f16', 'f32', 'q8_0'];

/**
 * The tower's file; null: there is none. A file counts as one that has "mmproj" in its name and ends in .gguf. Beside a model
 * file it is one that has the model's name in its own (without what says how weights are stored), or the only model's. A folder
 * without such a file is its own tower's where its config.json tells of one.
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
    return null; // loading will say what is wrong with it
  }
  const towers = names.filter(isTower);
  const own = isFolder ? towers : towers.filter((name) => isOf(name, basename(file)));
  const models = new Set(names.filter((name) => !isTower(name)).map(stemOf));
  const candidates = own.length > 0 ? own : models.size <= 1 ? towers : [];
  const [best] = candidates.sort((a, b) => rank(a) - rank(b));
  if (best !== undefined) return { path: join(folder, best), found: true };
  return isFolder && tellsOfTower(folder) ? { path: folder, found: true } : null;
}

function tellsOfTower(folder: string): boolean {
  const path = join(folder, 'config.json');
  try {
    if (statSync(path).size > MOST_CONFIG_BYTES) return false;
    const config: unknown = JSON.parse(readFileSync(path, 'utf8'));
    return (
      typeof config === 'object' &&
      config !== null &&
      'vision_config' in config &&
      typeof config.vision_config === 'object' &&
      config.vision_config !== null
    );
  } catch {
    return false; // loading will say what is wrong with it
  }
}

const isTower = (name: string): boolean => name.toLowerCase().includes('mmproj');

/** Without the ending, what says how weights are stored, and the number of the part. */
function stemOf(name: string): string {
  return name
    .toLowerCase()
    .replace(/\.gguf$/, '')
    .replace(/-\d{5}-of-\d{5}$/, '')
    .replace(/[-._](?:ud-)?(?:i?q\d\w*|bf16|f16|f32|fp16|mxfp4\w*)$/, '');
}

function isOf(tower: string, model: string): boolean {
  const rest = stemOf(tower).replace(/[-._]?mmproj[-._]?/, '');
  return rest !== '' && (stemOf(model).startsWith(rest) || rest.startsWith(stemOf(model)));
}

function rank(name: string): number {
  const at = TYPES.findIndex((type) => name.toLowerCase().includes(type));
  return at === -1 ? TYPES.length : at;
}
