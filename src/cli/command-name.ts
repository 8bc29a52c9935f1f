// The command that a user types to run Monolith. It depends on how Monolith was installed and on the working directory.
import { existsSync } from 'node:fs';
import { join, relative } from 'node:path';
import { packageRoot } from '../engine/load-addon.js';

/**
 * `monolith` after installation. In a checkout, the path of its launch script: `./monolith` from the root of the
 * checkout, `../monolith` and so on from directories next to or inside it, and otherwise the absolute path.
 */
export function commandName(root: string = packageRoot, cwd: string = process.cwd()): string {
  const script = join(root, 'monolith');
  // The npm package does not contain the script.
  if (!existsSync(script)) return 'monolith';
  const path = relative(cwd, script);
  if (path.startsWith('../../')) return script;
  return path.startsWith('../') ? path : `./${path}`;
}
