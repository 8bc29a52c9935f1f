// Image files that attack a decoder: small files that cost far more than their pixels suggest (many scans, many frames,
// compressed comments), truncated files, and files whose headers declare the wrong size.
import { deflateSync } from 'node:zlib';

const segment = (code: number, data: readonly number[]): Buffer =>
  Buffer.from([0xff, code, (data.length + 2) >> 8, (data.length + 2) & 0xff, ...data]);
/** A Huffman table with one code, 0, for symbol 0. */
const table = (id: number): Buffer => segment(0xc4, [id, 1, ...Array<number>(15).fill(0), 0]);
/** Returns `count` zero bits, padded with ones to a whole byte. */
function zeroBits(count: number): Buffer {
  const bits = Buffer.alloc(Math.ceil(count / 8));
  if (count % 8 > 0) bits[bits.length - 1] = (1 << (8 - (count % 8))) - 1;
  return bits;
}

const repeated = (bytes: Buffer, count: number): Buffer => Buffer.alloc(bytes.length * count, bytes);

/**
 * Returns a valid JPEG. Progressive: one component, and each scan except the first covers all AC coefficients.
 * Sequential: three components, one per scan.
 */
export function jpegOfScans(
  side: number,
  scans: number,
  kind: 'progressive' | 'sequential' = 'progressive',
  before: Buffer = Buffer.alloc(0),
): Buffer {
  const blocks = Math.ceil(side / 8) ** 2;
  const components = kind === 'progressive' ? [1] : [1, 2, 3];
  const frame = segment(kind === 'progressive' ? 0xc2 : 0xc0, [
    8,
    side >> 8,
    side & 255,
    side >> 8,
    side & 255,
    components.length,
    ...components.flatMap((id) => [id, 0x11, 0]),
  ]);
  const scan = (at: number): Buffer => {
    if (kind === 'sequential')
      return Buffer.concat([segment(0xda, [1, components[at % 3]!, 0, 0, 63, 0]), zeroBits(2 * blocks)]);
    return Buffer.concat([segment(0xda, at === 0 ? [1, 1, 0, 0, 0, 0] : [1, 1, 0, 1, 63, 0]), zeroBits(blocks)]);
  };
  return Buffer.concat([
    Buffer.from([0xff, 0xd8]),
    before,
    segment(0xdb, [0, ...Array<number>(64).fill(1)]),
    frame,
    table(0x00),
    table(0x10),
    ...Array.from({ length: scans }, (_, at) => scan(at)),
    Buffer.from([0xff, 0xd9]),
  ]);
}

/** Returns `count` one-byte JPEG segments, to be inserted before the other segments. */
export const jpegSegments = (code: number, count: number): Buffer => repeated(segment(code, [0x41]), count);

/** Returns `png` with `count` text chunks, each of which decompresses to 8 MB. */
export function pngWithComments(png: Buffer, count: number): Buffer {
  const comment = pngChunk(
    'zTXt',
    Buffer.concat([Buffer.from('k\0\0'), deflateSync(Buffer.alloc(7_900_000, 65), { level: 9 })]),
  );
  return Buffer.concat([png.subarray(0, 33), repeated(comment, count), png.subarray(33)]);
}

/** Returns a GIF with `count` one-pixel frames. */
export function gifOfFrames(count: number): Buffer {
  const head = Buffer.from([...Buffer.from('GIF89a'), 1, 0, 1, 0, 0x80, 0, 0, 0, 0, 0, 255, 255, 255]);
  const frame = Buffer.from([0x21, 0xf9, 4, 0, 1, 0, 0, 0, 0x2c, 0, 0, 0, 0, 1, 0, 1, 0, 0, 2, 2, 0x44, 1, 0]);
  return Buffer.concat([head, repeated(frame, count), Buffer.from([0x3b])]);
}

/** Returns a WebP animation that repeats a one-pixel WebP `count` times. */
export function webpOfFrames(webp: Buffer, count: number): Buffer {
  const chunk = (name: string, data: Buffer): Buffer => {
    const head = Buffer.alloc(8);
    head.write(name, 'latin1');
    head.writeUInt32LE(data.length, 4);
    return Buffer.concat([head, data]);
  };
  const frame = chunk(
    'ANMF',
    Buffer.concat([Buffer.from([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 100, 0, 0, 0]), webp.subarray(12)]),
  );
  const body = Buffer.concat([
    Buffer.from('WEBP'),
    chunk('VP8X', Buffer.from([2, 0, 0, 0, 0, 0, 0, 0, 0, 0])),
    chunk('ANIM', Buffer.alloc(6)),
    repeated(frame, count),
  ]);
  return chunk('RIFF', body);
}

const TABLE = Array.from({ length: 256 }, (_, n) => {
  for (let bit = 0; bit < 8; ++bit) n = n & 1 ? 0xedb88320 ^ (n >>> 1) : n >>> 1;
  return n >>> 0;
});

function crc32(bytes: Uint8Array): number {
  let crc = 0xffffffff;
  for (const byte of bytes) crc = TABLE[(crc ^ byte) & 0xff]! ^ (crc >>> 8);
  return (crc ^ 0xffffffff) >>> 0;
}

/** Returns a chunk with its length and checksum. */
function pngChunk(type: string, data: Uint8Array): Buffer {
  const body = Buffer.concat([Buffer.from(type, 'latin1'), data]);
  const out = Buffer.alloc(body.length + 8);
  out.writeUInt32BE(data.length, 0);
  body.copy(out, 4);
  out.writeUInt32BE(crc32(body), body.length + 4);
  return out;
}

/**
 * Returns a black 1-bit PNG whose header declares `width` by `height` pixels, but which contains only `rows` rows of
 * pixels.
 */
export function pngOf(width: number, height: number, rows: number): Buffer {
  const header = Buffer.from([0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0]);
  header.writeUInt32BE(width, 0);
  header.writeUInt32BE(height, 4);
  const pixels = deflateSync(Buffer.alloc(rows * (1 + Math.ceil(width / 8))), { level: 9 });
  return Buffer.concat([
    Buffer.from('\x89PNG\r\n\x1a\n', 'latin1'),
    pngChunk('IHDR', header),
    pngChunk('IDAT', pixels),
    pngChunk('IEND', Buffer.alloc(0)),
  ]);
}

/** Returns the JPEG with a different width and height in its frame header. */
export function jpegWithSides(jpeg: Buffer, width: number, height: number): Buffer {
  const at = jpeg.indexOf(Buffer.from([0xff, 0xc0]));
  const changed = Buffer.from(jpeg);
  changed.writeUInt16BE(height, at + 5);
  changed.writeUInt16BE(width, at + 7);
  return changed;
}
