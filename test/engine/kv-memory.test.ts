// Tests that a KV cache without a configured size has a large capacity, uses memory only as it fills, and is counted
// only once.

import t from 'tap';
import { loadAddon } from '../../src/engine/load-addon.js';
import { availableMemory, totalMemory } from '../../src/engine/machine-memory.js';
import { loadStarter, promptOf, Recorder, submitOptions } from '../addon/starter.js';

const MIB = 2 ** 20;
const claimed = (): number => loadAddon().memory().claimed;

t.test('available memory is the amount that the addon reports minus the memory planned by models', async (t) => {
  const { total, available } = loadAddon().memory();
  t.ok(available > 0 && available <= total);
  t.equal(totalMemory(), total);
  t.ok(Math.abs(availableMemory() - available) < total / 2);
});

t.test('a default KV cache allocates memory as it is used and is planned at full size', async (t) => {
  const resident = process.memoryUsage.rss(),
    before = claimed();
  const engine = await loadStarter('large pool');
  const { kvBytes, kvStartBytes, weightBytes, activationBytes, pageBytes } = engine.plan;
  t.ok(kvBytes >= 4 * 32 * pageBytes && kvBytes <= 8 * 2 ** 30);
  t.equal(kvStartBytes, 0);
  t.equal(engine.stats().kvUsedBytes, 0);
  t.equal(claimed() - before, kvBytes, 'the whole KV cache is claimed although it is not allocated yet');
  t.ok(
    process.memoryUsage.rss() - resident < weightBytes + activationBytes + 200 * MIB,
    `${process.memoryUsage.rss() - resident} bytes resident, with a KV cache of ${kvBytes}`,
  );
  const recorder = new Recorder(engine);
  await recorder.ended(recorder.channel.submit(submitOptions(promptOf(engine), { maxTokens: 40 })));
  const { kvUsedBytes } = engine.stats();
  t.ok(kvUsedBytes > 0 && kvUsedBytes < kvBytes);
  t.equal(claimed() - before, kvBytes - kvUsedBytes);
  await recorder.ended(recorder.channel.submit(submitOptions(promptOf(engine), { maxTokens: 40 })));
  t.equal(engine.stats().kvUsedBytes, kvUsedBytes, 'a second request needs no more memory');
  recorder.channel.close();
  await engine.close();
  t.equal(claimed(), before, 'closing the engine releases all claimed memory');
});

t.test('models that load concurrently do not plan to use the same memory', async (t) => {
  const before = claimed();
  const engines = await Promise.all(['one', 'two', 'three'].map((name) => loadStarter(name)));
  const sizes = engines.map(({ plan }) => plan.kvBytes).sort((a, b) => b - a);
  t.equal(
    claimed() - before,
    sizes.reduce((sum, size) => sum + size, 0),
  );
  t.ok(sizes.reduce((sum, size) => sum + size, 0) < totalMemory());
  // If a quarter of the machine's memory exceeds the maximum, all models get the maximum.
  const [first = 0, , last = 0] = sizes;
  if (first < 8 * 2 ** 30 - MIB) t.ok(last < first * 0.8, `KV caches of ${sizes.join(', ')} bytes`);
  for (const engine of engines) await engine.close();
  t.equal(claimed(), before);
});
