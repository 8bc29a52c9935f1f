// Loads uWebSockets.js: finds its binary for this Node.js version and applies two patches to a copy: JSON error pages
// (uws-pages.ts) and support for Debian 12 (uws-glibc.ts). docs/reference/security.md documents the binary's origin and
// the reasons for the patches.
//
//   http.library     set by the operator: a file, or a package's directory
//   our own package  monolith-server-linux-x64 and the like; patched when it was packed
//   uWebSockets.js   in a checkout; the copy is in build/, or else in a private directory in /tmp
//
// If no copy can be written, or if the binary's layout is not as expected, the library is used unpatched.
//
// The library reads the maximum header size from an environment variable when it is loaded, once for all threads of the
// process. Therefore, the first server to load it determines the limit.

import { createHash } from 'node:crypto';
import { existsSync, lstatSync, readdirSync, readFileSync, renameSync, statSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import type * as Library from 'uWebSockets.js';
import { addonPackages, installedPackage, packageRoot } from '../engine/load-addon.js';
import { StartError } from '../shared/errors.js';
import { withOlderGlibc } from './uws-glibc.js';
import { JSON_PAGES, withJsonPages } from './uws-pages.js';
import { makeFolder } from '../shared/make-folder.js';

export type Uws = typeof Library;

export interface LoadedUws {
  uws: Uws;
  /** Whether the parser's error pages are patched to be JSON. */
  patched: boolean;
}

const require = createRequire(import.meta.url);

/** Environment variable for the maximum header size. The library reads it when it is loaded. */
const HEADER_BYTES_VARIABLE = 'UWS_HTTP_MAX_HEADERS_SIZE';

let loaded: LoadedUws | null = null;

/**
 * Returns the library. The arguments matter only in the process's first call, which the main thread makes. `library`:
 * the http.library setting. Throws StartError.
 */
export function loadUws(maxHeaderBytes: number, library: string | null = null): LoadedUws {
  if (loaded !== null) return loaded;
  const before = process.env[HEADER_BYTES_VARIABLE];
  process.env[HEADER_BYTES_VARIABLE] = String(maxHeaderBytes);
  try {
    loaded = load(library === null ? installedBinary() : namedBinary(library));
  } finally {
    if (before === undefined)
      delete process.env[HEADER_BYTES_VARIABLE]; // child processes must not inherit the variable
    else process.env[HEADER_BYTES_VARIABLE] = before;
  }
  return loaded;
}

const kind = `uws_${process.platform}_${process.arch}_`;
const binaryName = `${kind}${process.versions.modules}.node`;

// Directories in which packages of the library contain their binaries.
const PLACES = ['', 'bin', 'dist/bin', 'dist'];

/** Path of the binary for this Node.js version in a package's directory, or null. */
function binaryIn(folder: string): string | null {
  return PLACES.map((place) => join(folder, place, binaryName)).find((path) => existsSync(path)) ?? null;
}

function namedBinary(library: string): string {
  const status = statSync(library, { throwIfNoEntry: false });
  const path = status?.isDirectory() === true ? binaryIn(library) : library;
  if (status === undefined || path === null) {
    throw new StartError(
      `http.library: ${status === undefined ? `${library} does not exist` : `${library} has no ${binaryName}, which Node.js ${process.version} needs`}.`,
    );
  }
  return path;
}

function installedBinary(): string {
  const folders = addonPackages().flatMap((name) => installedPackage(name) ?? []);
  try {
    folders.push(dirname(require.resolve('uWebSockets.js')));
  } catch {
    // The package is not installed, which is normal in an installation from this project's own packages.
  }
  const path = folders.map(binaryIn).find((one) => one !== null);
  if (path !== undefined && path !== null) return path;
  const known = folders
    .flatMap((folder) => (existsSync(folder) ? readdirSync(folder) : []))
    .filter((name) => name.startsWith(kind))
    .map((name) => name.slice(kind.length).replace('.node', ''));
  const have =
    known.length === 0
      ? 'none for this platform'
      : `those for modules ${known.join(', ')} (Node.js 20 is 115, 22 is 127, 24 is 137)`;
  throw new StartError(
    `The HTTP library uWebSockets.js has no binary for Node.js ${process.version} on ${process.platform} ${process.arch} ` +
      `(modules ${process.versions.modules}); found: ${have}.`,
  );
}

function load(binary: string): LoadedUws {
  const failures: string[] = [];
  for (const { path, patched } of candidates(binary)) {
    try {
      return { uws: require(path) as Uws, patched };
    } catch (error) {
      failures.push((error instanceof Error ? error.message : String(error)).split('\n')[0] as string);
    }
  }
  const reasons = [...new Set(failures)].join('; ');
  throw new StartError(
    `The HTTP library uWebSockets.js failed to load (${reasons}). It must be built for Node.js ${process.version} and needs glibc 2.36 or newer.`,
  );
}

/**
 * Yields patched copies of the binary, then the binary itself. A copy in a directory mounted `noexec` cannot be loaded.
 */
function* candidates(binary: string): Generator<LoadedFile> {
  let content: Buffer | null = null;
  let patched = false;
  try {
    const copy = changedBinary(readFileSync(binary));
    patched = copy.content.includes(JSON_PAGES);
    if (copy.changed) content = copy.content;
  } catch {
    patched = false; // not a binary; loading it reports the error
  }
  if (content === null) {
    yield { path: binary, patched };
    return;
  }
  const name = `uws-${createHash('sha256').update(content).digest('hex').slice(0, 16)}.node`;
  for (const folder of [() => join(packageRoot, 'build'), privateFolder]) {
    let path: string;
    try {
      path = placeIn(folder(), name, content);
    } catch {
      continue; // not writable
    }
    yield { path, patched };
  }
  yield { path: binary, patched: false };
}

interface LoadedFile {
  path: string;
  patched: boolean;
}

/** Returns a patched copy of the library's binary. No side effects. */
export function changedBinary(original: Buffer): { content: Buffer; changed: boolean } {
  const content = withOlderGlibc(withJsonPages(original) ?? original);
  return { content, changed: content !== original };
}

function placeIn(folder: string, name: string, content: Buffer): string {
  makeFolder(folder, 0o755);
  const copy = join(folder, name);
  if (existsSync(copy) && readFileSync(copy).equals(content)) return copy;
  const partial = `${copy}.${process.pid}`;
  writeFileSync(partial, content, { mode: 0o755 });
  renameSync(partial, copy); // a partial file never gets the final name
  return copy;
}

/** Returns a directory in /tmp that only this user can write to. */
function privateFolder(): string {
  const uid = process.getuid?.() ?? 0;
  const folder = join(tmpdir(), `monolith-${uid}`);
  makeFolder(folder, 0o700);
  const status = lstatSync(folder);
  if (!status.isDirectory() || status.uid !== uid || (status.mode & 0o077) !== 0)
    throw new Error(`${folder} belongs to another user`);
  return folder;
}
