// Tests the estimate of whether importing KV pages is faster than computing the prompt.
import t from 'tap';
import { ImportCost } from '../../../src/engine/kv-tier/import-cost.js';

const MB = 1_000_000;

t.test('the first decision assumes 200 MB/s', async (t) => {
  const cost = new ImportCost();
  t.equal(cost.isFaster(10 * MB, 100, 0.6), true, '50 ms instead of 60');
  t.equal(cost.isFaster(10 * MB, 100, 0.4), false, '50 ms instead of 40');
});

t.test('an import is always tried if the time per token is not known', async (t) => {
  t.equal(new ImportCost().isFaster(1_000 * MB, 1, 0), true);
});

t.test('decisions follow the measured speed of earlier imports', async (t) => {
  const slow = new ImportCost();
  for (let i = 0; i < 50; i++) slow.add(10 * MB, 1_000);
  t.equal(slow.isFaster(10 * MB, 100, 5), false, '1,000 ms instead of 500');
  t.equal(slow.isFaster(10 * MB, 100, 15), true, '1,000 ms instead of 1,500');
  for (let i = 0; i < 50; i++) slow.add(10 * MB, 10);
  t.equal(slow.isFaster(10 * MB, 100, 5), true, 'old imports are forgotten');
});

t.test('slow imports are tried again after many refusals', async (t) => {
  const cost = new ImportCost();
  cost.add(10 * MB, 100_000);
  let refused = 0;
  while (!cost.isFaster(10 * MB, 100, 5)) refused++;
  t.ok(refused > 50 && refused < 1_000, `${refused} imports were not tried`);
});
