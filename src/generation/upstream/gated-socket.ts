// Backpressure for upstream connections: sockets are read only while this event-loop turn has time left for upstream
// responses (slices.ts). Unread data stays in the kernel, which slows down the sender. undici's own way to pause a
// response fails an assertion if the connection is reset meanwhile. Event-loop thread only.
import type { Socket } from 'node:net';
import { mayReadNow } from './slices.js';

/** Callbacks of the sockets whose read was refused, in order. */
let refused: (() => void)[] = [];

/** Makes `socket.read()` return null while there is no time left, and emits 'readable' again once there is. */
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
  // Sockets for which there is no time are refused again.
  for (const readAgain of again) readAgain();
}
