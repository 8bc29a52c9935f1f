// Checks and decodes image files: the format from the first bytes, the size from the header, and integrity by decoding
// the file once, either here or where the pixels are used. Decoding runs on libuv's threads, at most two images at a
// time (decoders.ts).
import type { Sharp, SharpOptions } from 'sharp';
import { apiError } from '../../shared/errors.js';
import type { Requester } from '../fair-slots.js';
import type { LoadedImage } from '../types.js';
import { Decoders } from './decoders.js';
import { firstFrame } from './first-frame.js';

export type ImageFormat = LoadedImage['format'];

const begins = (bytes: Uint8Array, text: string, at = 0): boolean =>
  Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('latin1', at, at + text.length) === text;

/** Returns null for unsupported formats: SVG, TIFF, AVIF, PDF and others. */
export function formatOf(bytes: Uint8Array): ImageFormat | null {
  if (begins(bytes, '\x89PNG\r\n\x1a\n')) return 'png';
  if (begins(bytes, '\xff\xd8\xff')) return 'jpeg';
  if (begins(bytes, 'GIF87a') || begins(bytes, 'GIF89a')) return 'gif';
  if (begins(bytes, 'RIFF') && begins(bytes, 'WEBP', 8)) return 'webp';
  return null;
}

const decoders = new Decoders();

type SharpModule = (input: Uint8Array, options: SharpOptions) => Sharp;
let loading: Promise<SharpModule> | null = null;

/**
 * The image library is loaded when the first image arrives, because loading it takes time and most servers never
 * process an image.
 */
function loadSharp(): Promise<SharpModule> {
  loading ??= import('sharp').then(({ default: sharp }) => {
    sharp.cache(false);
    sharp.concurrency(1); // the engine needs the other cores
    // Restricts libvips to these loaders, regardless of the format that a file claims.
    sharp.block({ operation: ['VipsForeignLoad'] });
    sharp.unblock({
      operation: ['VipsForeignLoadPng', 'VipsForeignLoadJpeg', 'VipsForeignLoadNsgif', 'VipsForeignLoadWebp'],
    });
    return sharp;
  });
  return loading;
}

export interface DecodeOptions {
  readonly path: string;
  readonly requester: Requester;
  /**
   * 'sound': an earlier request has decoded the image without errors. 'decoded later': the caller decodes the pixels.
   * In both cases, only the header is read here.
   */
  readonly known: 'nothing' | 'sound' | 'decoded later';
  /** Called with the size before any pixels are decoded. Throws if there are too many pixels. */
  readonly spend: (width: number, height: number) => void;
}

/**
 * Throws ApiError unsupported_image_format, invalid_image or capacity_exhausted, any error thrown by `spend`, or the
 * reason of the requester's signal.
 */
export async function decodeImage(
  bytes: Uint8Array,
  { path, requester, known, spend }: DecodeOptions,
): Promise<LoadedImage> {
  const format = formatOf(bytes);
  if (format === null)
    throw apiError('unsupported_image_format', `${path}: only PNG, JPEG, WebP and GIF images are supported.`, path);
  const sharp = await loadSharp();
  // Only the first frame of an animation is read.
  const options: SharpOptions = { failOn: 'error', pages: 1, sequentialRead: true };
  const { width, height, cost } = await decoders.inspect(requester, bytes.length, async () => {
    const { bytes: frame, scans } = await firstFrame(bytes, format, path);
    // The size as displayed, because EXIF data may specify a rotation.
    const { autoOrient: size } = await sound(path, async () =>
      sharp(frame, { ...options, limitInputPixels: false }).metadata(),
    );
    return { ...size, cost: { bytes: frame.length, pixels: size.width * size.height, scans } };
  });
  if (known === 'sound') return { bytes, format, width, height };
  spend(width, height);
  if (known === 'decoded later') return { bytes, format, width, height };
  await decoders.decode(requester, cost, async () => {
    const { bytes: frame } = await firstFrame(bytes, format, path);
    // Shrinks while decoding, so that the full image is never copied.
    await sound(path, async () =>
      sharp(frame, { ...options, limitInputPixels: width * height })
        .resize(8, 8, { fit: 'fill', fastShrinkOnLoad: false })
        .raw()
        .toBuffer(),
    );
  });
  return { bytes, format, width, height };
}

/**
 * Decodes a loaded image to 8-bit RGB: the first frame, rotated for display. Alpha is dropped, keeping the color under
 * it; grayscale is expanded to three channels; color profiles are not applied. The decoder slot is held until `use`
 * resolves. Throws like decodeImage().
 */
export async function decodeRgb<T>(
  { bytes, format, width, height }: LoadedImage,
  { path, requester }: Pick<DecodeOptions, 'path' | 'requester'>,
  use: (pixels: Uint8Array) => Promise<T>,
): Promise<T> {
  const sharp = await loadSharp();
  const cost = await decoders.inspect(requester, bytes.length, async () => {
    const { bytes: frame, scans } = await firstFrame(bytes, format, path);
    return { bytes: frame.length, pixels: width * height, scans };
  });
  return decoders.decode(requester, cost, async () => {
    const { bytes: frame } = await firstFrame(bytes, format, path);
    const { data, info } = await sound(path, async () =>
      sharp(frame, { failOn: 'error', pages: 1, limitInputPixels: width * height, ignoreIcc: true })
        .autoOrient()
        .removeAlpha()
        .toColourspace('srgb')
        .raw({ depth: 'uchar' })
        .toBuffer({ resolveWithObject: true }),
    );
    if (info.width !== width || info.height !== height || info.channels !== 3)
      throw new Error(`${path}: decoded to ${info.width} x ${info.height} x ${info.channels}`);
    requester.signal?.throwIfAborted();
    return use(data);
  });
}

async function sound<T>(path: string, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    throw apiError('invalid_image', `${path}: the image is damaged or incomplete.`, path, { cause: error });
  }
}
