// Finds and loads the native addon, once per thread.
import { existsSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { Addon } from './addon-types.js';

/** The directory that contains package.json, dist/, src/, build/ and models/. */
export const packageRoot: string = findPackageRoot(dirname(fileURLToPath(import.meta.url)));

function findPackageRoot(from: string): string {
  for (let folder = from; ; folder = dirname(folder)) {
    if (existsSync(join(folder, 'package.json'))) return folder;
    if (folder === dirname(folder)) throw new Error(`no package.json above ${from}`);
  }
}

const kPlaces = ['build/Release/monolith.node', 'build/Debug/monolith.node'];

/** The npm packages that contain the addon for this machine, in order of preference. Built by scripts/package.mjs. */
export function addonPackages(): string[] {
  const name = `monolith-server-${process.platform}-${process.arch}`;
  return [`${name}-cuda`, name];
}

/** The directory of an installed npm package, or undefined. */
export function installedPackage(name: string): string | undefined {
  try {
    return dirname(createRequire(import.meta.url).resolve(`${name}/package.json`));
  } catch {
    return undefined;
  }
}

function installedAddon(): string | undefined {
  return addonPackages()
    .flatMap((name) => installedPackage(name) ?? [])
    .map((folder) => join(folder, 'monolith.node'))
    .find((path) => existsSync(path));
}

let loaded: Addon | undefined;

/**
 * Returns this thread's addon. The environment variable MONOLITH_ADDON overrides the path; tests use this to load an
 * addon with an emulated GPU. Throws an Error that explains how to build the addon, or why it does not load.
 */
export function loadAddon(): Addon {
  if (loaded !== undefined) return loaded;
  const named = process.env['MONOLITH_ADDON'] ?? '';
  const path =
    named !== ''
      ? resolve(named)
      : (kPlaces.map((place) => join(packageRoot, place)).find((place) => existsSync(place)) ?? installedAddon());
  if (path === undefined) {
    throw new Error(
      `the native addon is not built: run "npm run build" (looked for ${kPlaces.join(' and ')} in ${packageRoot})`,
    );
  }
  try {
    loaded = createRequire(import.meta.url)(path) as Addon;
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    const advice =
      named !== ''
        ? 'its path comes from MONOLITH_ADDON'
        : path.startsWith(packageRoot)
          ? 'rebuild it with "npm run build"'
          : 'it needs glibc 2.36 or newer; otherwise uninstall that package and build the engine from source';
    throw new Error(`the native addon ${path} failed to load (${reason}): ${advice}`, { cause: error });
  }
  return loaded;
}
