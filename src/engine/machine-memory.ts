// How much memory models may count on: the machine's, limited by the control groups of this process.

import { loadAddon } from './load-addon.js';

/** All there is, in bytes. */
export const totalMemory = (): number => loadAddon().memory().total;

/** Bytes that a load could take now without swapping, and without taking memory that loaded models have planned. */
export function availableMemory(): number {
  const { available, claimed } = loadAddon().memory();
  return Math.max(0, available - claimed);
}
