// Schedules image decoding: at most two images at a time per thread, of which at most one is slow, with organizations
// taking turns. A running decode cannot be stopped, and the slowest one within the limits takes seconds. Therefore, the
// other decoder stays free for fast images, and no organization has to wait for another's slow images. Event-loop
// thread only.
import { shareOf } from '../../shared/thread-count.js';
import { FairSlots, type Requester } from '../fair-slots.js';

/** Maximum total size of the files that one organization has waiting, in bytes. */
const MAX_WAITING = shareOf(256 * 1024 * 1024);
/**
 * Maximum number of concurrent decodes. For 50 million pixels, each may use 400 MB: for a JPEG's coefficients, or for a
 * WebP's frame and canvas.
 */
const DECODERS = 2;

/** The properties that determine the decoding time. */
export interface DecodeCost {
  readonly bytes: number; // file size
  readonly pixels: number;
  readonly scans: number; // passes over the pixels
}

/** Decoding takes 10 to 40 ns per pixel, and about 1 ns more per scan. */
const SLOW_PIXELS = 16_000_000;
const SCANS_PER_PASS = 10;
/**
 * Encoders write at most 16 bits for each of four channels. A file can nevertheless be larger, and a decoder may have
 * to read all of it.
 */
const MAX_BYTES_PER_PIXEL = 8;
const OVERHEAD_BYTES = 262_144;

/** Whether decoding may take longer than half a second. */
export function isSlow({ bytes, pixels, scans }: DecodeCost): boolean {
  return pixels * (1 + scans / SCANS_PER_PASS) > SLOW_PIXELS || bytes > MAX_BYTES_PER_PIXEL * pixels + OVERHEAD_BYTES;
}

export class Decoders {
  readonly #all = new FairSlots(DECODERS, 'images', MAX_WAITING);
  readonly #slow = new FairSlots(DECODERS - 1, 'images', MAX_WAITING);

  /** Reads a file's blocks and header. Rejects like FairSlots.run(). */
  inspect<T>(requester: Requester, bytes: number, work: () => Promise<T>): Promise<T> {
    return this.#all.run(requester, bytes, work);
  }

  /** Decodes the pixels. Rejects like FairSlots.run(). */
  decode<T>(requester: Requester, cost: DecodeCost, work: () => Promise<T>): Promise<T> {
    const decode = (): Promise<T> => this.#all.run(requester, cost.bytes, work);
    return isSlow(cost) ? this.#slow.run(requester, cost.bytes, decode) : decode();
  }
}
