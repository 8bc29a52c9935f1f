// Backpressure for upstream connections: they are read only while there is time left for upstream responses in this turn of the event
// loop (slices.ts). What is not read stays in the kernel, which slows the server down. The HTTP client's own way to pause a
// response fails an assertion if the connection is reset meanwhile. Event-loop thread only.
import type { Socket } from 'node:net';
import { mayReadNow } from './slices.js';

/** What reads the connections that were refused a read, in the order in which they were. */
let refused: (() => void)[] = [];

/** From now on `socket.read()` returns null while there is no time for it, and 'readable' is emitted again once there is. */
export function gate(socket: Socket): void {
  const read = socket.read.bind(socket);
  let isRefused = false;
  const readAgain = (): void => {
    isRefused = false;
    if (!socket.destroyed) socket.emit('readable');
  };
  socket.read = (size?: number): unknown => {
    if (size === 0 || mayReadNow()) return read(size);
    if (!isRefused) {
      isRefused = true;
      if (refused.push(readAgain) === 1) setImmediate(readRefused);
    }
    return null;
  };
}

function readRefused(): void {
  const again = refused;
  refused = [];
  // Pictures that there is no time for are refused again.
  for (const readAgain of again) readAgain();
}
