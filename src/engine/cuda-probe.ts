// Checks whether models can run on an NVIDIA GPU. The engine checks this when it plans a model's memory on the device,
// so this file plans a small embedded model. Planning reads no weights.

import { existsSync } from 'node:fs';
import { join } from 'node:path';
import type { LoadOptions } from './addon-types.js';
import { loadAddon, packageRoot } from './load-addon.js';

const SMALL_MODEL = join(packageRoot, 'models', 'starter-q8_0.gguf');

/** Returns null if a GPU can be used, otherwise the reason why not. */
export async function cudaProblem(options: LoadOptions): Promise<string | null> {
  if (!existsSync(SMALL_MODEL)) return `unknown: ${SMALL_MODEL} is missing`;
  try {
    const { reason } = await loadAddon().inspect(SMALL_MODEL, { ...options, device: 'cuda' });
    return reason;
  } catch (error) {
    return (error as Error).message.replace(/^device cuda: /, '');
  }
}
