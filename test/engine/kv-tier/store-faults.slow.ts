// Tests the page store with failing disks and damaged files: every operation fails in turn with each kind of fault, and
// many bits are flipped. Part of npm run test:slow.
import t from 'tap';
import { FAULTS, withBitFlips, withFault } from './store-faults.js';

t.setTimeout(3_600_000);

const BITS = 100;

for (const fault of FAULTS)
  t.test(`${fault} of every operation costs at most the pages concerned`, async (t) => {
    const operations = await withFault(fault, 0);
    for (let failing = 1; failing <= operations; failing++) await withFault(fault, failing);
    t.ok(operations > 40, `${operations} operations`);
  });

t.test('a changed bit costs at most the pages concerned', async (t) => {
  await withBitFlips(BITS);
  t.pass();
});
