// Runs the admission tests with unusual clock values: 0, the largest integer that a double represents exactly, and one
// day before a 64-bit word in shared memory overflows.
import { join } from 'node:path';
import t from 'tap';

const starts = { zero: 0n, '53 bits': 2n ** 53n - 1n, '63 bits, but a day': 2n ** 63n - 86_400_000_000_000n };

for (const [what, start] of Object.entries(starts)) {
  for (const file of ['admission', 'record-table']) {
    t.spawn(
      process.execPath,
      [join(import.meta.dirname, `${file}.test.js`)],
      { env: { ...process.env, MONOLITH_TEST_CLOCK_NS: String(start) } },
      `${file}, ${what}`,
    );
  }
}
