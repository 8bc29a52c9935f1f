// Reduces an image file to the blocks that its first frame needs, before a decoder reads it. Otherwise, decoders would
// spend time and memory on blocks that do not affect any pixel: 1 MB of compressed PNG comments takes 4 GB of memory,
// 15 MB of empty JPEG segments take 2 GB, and the frame headers of a 5 MB animated WebP take half a minute. A JPEG's
// cost grows with the number of scans, so scans are counted and limited.
//
// The walkers only follow block lengths. If a walker reaches corrupt data, the rest of the file is passed to the
// decoder unchanged, and the decoder stops at the same position.
import { setImmediate as nextTurn } from 'node:timers/promises';
import { apiError } from '../../shared/errors.js';
import type { LoadedImage } from '../types.js';

/** Maximum number of scans in a JPEG. Encoders write about 10 scans, and each costs a pass over all pixels. */
export const MAX_JPEG_SCANS = 100;

export interface FirstFrame {
  /** The bytes to decode; identical to the file if no blocks were removed. */
  readonly bytes: Uint8Array;
  /** Number of passes over the pixels during decoding. */
  readonly scans: number;
}

/** A walk that runs in steps; each yield ends a step. */
type Walk = Generator<undefined, FirstFrame>;

/** Maximum time that a walk may block the event loop without a pause, in ms. */
const SLICE_MS = 2;
/** Number of blocks between two checks of the clock. */
const STEP_BLOCKS = 4_096;

/** Throws ApiError invalid_image. Never blocks the event loop for long, regardless of the file's content. */
export async function firstFrame(bytes: Uint8Array, format: LoadedImage['format'], path: string): Promise<FirstFrame> {
  // The bytes are viewed as a Buffer, because a Uint8Array has no native functions for searching and reading numbers.
  const walk = WALKS[format](Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength), path);
  for (let began = performance.now(), step = walk.next(); ; step = walk.next()) {
    if (step.done === true) return step.value.bytes.length === bytes.length ? { ...step.value, bytes } : step.value;
    if (performance.now() - began < SLICE_MS) continue;
    await nextTurn();
    began = performance.now();
  }
}

const WALKS: Readonly<Record<LoadedImage['format'], (bytes: Buffer, path: string) => Walk>> = {
  jpeg: walkJpeg,
  png: walkPng,
  gif: walkGif,
  webp: walkWebp,
};

/** Returns four characters as a 32-bit number. */
function nameOf(text: string): number {
  return Buffer.from(text, 'latin1').readUInt32BE();
}

const MARKER = 0xff,
  STUFFED = 0x00,
  TEM = 0x01,
  RST0 = 0xd0,
  SOI = 0xd8,
  EOI = 0xd9,
  SOS = 0xda,
  APP0 = 0xe0,
  APP15 = 0xef,
  COM = 0xfe;
/**
 * First four characters of the relevant application segments: color space (JFIF, Adobe) and orientation (Exif). Only
 * the first segment of each kind is kept.
 */
const JPEG_SEGMENTS: ReadonlySet<number> = new Set(['JFIF', 'Exif', 'Adob'].map(nameOf));
/** Number of bytes to check one by one before calling the native search. One native call costs about as much. */
const NEAR = 64;

/** Counts the scans. Finds markers the same way as libjpeg and stops at the same EOI. */
function* walkJpeg(bytes: Buffer, path: string): Walk {
  const kept = new Kept(bytes);
  const seen = new Set<number>();
  let scans = 0;
  for (let at = 0, blocks = 1; ; blocks++) {
    const near = Math.min(at + NEAR, bytes.length);
    while (at < near && bytes[at] !== MARKER) at++;
    if (at === near) at = bytes.indexOf(MARKER, at);
    const code = at < 0 ? undefined : bytes[at + 1];
    if (code === undefined || code === EOI) break;
    if (code === MARKER)
      // A code may be preceded by any number of marker bytes.
      for (const end = at + STEP_BLOCKS; at < end && bytes[at + 1] === MARKER; ) at++;
    else if (code === STUFFED || code === TEM || (code >= RST0 && code <= SOI)) at += 2;
    else {
      if (code === SOS && ++scans > MAX_JPEG_SCANS)
        throw apiError('invalid_image', `${path}: the JPEG has more than ${MAX_JPEG_SCANS} scans.`, path);
      if (at + 4 > bytes.length) break;
      const end = at + 2 + bytes.readUInt16BE(at + 2);
      if (code === COM || (code >= APP0 && code <= APP15)) {
        const name = at + 8 <= bytes.length ? bytes.readUInt32BE(at + 4) : 0;
        if (!JPEG_SEGMENTS.has(name) || seen.has(name)) kept.leaveOut(at, end);
        else seen.add(name);
      }
      at = end;
    }
    if (blocks % STEP_BLOCKS === 0) yield;
  }
  return { bytes: kept.end(), scans };
}

const PNG_SIGNATURE_BYTES = 8;
/** Chunks that affect the pixels, and whether each may occur more than once. All other chunks are removed. */
const PNG_CHUNKS: ReadonlyMap<number, boolean> = new Map([
  // critical chunks: the decoder rejects invalid repetitions
  ...['IHDR', 'PLTE', 'IDAT', 'IEND'].map((name) => [nameOf(name), true] as const),
  ...['tRNS', 'gAMA', 'cHRM', 'sRGB', 'iCCP', 'cICP', 'sBIT', 'eXIf'].map((name) => [nameOf(name), false] as const),
]);
const IEND = nameOf('IEND');

function* walkPng(bytes: Buffer): Walk {
  const kept = new Kept(bytes);
  const seen = new Set<number>();
  let at = PNG_SIGNATURE_BYTES;
  for (let blocks = 1; at + 12 <= bytes.length; blocks++) {
    const end = at + 12 + bytes.readUInt32BE(at);
    const name = bytes.readUInt32BE(at + 4);
    const repeats = PNG_CHUNKS.get(name);
    if (repeats === undefined || (!repeats && seen.has(name))) kept.leaveOut(at, end);
    else if (!repeats) seen.add(name);
    at = end;
    if (name === IEND) break;
    if (blocks % STEP_BLOCKS === 0) yield;
  }
  return { bytes: kept.end(), scans: 1 };
}

const GIF_HEADER_BYTES = 13;
const EXTENSION = 0x21,
  IMAGE = 0x2c,
  TRAILER = 0x3b;

/** Truncates the file after its first image. */
function* walkGif(bytes: Buffer, path: string): Walk {
  const tableBytes = (flags: number): number => ((flags & 0x80) === 0 ? 0 : 3 * 2 ** ((flags & 7) + 1));
  let at = GIF_HEADER_BYTES + tableBytes(bytes[10] ?? 0);
  for (let blocks = 1; ; ) {
    const kind = bytes[at];
    if (kind === IMAGE) at += 11 + tableBytes(bytes[at + 9] ?? 0);
    else if (kind === EXTENSION) at += 2;
    else if (kind === TRAILER || at >= bytes.length)
      return { bytes, scans: 1 }; // there is no image, so the decoder will reject the file
    else throw apiError('invalid_image', `${path}: the image is damaged or incomplete.`, path);
    for (let size = bytes[at]; size !== 0; size = bytes[at]) {
      if (size === undefined) return { bytes, scans: 1 };
      at += 1 + size;
      if (blocks++ % STEP_BLOCKS === 0) yield;
    }
    at++;
    if (kind !== IMAGE) continue;
    if (bytes[at] === TRAILER || at >= bytes.length) return { bytes: bytes.subarray(0, at + 1), scans: 1 };
    return { bytes: Buffer.concat([bytes.subarray(0, at), Buffer.from([TRAILER])]), scans: 1 };
  }
}

const RIFF_HEADER_BYTES = 12;
/** Chunks of an extended WebP file (VP8X) that affect its first frame. Only the first of each kind is kept. */
const WEBP_CHUNKS: ReadonlySet<number> = new Set(
  ['VP8X', 'ICCP', 'ANIM', 'ANMF', 'ALPH', 'VP8 ', 'VP8L', 'EXIF'].map(nameOf),
);
const VP8X = nameOf('VP8X');

/** Removes all frames except the first. */
function* walkWebp(bytes: Buffer): Walk {
  if (bytes.length < RIFF_HEADER_BYTES + 8 || bytes.readUInt32BE(RIFF_HEADER_BYTES) !== VP8X)
    return { bytes, scans: 1 }; // a decoder reads only the first chunk
  const kept = new Kept(bytes);
  const seen = new Set<number>();
  let at = RIFF_HEADER_BYTES;
  for (let blocks = 1; at + 8 <= bytes.length; blocks++) {
    const size = bytes.readUInt32LE(at + 4);
    const end = at + 8 + size + (size & 1);
    const name = bytes.readUInt32BE(at);
    if (!WEBP_CHUNKS.has(name) || seen.has(name)) kept.leaveOut(at, end);
    else seen.add(name);
    at = end;
    if (blocks % STEP_BLOCKS === 0) yield;
  }
  const frame = kept.end();
  // Only the size of the removed blocks is subtracted from the length in the header, so the decoder can still detect a
  // truncated file.
  if (frame !== bytes) frame.writeUInt32LE(Math.max(0, frame.readUInt32LE(4) - kept.skippedBytes), 4);
  return { bytes: frame, scans: 1 };
}

/** A file with removable blocks. It is copied once, when the first block is removed. */
class Kept {
  /** Number of bytes removed, not counting bytes beyond the end of a truncated file. */
  skippedBytes = 0;
  #copy: Buffer | null = null;
  #length = 0; // bytes used in the copy
  #from = 0; // file offset of the first byte that has not been copied yet

  constructor(private readonly file: Buffer) {}

  /** Must be called with ascending positions. */
  leaveOut(from: number, to: number): void {
    this.#copy ??= Buffer.allocUnsafe(this.file.length);
    this.#add(this.#copy, from);
    this.#from = Math.min(to, this.file.length);
    this.skippedBytes += this.#from - from;
  }

  end(): Buffer {
    if (this.#copy === null) return this.file;
    this.#add(this.#copy, this.file.length);
    return this.#copy.subarray(0, this.#length);
  }

  #add(copy: Buffer, to: number): void {
    if (to > this.#from) this.#length += this.file.copy(copy, this.#length, this.#from, to);
  }
}
