// What a model on a device gets that nobody set: tokens of a step, and the memory that is left for its KV cache. The
// emulated GPU has 4 GiB.
import { join } from 'node:path';
import t from 'tap';
import { packageRoot } from '../../src/engine/load-addon.js';
import { loadStarter } from './starter.js';

process.env['MONOLITH_ADDON'] = join(packageRoot, 'build', 'native', 'monolith_emulated.node');

t.test('a device computes more tokens in a step than a processor', async (t) => {
  const tokens = async (device: string, maxBatchTokens: number): Promise<number[]> => {
    const engine = await loadStarter(`${device} ${maxBatchTokens}`, { device, maxBatchTokens, maxContext: 128 });
    const stats = engine.stats();
    await engine.close();
    return [stats.maxBatchTokens, stats.loadedBatchTokens];
  };
  t.same(await tokens('cpu', 0), [256, 256]);
  t.same(await tokens('cuda', 0), [2_048, 2_048]);
  t.same(await tokens('cuda', 64), [64, 64]);
});

t.test('of its memory some is left to its driver', async (t) => {
  const MiB = 2 ** 20,
    all = 4 * 2 ** 30;
  const engine = await loadStarter('planned', { device: 'cuda', maxContext: 128 });
  const { weightBytes, activationBytes } = engine.plan;
  await engine.close();
  const refused = await loadStarter('too much', { device: 'cuda', maxContext: 128, kvBytes: all }).then(
    () => '',
    String,
  );
  const left = Number(/exceeds the available memory \((\d+) bytes\)/.exec(refused)?.[1]);
  const kept = (all - left - weightBytes) / MiB;
  t.ok(
    kept > 128 + 32 + 48 && kept < 128 + 32 + 48 + 200,
    `${kept} MiB: headroom, code, scratch, recorded steps, rounding and ${activationBytes / MiB} MiB of activations`,
  );
});
