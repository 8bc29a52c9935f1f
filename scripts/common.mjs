// Shared by the scripts. Uses only Node's own modules, because it runs before node_modules exists.
import { accessSync, constants, existsSync, statSync } from 'node:fs';
import { delimiter, join } from 'node:path';
import { fileURLToPath } from 'node:url';

export const root = fileURLToPath(new URL('..', import.meta.url));

/** A failure with a self-explanatory message, which is printed without a stack trace. */
export class SetupError extends Error {}

export function say(text) {
  process.stderr.write(`monolith: ${text}\n`);
}

/** The path to an executable, or null. */
export function which(name) {
  if (name.includes('/')) return existsSync(name) ? name : null;
  for (const folder of (process.env.PATH ?? '').split(delimiter)) {
    if (folder === '') continue;
    const path = join(folder, name);
    try {
      accessSync(path, constants.X_OK);
      if (statSync(path).isFile()) return path;
    } catch {
      // not in this directory
    }
  }
  return null;
}
