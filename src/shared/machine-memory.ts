// How much memory models may count on: the machine's, or what the container was given of it.

import { freemem, totalmem } from 'node:os';

/** All there is, in bytes. */
export function totalMemory(): number {
  const limit = process.constrainedMemory?.() ?? 0;
  return limit > 0 && limit < totalmem() ? limit : totalmem();
}

/** What could be taken now without anything being swapped out, in bytes. */
export function availableMemory(): number {
  return Math.min(process.availableMemory?.() ?? Infinity, freemem(), totalMemory());
}
