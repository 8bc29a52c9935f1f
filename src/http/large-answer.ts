// A whole answer that the socket does not take at once. The library would copy what is left over; here it is given the rest
// as its reader takes it, so that an answer is held once, and known to be held. Event-loop thread only.
//
//   sendLarge ─► tryEnd, piece by piece ─► the socket is full ─► onWritable ─► … ─► sent
//                                                                └─ too slow: closed, which aborts
import type { HttpResponse } from 'uWebSockets.js';

/** Within a cork, behind the headers. `sent` is called once, when the last byte has been handed over; not if the client leaves. */
export function sendLarge(res: HttpResponse, pieces: readonly Uint8Array[], sent: () => void): void {
  const total = pieces.reduce((sum, piece) => sum + piece.length, 0);
  let at = 0;                    // the piece that the next byte is in
  let begin = 0;                 // where it begins
  const push = (offset: number): boolean => {
    for (;;) {
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
  };
  if (!push(0)) res.onWritable(push);
}
