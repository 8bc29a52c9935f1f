// Sends a response body of known size that is read in pieces. The next piece is read when the socket has accepted the
// previous one, so at most one piece is in memory even if the client is slow. Event-loop thread only.

import type { TransportResponse } from './transport.js';

/**
 * Sends `total` bytes from `pieces`. Must be called after the headers have been written. Resolves when the last byte
 * has been passed to the socket. Rejects if `pieces` throws, if it yields fewer than `total` bytes, or if the client
 * disconnects. `isGone` returns whether the client has disconnected; then `res` must not be used. `onGone` registers a
 * callback for that event. `onAccepted` is called each time the socket has accepted bytes.
 */
export async function sendStreamed(
  res: TransportResponse,
  {
    total,
    pieces,
    isGone,
    onGone,
    onAccepted,
  }: {
    total: number;
    pieces: AsyncIterable<Uint8Array>;
    isGone: () => boolean;
    onGone: (callback: () => void) => void;
    onAccepted: () => void;
  },
): Promise<void> {
  let sent = 0;
  let resume: ((offset: number) => void) | null = null;
  onGone(() => resume?.(sent));
  let isRegistered = false;
  const writable = (): Promise<number> =>
    new Promise((resolve) => {
      resume = resolve;
      if (isRegistered) return;
      isRegistered = true;
      // Registered only once, because a handler registered while the previous one is running would be lost.
      res.onWritable((offset) => {
        resume?.(offset);
        return false;
      });
    });
  for await (const piece of pieces) {
    const end = sent + piece.length;
    while (sent < end && !isGone()) {
      let isFull = false;
      res.cork(() => {
        const [ok] = res.tryEnd(piece.subarray(piece.length - (end - sent)), total);
        isFull = !ok;
      });
      if (!isFull) {
        sent = end;
        onAccepted();
        break;
      }
      if (isGone()) break;
      const accepted = await writable();
      if (accepted > sent) onAccepted();
      sent = accepted;
    }
    if (isGone()) throw new Error('the client disconnected');
  }
  if (sent < total) throw new Error('the contents ended early');
}
