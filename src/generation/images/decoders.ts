// Who decodes an image next: at most two concurrently in this thread, organizations in turns, and only one of the two may be a
// slow one. A running decode cannot be stopped, and the slowest that the limits allow takes seconds: the other decoder stays
// free for images that take a fraction of one, so that no organization waits for another's slow images. Event-loop thread only.
import { shareOf } from '../../shared/thread-count.js';
import { FairSlots, type Claimant } from '../fair-slots.js';

/** Bytes of one organization's files that may wait. */
const MAX_WAITING = shareOf(256 * 1024 * 1024);
/** Each may hold 400 MB: 50 million pixels of a JPEG's coefficients or of a WebP's frame and its canvas. */
const DECODERS = 2;

/** What decides how long decoding takes. */
export interface DecodeCost {
  readonly bytes: number; // of the file
  readonly pixels: number;
  readonly scans: number; // passes over the pixels
}

/** Decoding takes 10 to 40 ns per pixel, and about 1 ns more for each scan. */
const SLOW_PIXELS = 16_000_000;
const SCANS_PER_PASS = 10;
/** No encoder writes more: 16 bits each of four channels. A decoder may still have to read all of it. */
const MAX_BYTES_PER_PIXEL = 8;
const OVERHEAD_BYTES = 262_144;

/** Whether it may take longer than half a second. */
export function isSlow({ bytes, pixels, scans }: DecodeCost): boolean {
  return pixels * (1 + scans / SCANS_PER_PASS) > SLOW_PIXELS || bytes > MAX_BYTES_PER_PIXEL * pixels + OVERHEAD_BYTES;
}

export class Decoders {
  readonly #all = new FairSlots(DECODERS, 'images', MAX_WAITING);
  readonly #slow = new FairSlots(DECODERS - 1, 'images', MAX_WAITING);

  /** Reads a file's blocks and header. Rejects as FairSlots.run(). */
  inspect<T>(claimant: Claimant, bytes: number, work: () => Promise<T>): Promise<T> {
    return this.#all.run(claimant, bytes, work);
  }

  /** Decodes the pixels. Rejects as FairSlots.run(). */
  decode<T>(claimant: Claimant, cost: DecodeCost, work: () => Promise<T>): Promise<T> {
    const decode = (): Promise<T> => this.#all.run(claimant, cost.bytes, work);
    return isSlow(cost) ? this.#slow.run(claimant, cost.bytes, decode) : decode();
  }
}
