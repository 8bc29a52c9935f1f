// Tests the defaults for a model on a GPU: tokens per step, and the memory left for the KV cache. The emulated GPU has
// 4 GiB. Part of npm run test:slow.
import { join } from 'node:path';
import t from 'tap';
import { packageRoot } from '../../src/engine/load-addon.js';
import { loadStarter } from './starter.js';

process.env['MONOLITH_ADDON'] = join(packageRoot, 'build', 'native', 'monolith_emulated.node');

t.test('a GPU computes more tokens per step than a CPU by default', async (t) => {
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

t.test('the KV cache plan leaves part of the GPU memory to the driver', async (t) => {
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
    `${kept} MiB are kept free: headroom, code, scratch memory, CUDA graphs, rounding and ${activationBytes / MiB} MiB of activations`,
  );
});
