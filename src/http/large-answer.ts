// Sends a complete response that does not fit in one socket write. The library would copy the rest of it. Here, the
// rest is written as the client reads it, so the response is in memory only once, and its memory is accounted for. A
// client that reads at loopback speed gets 1 MiB per iteration of the event loop, so other requests do not wait for it.
// Event-loop thread only.
//
//   sendLarge ─► tryEnd, chunk by chunk ─► the socket is full ─► onWritable ─► … ─► sent
//                     │ after 1 MiB         └─ too slow: closed, which aborts
//                     └─► next event-loop iteration
import type { HttpResponse } from 'uWebSockets.js';

/** Bytes written before other requests get a turn. */
const TURN_BYTES = 1 << 20;

/**
 * Must be called inside a cork, after the headers. `sent` is called once, when the last byte has been passed to the
 * socket, but not if the client disconnects. `isGone`: the client has disconnected and `res` must no longer be used.
 */
export function sendLarge(
  res: HttpResponse,
  pieces: readonly Uint8Array[],
  isGone: () => boolean,
  sent: () => void,
): void {
  const total = pieces.reduce((sum, piece) => sum + piece.length, 0);
  let at = 0; // index of the chunk with the next byte
  let begin = 0; // offset of that chunk in the response
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
