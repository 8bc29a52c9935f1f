// A file's contents are one or more segments: one for a file that was uploaded as a whole, one per part for a file that
// was uploaded in parts.

import { ROW_BYTES } from '../file-store.js';

export interface Segment {
  /** ID of the contents: the ID of the file or of the part. */
  readonly id: string;
  readonly bytes: number;
}

/** A slice of one row. */
export interface RowSlice {
  readonly id: string;
  readonly position: number;
  readonly from: number;
  readonly to: number;
}

/** Returns the slices of rows that contain the bytes from `start` up to and excluding `end`, in order. */
export function* rowSlices(segments: readonly Segment[], start: number, end: number): Generator<RowSlice> {
  let base = 0; // position of the segment within the file
  for (const { id, bytes } of segments) {
    const from = Math.max(0, start - base);
    const to = Math.min(bytes, end - base);
    for (let at = from; at < to; ) {
      const position = Math.floor(at / ROW_BYTES);
      const rowStart = position * ROW_BYTES;
      const rowEnd = Math.min(to, rowStart + ROW_BYTES);
      yield { id, position, from: at - rowStart, to: rowEnd - rowStart };
      at = rowEnd;
    }
    base += bytes;
  }
}
