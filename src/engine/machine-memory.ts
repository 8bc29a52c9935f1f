// Memory available to models: the machine's memory, limited by this process's cgroup.

import { loadAddon } from './load-addon.js';

/** Total memory in bytes. */
export const totalMemory = (): number => loadAddon().memory().total;

/**
 * Number of bytes that a model could allocate now without causing swapping and without using memory that loaded models
 * have reserved.
 */
export function availableMemory(): number {
  const { available, claimed } = loadAddon().memory();
  return Math.max(0, available - claimed);
}
