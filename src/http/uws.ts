// Loads uWebSockets.js: finds its binary for this Node, and changes a copy of it in two places, uws-pages.ts (error
// pages in JSON) and uws-glibc.ts (loads on Debian 12). docs/reference/security.md says whose binary it is and why it is changed.
//
//   http.library   the operator's: a file, or the folder of a package
//   prebuilt/      in our own package: changed when it was packed
//   uWebSockets.js the package, in a checkout; the copy lies in build/, or else in a folder of this user's below /tmp
//
// Where no copy can be written, or the binary looks different in any way, the library is used as it is.
//
// How large a request's headers may be the library reads from a variable when it is loaded, once for all
// threads of the process. It is therefore loaded by the first server there is, with that server's setting.

import { createHash } from 'node:crypto';
import {
  existsSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import type * as Library from 'uWebSockets.js';
import { packageRoot } from '../engine/load-addon.js';
import { StartError } from '../shared/errors.js';
import { withOlderGlibc } from './uws-glibc.js';
import { JSON_PAGES, withJsonPages } from './uws-pages.js';

export type Uws = typeof Library;

export interface LoadedUws {
  uws: Uws;
  /** Whether the parser answers in JSON. */
  patched: boolean;
}

const require = createRequire(import.meta.url);

/** Read by the library when it is loaded. */
const HEADER_BYTES_VARIABLE = 'UWS_HTTP_MAX_HEADERS_SIZE';

let loaded: LoadedUws | null = null;

/**
 * The library. What is asked for counts in the first call of the process; the main thread's comes before any other's.
 * `library`: the setting http.library. Throws StartError.
 */
export function loadUws(maxHeaderBytes: number, library: string | null = null): LoadedUws {
  if (loaded !== null) return loaded;
  const before = process.env[HEADER_BYTES_VARIABLE];
  process.env[HEADER_BYTES_VARIABLE] = String(maxHeaderBytes);
  try {
    loaded = load(library === null ? installedBinary() : namedBinary(library));
  } finally {
    if (before === undefined)
      delete process.env[HEADER_BYTES_VARIABLE]; // no child process shall have it
    else process.env[HEADER_BYTES_VARIABLE] = before;
  }
  return loaded;
}

const kind = `uws_${process.platform}_${process.arch}_`;
const binaryName = `${kind}${process.versions.modules}.node`;

// Where packages of the library have their binaries.
const PLACES = ['', 'bin', 'dist/bin', 'dist'];

/** The binary for this Node in the folder of a package, or null. */
function binaryIn(folder: string): string | null {
  return PLACES.map((place) => join(folder, place, binaryName)).find((path) => existsSync(path)) ?? null;
}

function namedBinary(library: string): string {
  const status = statSync(library, { throwIfNoEntry: false });
  const path = status?.isDirectory() === true ? binaryIn(library) : library;
  if (status === undefined || path === null) {
    throw new StartError(
      `http.library: ${status === undefined ? `${library} is not there` : `${library} has no ${binaryName}, which Node.js ${process.version} needs`}.`,
    );
  }
  return path;
}

function installedBinary(): string {
  const folders = [join(packageRoot, 'prebuilt')];
  try {
    folders.push(dirname(require.resolve('uWebSockets.js')));
  } catch {
    // not installed, as with our own package
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
      `(modules ${process.versions.modules}); there are ${have}. The setting http.library names another one.`,
  );
}

function load(binary: string): LoadedUws {
  let path = binary;
  let patched = false;
  try {
    const { content, changed } = changedBinary(readFileSync(binary));
    patched = content.includes(JSON_PAGES);
    if (changed) path = placeCopy(content);
  } catch {
    patched = false; // no folder to write a copy to, or a file that is no binary: loading it says what is wrong
    path = binary;
  }
  try {
    return { uws: require(path) as Uws, patched };
  } catch (error) {
    const reason = error instanceof Error ? error.message.split('\n')[0] : String(error);
    throw new StartError(
      `The HTTP library does not load (${reason}). It needs Node.js ${process.version} and glibc 2.36 or newer; the setting http.library names another one.`,
    );
  }
}

/** What is loaded in the place of a binary of the library. Pure. */
export function changedBinary(original: Buffer): { content: Buffer; changed: boolean } {
  const content = withOlderGlibc(withJsonPages(original) ?? original);
  return { content, changed: content !== original };
}

/** A file with this content; made if need be. Throws if it cannot be. */
function placeCopy(content: Buffer): string {
  const name = `uws-${createHash('sha256').update(content).digest('hex').slice(0, 16)}.node`;
  for (const folder of [() => join(packageRoot, 'build'), privateFolder]) {
    try {
      return placeIn(folder(), name, content);
    } catch {
      // the next one
    }
  }
  throw new Error('no folder can be written to');
}

function placeIn(folder: string, name: string, content: Buffer): string {
  mkdirSync(folder, { recursive: true, mode: 0o755 });
  const copy = join(folder, name);
  if (existsSync(copy) && readFileSync(copy).equals(content)) return copy;
  const partial = `${copy}.${process.pid}`;
  writeFileSync(partial, content, { mode: 0o755 });
  renameSync(partial, copy); // never half a file under the final name
  return copy;
}

/** A folder below /tmp that nobody but this user can have put anything into. */
function privateFolder(): string {
  const uid = process.getuid?.() ?? 0;
  const folder = join(tmpdir(), `monolith-${uid}`);
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  const status = lstatSync(folder);
  if (!status.isDirectory() || status.uid !== uid || (status.mode & 0o077) !== 0)
    throw new Error(`${folder} is somebody else's`);
  return folder;
}
