// Decides whether the addon in build/Release was built from these sources, wherever the checkout is. CMake compares
// absolute paths and times, so it would rebuild the whole engine after the checkout is moved or copied.
import { createHash } from 'node:crypto';
import { existsSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join, relative } from 'node:path';

/**
 * A hash of everything that determines the addon, except for the compiler's version.
 *
 * @param {string} root the checkout
 * @param {Readonly<Record<string, string | undefined>>} env
 */
export function nativeHash(root, env = process.env) {
  const hash = createHash('sha256');
  const put = (name, value) => hash.update(`${name}\0`).update(value).update('\0');
  const native = join(root, 'native');
  const files = readdirSync(native, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath ?? entry.path, entry.name))
    .sort();
  for (const path of [...files, join(root, 'scripts', 'cmake-js.mjs')]) put(relative(root, path), readFileSync(path));
  for (const name of ['node-addon-api', 'node-api-headers']) {
    const path = join(root, 'node_modules', name, 'package.json');
    put(name, existsSync(path) ? JSON.parse(readFileSync(path, 'utf8')).version : 'none');
  }
  for (const name of ['CXX', 'CXXFLAGS', 'LDFLAGS', 'MONOLITH_BUILD_CUDA']) put(name, env[name] ?? '');
  put('gpu', String(existsSync('/dev/nvidiactl')));
  put('machine', `${process.arch} ${libc()}`);
  return hash.digest('hex');
}

/** The glibc version. An addon built with a newer glibc does not load. */
function libc() {
  process.report.excludeNetwork = true; // faster
  return process.report.getReport().header.glibcVersionRuntime ?? 'other';
}

const stampPath = (addon) => `${addon}.sources`;
const stampOf = (addon, hash) => `${hash} ${statSync(addon).size}\n`;

/** Whether `addon` was built from sources with this hash. */
export function isCurrent(addon, hash) {
  return (
    existsSync(addon) && existsSync(stampPath(addon)) && readFileSync(stampPath(addon), 'utf8') === stampOf(addon, hash)
  );
}

export function writeStamp(addon, hash) {
  writeFileSync(stampPath(addon), stampOf(addon, hash));
}
