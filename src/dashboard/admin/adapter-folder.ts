// Resolves the path of an adapter in a request. The path must be inside the directory of the setting adapters.folder.
// Symbolic links to files outside this directory are refused, including links inside a PEFT folder.

import { realpathSync, statSync } from 'node:fs';
import { join, resolve, sep } from 'node:path';
import { adapterPathProblem } from '../../engine/adapters.js';

/** The files that the engine reads from a PEFT folder. */
const PEFT_FILES = ['adapter_config.json', 'adapter_model.safetensors'];

export type AdapterPath = { readonly path: string } | { readonly problem: string };

/**
 * Returns the adapter's path with symbolic links resolved, or the reason why it is refused. A relative path is relative
 * to `folder`. For a path outside `folder`, the reason does not reveal whether the file exists.
 */
export function adapterPath(given: string, folder: string | null): AdapterPath {
  if (folder === null)
    return { problem: 'adapters cannot be loaded at run time, because the setting adapters.folder is not set' };
  const outside = { problem: `must be a path inside adapters.folder (got ${JSON.stringify(given.slice(0, 256))})` };
  if (given.includes('\0')) return outside;
  const asked = resolve(folder, given);
  let root: string;
  try {
    root = realpathSync(folder);
  } catch {
    return { problem: 'the directory set in adapters.folder does not exist' };
  }
  if (!isInside(asked, resolve(folder)) && !isInside(asked, root)) return outside;
  const missing = { problem: `${JSON.stringify(given.slice(0, 256))} does not exist in adapters.folder` };
  let path: string;
  try {
    path = realpathSync(asked);
  } catch {
    return missing;
  }
  if (!isInside(path, root)) return outside;
  const problem = adapterPathProblem(path);
  if (problem !== null)
    return {
      problem: `${JSON.stringify(given.slice(0, 256))} is neither a file nor a folder with an adapter_config.json`,
    };
  if (!statSync(path).isDirectory()) return { path };
  for (const name of PEFT_FILES) {
    try {
      if (!isInside(realpathSync(join(path, name)), root)) return outside;
    } catch {
      return { problem: `${JSON.stringify(given.slice(0, 256))} has no file ${name}` };
    }
  }
  return { path };
}

const isInside = (path: string, folder: string): boolean =>
  path.startsWith(folder.endsWith(sep) ? folder : folder + sep);
