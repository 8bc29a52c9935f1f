// Runs the admission tests with unusual clock values: 0, the largest integer that a double represents exactly, and one
// day before a 64-bit word in shared memory overflows.
import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { promisify } from 'node:util';
import t from 'tap';

const run = promisify(execFile);
const starts = { zero: 0n, '53 bits': 2n ** 53n - 1n, '63 bits, but a day': 2n ** 63n - 86_400_000_000_000n };

for (const [what, start] of Object.entries(starts)) {
  for (const file of ['admission', 'record-table']) {
    t.test(`${file}, ${what}`, async (t) => {
      const env = { ...process.env, MONOLITH_TEST_CLOCK_NS: String(start) };
      const { stdout } = await run(process.execPath, [join(import.meta.dirname, `${file}.test.js`)], { env });
      t.match(stdout, /^# \{ total: \d{2,}, pass: \d+ \}$/m);
    });
  }
}
