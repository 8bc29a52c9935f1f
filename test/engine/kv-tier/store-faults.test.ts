// Tests the page store with failing disks and damaged files: one failing operation per kind of fault, and a few flipped
// bits. store-faults.slow.ts tests all operations and many bits.
import { randomInt } from 'node:crypto';
import t from 'tap';
import { FAULTS, withBitFlips, withFault } from './store-faults.js';

t.setTimeout(120_000); // the machine may be busy

const BITS = 5;

t.test('a failed operation costs at most the pages concerned', async (t) => {
  for (const fault of FAULTS) {
    const operations = await withFault(fault, 0);
    t.ok(operations > 40);
    const failing = 1 + randomInt(operations);
    t.ok((await withFault(fault, failing)) > 0, `${fault} of operation ${failing} of ${operations}`);
  }
});

t.test('a changed bit costs at most the pages concerned', async (t) => {
  await withBitFlips(BITS);
  t.pass();
});
