// Sends a complete response that does not fit in one socket write. The library would copy the remainder. Instead, this
// file writes the remainder as the client reads it, so the response is in memory only once, and the memory is accounted
// for. A client that reads at loopback speed gets at most 1 MiB per event-loop iteration, so other requests do not have
// to wait for it. Event-loop thread only.
//
//   sendLarge ─► tryEnd, chunk by chunk ─► the socket is full ─► onWritable ─► … ─► sent
//                     │ after 1 MiB         └─ too slow: closed, which aborts
//                     └─► next event-loop iteration
import type { TransportResponse } from './transport.js';

/** Number of bytes of one response to write before other requests get a turn. */
const TURN_BYTES = 1 << 20;

/**
 * Must be called inside a cork, after the headers have been written. `sent` is called once, when the last byte has been
 * passed to the socket; it is not called if the client disconnects. `isGone` returns true once the client has
 * disconnected, after which `res` must not be used.
 */
export function sendLarge(
  res: TransportResponse,
  pieces: readonly Uint8Array[],
  isGone: () => boolean,
  sent: () => void,
): void {
  const total = pieces.reduce((sum, piece) => sum + piece.length, 0);
  let at = 0; // index of the chunk that contains the next byte
  let begin = 0; // offset of that chunk within the response
  let paused = false;
  const push = (from: number): boolean => {
    if (paused) return true;
    if (from >= total) {
      sent();
      return true;
    }
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
