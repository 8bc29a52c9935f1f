// Preloaded into a server (`NODE_OPTIONS=--import …`). Shifts its wall clock by MONOLITH_TEST_CLOCK_MS milliseconds, or
// by the number in the file MONOLITH_TEST_CLOCK_FILE, which may change at run time. The monotonic clock is not shifted.
import { readFileSync } from 'node:fs';
import { fileURLToPath, pathToFileURL } from 'node:url';

const AGAIN_MS = 50;
const file = process.env['MONOLITH_TEST_CLOCK_FILE'];
const fixed = process.env['MONOLITH_TEST_CLOCK_MS'];

/** Environment variables for a server whose clock is ahead by a number of milliseconds, or by the number in a file. */
export const clockAhead = (ahead: number | { file: string }): Record<string, string> => ({
  NODE_OPTIONS: `--import ${pathToFileURL(fileURLToPath(import.meta.url)).href}`,
  ...(typeof ahead === 'number' ? { MONOLITH_TEST_CLOCK_MS: String(ahead) } : { MONOLITH_TEST_CLOCK_FILE: ahead.file }),
});

if (file !== undefined || fixed !== undefined) {
  const real = Date;
  let ms = Number(fixed ?? 0);
  let readAt = -Infinity;
  const now = (): number => {
    if (file !== undefined && performance.now() - readAt > AGAIN_MS) {
      readAt = performance.now();
      ms = Number(readFileSync(file, 'utf8'));
    }
    return real.now() + ms;
  };
  globalThis.Date = class extends real {
    static override now = now;

    constructor(...given: ConstructorParameters<DateConstructor> | []) {
      if (given.length === 0) super(now());
      else super(...given);
    }
  } as DateConstructor;
}
