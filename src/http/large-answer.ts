// Sends a whole response that the socket does not take in one write. The library would copy the rest of it; here it gets the
// rest as its reader takes it, so that a response is held once, and its memory is accounted for. A reader that takes everything at
// loopback speed gets a megabyte per turn of the event loop, so that other requests do not wait for it. Event-loop thread only.
//
//   sendLarge ─► tryEnd, piece by piece ─► the socket is full ─► onWritable ─► … ─► sent
//                     │ a megabyte         └─ too slow: closed, which aborts
//                     └─► the next turn
import type { HttpResponse } from 'uWebSockets.js';

/** Bytes that are written before other requests have a turn. */
const TURN_BYTES = 1 << 20;

/**
 * Within a cork, after the headers. `sent` is called once, when the last byte has been handed over; not if the client leaves.
 * `isGone`: the client has left, and `res` must not be used any more.
 */
export function sendLarge(
  res: HttpResponse,
  pieces: readonly Uint8Array[],
  isGone: () => boolean,
  sent: () => void,
): void {
  const total = pieces.reduce((sum, piece) => sum + piece.length, 0);
  let at = 0; // the piece that the next byte is in
  let begin = 0; // where it begins
  let paused = false;
  const push = (from: number): boolean => {
    if (paused) return true;
    let offset = from;
    for (const end = from + TURN_BYTES; offset < end; ) {
      let piece = pieces[at] as Uint8Array;
      while (offset >= begin + piece.length) {
        begin += piece.length;
        piece = pieces[++at] as Uint8Array;
      }
      const [ok, done] = res.tryEnd(offset === begin ? piece : piece.subarray(offset - begin), total);
      if (done) {
        sent();
        return true;
      }
      if (!ok) return false;
      offset = begin + piece.length;
    }
    paused = true;
    setImmediate(() => {
      paused = false;
      if (!isGone()) res.cork(() => void push(offset));
    });
    return false;
  };
  if (!push(0)) res.onWritable(push);
}
