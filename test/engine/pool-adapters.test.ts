// Tests loading LoRA adapters together with their model, in the pools of the primary thread and of a worker thread.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { performance } from 'node:perf_hooks';
import t, { type Test } from 'tap';
import { adapterModel, engineAdapterName, publicAdapterName } from '../../src/engine/adapters.js';
import { modelOfFile, type AdapterSource } from '../../src/engine/catalog.js';
import type { Engine } from '../../src/engine/engine.js';
import { ModelLifecycle } from '../../src/engine/model-lifecycle.js';
import { ModelPool } from '../../src/engine/model-pool.js';
import { loadOptions, starterPath } from '../addon/starter.js';
import { eventually } from '../e2e/monolith.js';
import { writeAdapter } from '../support/adapter-files.js';

t.setTimeout(300_000);

const folder = mkdtempSync(join(tmpdir(), 'monolith-pool-adapters-'));
// PoolAdapter's timers are unref'ed and do not keep the process alive while an adapter waits. This timer does.
const alive = setInterval(() => undefined, 1_000);
t.teardown(() => {
  clearInterval(alive);
  rmSync(folder, { recursive: true, force: true });
});
const good = join(folder, 'good.gguf');
const other = join(folder, 'other.gguf');
const bad = join(folder, 'bad.gguf');
writeAdapter(good, { seed: 1 });
writeAdapter(other, { seed: 2 });
writeFileSync(bad, 'not a model');

const base = modelOfFile('base', starterPath);
const source = (name: string, path: string): AdapterSource & { addedAt: string } => ({
  ...{ base: 'base', name, path, scale: 1, setting: null },
  addedAt: `2026-01-01T00:00:00.000Z ${path}`,
});
const poolFor = (t: Test, primary?: ModelPool): ModelPool => {
  const pool = new ModelPool(
    loadOptions,
    ...[undefined, undefined, undefined],
    primary === undefined ? null : (name) => Promise.resolve(primary.adapterState(name) ?? null),
  );
  t.teardown(() => pool.close());
  return pool;
};
const stateOf = (pool: ModelPool, name: string): string | undefined => pool.get(name)?.status.state;
const engineOf = (pool: ModelPool): Engine => {
  const status = pool.get('base')?.status;
  if (status?.state !== 'ready') throw new Error('the model is not ready');
  return status.engine;
};

t.test('an adapter that fails to load does not delay its model or other threads', async (t) => {
  const primary = poolFor(t);
  const worker = poolFor(t, primary);
  const names = ['a', 'b', 'c'];
  const start = performance.now();
  for (const pool of [primary, worker]) {
    pool.add(base);
    for (const name of names) void pool.addAdapter(adapterModel(base, source(name, bad)));
    void pool.addAdapter(adapterModel(base, source('good', good)));
  }
  t.ok(await eventually(() => stateOf(worker, 'base') === 'ready'));
  // The first adapters may have failed by now.
  t.ok(
    names.some((name) => stateOf(worker, `base:${name}`) === 'loading'),
    'the model is ready before its last adapter',
  );
  await Promise.all([primary.settled(), worker.settled()]);
  t.ok(performance.now() - start < 9_000, 'no thread waits for an adapter that the primary thread could not load');
  for (const pool of [primary, worker]) {
    for (const name of names) t.equal(stateOf(pool, `base:${name}`), 'failed');
    t.equal(stateOf(pool, 'base:good'), 'ready');
  }
  t.equal(engineOf(worker).adapters().length, 1, 'both threads use one copy');
});

t.test('a request for an adapter of an unloaded model waits for the model and the adapter', async (t) => {
  const pool = poolFor(t);
  const lifecycle = new ModelLifecycle({ pool, report: () => undefined });
  t.teardown(() => lifecycle.close());
  pool.add({ ...base, load: 'demand' });
  void pool.addAdapter(adapterModel(base, source('good', good)));
  t.equal(stateOf(pool, 'base:good'), 'idle');
  await Promise.all([lifecycle.ensureLoaded('base'), lifecycle.ensureLoaded('base:good')]);
  t.same([stateOf(pool, 'base'), stateOf(pool, 'base:good')], ['ready', 'ready']);
});

t.test('an adapter is not confused with another file that was loaded under the same public name', async (t) => {
  const pool = poolFor(t);
  pool.add(base);
  await pool.settled();
  const engine = engineOf(pool);
  const loser = await engine.loadAdapter(other, { name: engineAdapterName(source('x', other)) });
  await pool.addAdapter(adapterModel(base, source('x', good)));
  const status = pool.get('base:x')?.status;
  t.ok(status?.state === 'ready' && status.adapter !== undefined && status.adapter.id !== loser.id);
  t.equal(publicAdapterName(loser.name), 'base:x');
  pool.removeAdapter('base:x');
  await engine.unloadAdapter(loser.id);
  t.ok(await eventually(() => engine.adapters().length === 0));
});
