// Loads uWebSockets.js with its parser's error pages replaced.
//
// What the parser cannot read (garbage, oversized headers, HTTP/1.0) the library answers itself, with HTML
// and in one case with status 505, which the contract rules out. The three pages are constants of its
// binary, in one table:
//
//   .rodata   "HTTP/1.1 505 …" NUL "HTTP/1.1 431 …" NUL "HTTP/1.1 400 …" NUL       one after the other
//   .data     { length, address } × 3                                            addresses by relocation
//
// A copy of the binary with other texts in the same bytes, and lengths and addresses to match, is written
// once into build/ and loaded instead. Every byte that is changed is checked first: a binary that looks
// different in any way, or a folder that cannot be written, means the library as it is.
//
// How large a request's headers may be the library reads from a variable when it is loaded, once for all
// threads of the process. It is therefore loaded by the first server there is, with that server's setting.

import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type * as Library from 'uWebSockets.js';
import { packageRoot } from '../engine/load-addon.js';
import { apiError, chatErrorBody, StartError } from '../errors.js';
import type { ErrorCode } from '../errors.js';

export type Uws = typeof Library;

export interface LoadedUws {
  uws: Uws;
  /** Whether the parser answers in JSON. */
  patched: boolean;
}

const PAGES = ['HTTP/1.1 505 HTTP Version Not Supported\r\n', 'HTTP/1.1 431 Request Header Fields Too Large\r\n', 'HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n<h1>'];

function page(code: ErrorCode, message: string): string {
  const body = JSON.stringify(chatErrorBody(apiError(code, message)));
  return `HTTP/1.1 400 Bad Request\r\nContent-Type: application/json; charset=utf-8\r\nConnection: close\r\n\r\n${body}`;
}

const MALFORMED = page('malformed_http', 'Not HTTP/1.1.');
const TOO_LARGE = page('headers_too_large', 'The headers are too large.');

/** The binary with JSON pages, or null if it is not laid out as described above. Pure. */
export function withJsonPages(original: Buffer): Buffer | null {
  const binary = Buffer.from(original);
  const texts = PAGES.map((start) => {
    const at = binary.indexOf(start);
    return { at, length: binary.indexOf(0, at) - at, unique: at >= 0 && binary.indexOf(start, at + 1) < 0 };
  });
  const [first, second, third] = texts;
  if (first === undefined || second === undefined || third === undefined || texts.some(({ unique }) => !unique)) return null;
  const adjacent = second.at === first.at + first.length + 1 && third.at === second.at + second.length + 1;
  const room = third.at + third.length - first.at;
  if (!adjacent || MALFORMED.length + TOO_LARGE.length > room) return null;

  const elf = readElf(binary);
  if (elf === null) return null;
  const base = elf.addressOf(first.at);
  if (base === null) return null;
  // Both the 505 and the 400 page become "malformed"; the 431 page becomes "headers too large".
  const replacements = [{ start: 0, text: MALFORMED }, { start: MALFORMED.length, text: TOO_LARGE }, { start: 0, text: MALFORMED }];
  for (const [i, { at, length }] of texts.entries()) {
    const address = elf.addressOf(at);
    const entries = elf.relocationsTo(address ?? -1);
    const [entry] = entries;
    const replacement = replacements[i];
    if (entries.length !== 1 || entry === undefined || replacement === undefined) return null;
    const lengthAt = elf.offsetOf(entry.target - 8);
    if (lengthAt === null || binary.readBigUInt64LE(lengthAt) !== BigInt(length)) return null;
    binary.writeBigUInt64LE(BigInt(replacement.text.length), lengthAt);
    binary.writeBigUInt64LE(BigInt(base + replacement.start), entry.addendAt);
  }
  binary.fill(0, first.at, first.at + room);
  binary.write(MALFORMED + TOO_LARGE, first.at, 'latin1');
  return binary;
}

interface Elf {
  addressOf(offset: number): number | null;
  offsetOf(address: number): number | null;
  /** RELA entries that put `address` somewhere: where, and where their addend stands in the file. */
  relocationsTo(address: number): { target: number; addendAt: number }[];
}

// ELF-64, little-endian: what the library ships for Linux.
function readElf(file: Buffer): Elf | null {
  if (file.length < 64 || file.readUInt32BE(0) !== 0x7f454c46 || file[4] !== 2 || file[5] !== 1) return null;
  const u64 = (at: number): number => Number(file.readBigUInt64LE(at));
  const table = (start: number, count: number, size: number): number[] => Array.from({ length: count }, (_, i) => start + i * size);
  const loads = table(u64(0x20), file.readUInt16LE(0x38), file.readUInt16LE(0x36))
    .filter((at) => file.readUInt32LE(at) === 1)
    .map((at) => ({ offset: u64(at + 8), address: u64(at + 16), size: u64(at + 32) }));
  const relocations = table(u64(0x28), file.readUInt16LE(0x3c), file.readUInt16LE(0x3a))
    .filter((at) => file.readUInt32LE(at + 4) === 4)
    .map((at) => ({ start: u64(at + 24), size: u64(at + 32) }));
  return {
    addressOf: (offset) => {
      const load = loads.find((one) => offset >= one.offset && offset < one.offset + one.size);
      return load === undefined ? null : offset - load.offset + load.address;
    },
    offsetOf: (address) => {
      const load = loads.find((one) => address >= one.address && address < one.address + one.size);
      return load === undefined ? null : address - load.address + load.offset;
    },
    relocationsTo: (address) => relocations.flatMap(({ start, size }) => table(start, Math.floor(size / 24), 24)
      .filter((at) => u64(at + 16) === address)
      .map((at) => ({ target: u64(at), addendAt: at + 16 }))),
  };
}

/** Read by the library when it is loaded. */
const HEADER_BYTES_VARIABLE = 'UWS_HTTP_MAX_HEADERS_SIZE';

let loaded: LoadedUws | null = null;

/** The library. `maxHeaderBytes` counts in the first call of the process; the main thread's comes before any other's. */
export function loadUws(maxHeaderBytes: number): LoadedUws {
  if (loaded !== null) return loaded;
  const before = process.env[HEADER_BYTES_VARIABLE];
  process.env[HEADER_BYTES_VARIABLE] = String(maxHeaderBytes);
  try {
    loaded = load();
  } finally {
    if (before === undefined) delete process.env[HEADER_BYTES_VARIABLE];   // no child process shall have it
    else process.env[HEADER_BYTES_VARIABLE] = before;
  }
  return loaded;
}

function load(): LoadedUws {
  const require = createRequire(import.meta.url);
  const name = `bin/uws_${process.platform}_${process.arch}_${process.versions.modules}.node`;
  const binary = fileURLToPath(new URL(name, import.meta.resolve('uWebSockets.js')));
  if (!existsSync(binary)) throw new StartError(`The HTTP library uWebSockets.js has no binary for this platform and version of Node.js: ${name}.`);
  let copy: string;
  try {
    copy = copyWithJsonPages(binary);
  } catch {
    return { uws: require(binary) as Uws, patched: false };
  }
  return { uws: require(copy) as Uws, patched: true };
}

/** Where the binary with JSON pages is; made if need be. Throws if it cannot be. */
function copyWithJsonPages(binary: string): string {
  const original = readFileSync(binary);
  const hash = createHash('sha256').update(original).update(MALFORMED).update(TOO_LARGE).digest('hex').slice(0, 16);
  const copy = join(packageRoot, 'build', `uws-${hash}.node`);
  if (existsSync(copy)) return copy;
  const patched = withJsonPages(original);
  if (patched === null) throw new Error('another layout');
  mkdirSync(join(packageRoot, 'build'), { recursive: true });
  const partial = `${copy}.${process.pid}`;
  writeFileSync(partial, patched, { mode: 0o755 });
  renameSync(partial, copy);   // never half a file under the final name
  return copy;
}
