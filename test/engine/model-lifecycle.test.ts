// Tests models that are unloaded when idle and loaded again on request.

import t from 'tap';
import type { Test } from 'tap';
import { readCatalog } from '../../src/engine/catalog.js';
import type { CatalogModel } from '../../src/engine/catalog.js';
import { planBytes } from '../../src/engine/file-facts.js';
import { loadAddon } from '../../src/engine/load-addon.js';
import { ModelPool } from '../../src/engine/model-pool.js';
import { ModelLifecycle } from '../../src/engine/model-lifecycle.js';
import type { ModelLifecycleEvent } from '../../src/engine/model-lifecycle.js';
import { ServedModels } from '../../src/generation/served-models.js';
import { loadOptions, must } from '../addon/starter.js';
import { eventually } from '../e2e/monolith.js';

const [HAL, CLARKE, TYCHO] = readCatalog() as [CatalogModel, CatalogModel, CatalogModel];
// `kvBytes` is fixed, because the automatic size of the KV pool, and therefore the size of a loaded model, depends on
// the memory that is currently free.
const LOAD_OPTIONS = { ...loadOptions, kvBytes: 67_108_864 };
const GRAMMAR = { whiteSpace: 'compact', callWhiteSpace: 'flexible' } as const;

interface Room {
  pool: ModelPool;
  lifecycle: ModelLifecycle;
  news: string[];
  clock: { now: number; available: number };
  states: () => string[];
}

async function roomOf(t: Test, models: readonly CatalogModel[], addon = loadAddon()): Promise<Room> {
  const pool = new ModelPool(LOAD_OPTIONS, addon);
  t.teardown(() => pool.close());
  for (const model of models) pool.add(model);
  await pool.settled();
  const news: string[] = [];
  const clock = { now: 0, available: 2 ** 50 };
  const tell = (one: ModelLifecycleEvent): void => {
    news.push(`${one.type} ${one.model}${one.type === 'unloaded' ? ` ${one.reason}` : ''}`);
  };
  const lifecycle = new ModelLifecycle({ pool, report: tell, now: () => clock.now, available: () => clock.available });
  t.teardown(() => lifecycle.close());
  return { pool, lifecycle, news, clock, states: () => pool.list().map(({ status }) => status.state) };
}

t.test('idle models are unloaded and reloaded; pinned models and models without a timeout stay loaded', async (t) => {
  const { pool, lifecycle, news, clock, states } = await roomOf(t, [
    { ...HAL, idle_minutes: 2 },
    { ...CLARKE, idle_minutes: 2, pinned: true },
    TYCHO,
  ]);
  lifecycle.unloadIdle();
  clock.now = 100_000;
  lifecycle.touch(HAL.id);
  clock.now = 215_000;
  lifecycle.unloadIdle();
  t.same(states(), ['ready', 'ready', 'ready'], 'a model used within its idle timeout stays loaded');
  clock.now = 221_000;
  const before = must(pool.get(HAL.id)).status;
  if (before.state !== 'ready') throw new Error('the model is not ready');
  lifecycle.unloadIdle();
  t.same(states(), ['idle', 'ready', 'ready']);
  await pool.settled();
  t.throws(() => before.engine.stats(), { code: 'closed' }, 'the engine is closed and its memory is freed');
  t.same(news, [`unloaded ${HAL.id} idle`]);
  await Promise.all([
    lifecycle.ensureLoaded(HAL.id),
    lifecycle.ensureLoaded(HAL.id),
    lifecycle.ensureLoaded(CLARKE.id),
    lifecycle.ensureLoaded('nobody'),
  ]);
  t.same(states(), ['ready', 'ready', 'ready']);
  t.same(news.slice(1), [`loading ${HAL.id}`, `loaded ${HAL.id}`], 'the model is loaded once for all waiting requests');
  clock.now = 330_000;
  lifecycle.unloadIdle();
  t.same(states(), ['ready', 'ready', 'ready'], 'loading a model counts as a use');
});

t.test('under memory pressure, the least recently used models are unloaded, and only as many as needed', async (t) => {
  const { pool, lifecycle, news, clock, states } = await roomOf(t, [HAL, CLARKE, { ...TYCHO, load: 'demand' }]);
  t.same(states(), ['ready', 'ready', 'idle']);
  clock.now = 1_000;
  lifecycle.touch(CLARKE.id);
  clock.now = 2_000;
  lifecycle.touch(HAL.id);
  clock.now = 100_000;
  const freed = must(pool.get(CLARKE.id)).status;
  if (freed.state !== 'ready') throw new Error('the model is not ready');
  t.ok(planBytes(freed.engine.plan) > 1e6);
  clock.available = 2 ** 40;
  await lifecycle.ensureLoaded(TYCHO.id);
  t.same(states(), ['ready', 'ready', 'ready'], 'no model is unloaded while there is enough memory');
  pool.unload(TYCHO.id);
  clock.available = 1e6;
  await lifecycle.ensureLoaded(TYCHO.id);
  t.same(states(), ['ready', 'idle', 'ready']);
  t.ok(news.includes(`unloaded ${CLARKE.id} memory`));
  clock.now = 200_000;
  lifecycle.touch(HAL.id);
  lifecycle.touch(TYCHO.id);
  clock.now += 1_000;
  await lifecycle.ensureLoaded(CLARKE.id);
  t.same(states(), ['ready', 'ready', 'ready'], 'recently used models stay loaded, and the load is attempted anyway');
});

t.test('models that are loaded together share the free memory', async (t) => {
  const addon = loadAddon();
  let mayLoad: () => void = () => undefined;
  let gate = Promise.resolve();
  const { pool, lifecycle, news, clock, states } = await roomOf(
    t,
    [HAL, { ...CLARKE, load: 'demand' }, { ...TYCHO, load: 'demand' }],
    { ...addon, load: (...args) => gate.then(() => addon.load(...args)) },
  );
  t.same(states(), ['ready', 'idle', 'idle']);
  gate = new Promise((resolve) => {
    mayLoad = resolve;
  });
  const bytes = async (model: string): Promise<number> => {
    const { file, options } = must(pool.loadOf(model));
    return planBytes(must((await addon.inspect(file, options)).plan ?? undefined));
  };
  clock.now = 100_000;
  clock.available = (await bytes(CLARKE.id)) + (await bytes(TYCHO.id)) - 1;
  const both = Promise.all([lifecycle.ensureLoaded(CLARKE.id), lifecycle.ensureLoaded(TYCHO.id)]);
  await eventually(() => news.filter((one) => one.startsWith('loading ')).length === 2);
  t.same(states(), ['idle', 'loading', 'loading'], 'each alone would have fitted, but not both');
  t.equal(news.filter((one) => one === `unloaded ${HAL.id} memory`).length, 1);
  mayLoad();
  await both;
  clock.available += 1;
  await lifecycle.ensureLoaded(HAL.id);
  t.same(states(), ['ready', 'ready', 'ready'], 'finished loads no longer reserve memory');
});

t.test('pinned models are not unloaded to make room for others', async (t) => {
  const { lifecycle, clock, states } = await roomOf(t, [
    { ...HAL, pinned: true },
    { ...TYCHO, load: 'demand' },
  ]);
  clock.now = 1e6;
  clock.available = 0;
  await lifecycle.ensureLoaded(TYCHO.id);
  t.same(states(), ['ready', 'ready']);
});

t.test('requests wait for a model to load, with limits on their number and time', async (t) => {
  const { pool, lifecycle } = await roomOf(t, [
    { ...HAL, load: 'demand' },
    { ...TYCHO, load: 'demand', id: 'broken', file: '/nowhere.gguf' },
  ]);
  const limits = {
    queueWaitMs: 1_000,
    maxGenerationMs: 1_000,
    grammar: GRAMMAR,
    images: { perImage: 1_000, perRequest: 10_000 },
  };
  const served = (more: object = {}): ServedModels =>
    new ServedModels(pool, { ...limits, ...more }, undefined, lifecycle);
  const hal = served().find(HAL.id);
  t.throws(() => hal.ready(), { status: 503, code: 'model_loading' }, 'the model is unloaded');
  const left = new AbortController();
  left.abort(new Error('gone'));
  await t.rejects(served().find(HAL.id).ensureLoaded(left), { message: 'gone' });
  await served({ loadWaitMs: 1 }).find(HAL.id).ensureLoaded();
  const one = served({ loadWaitMax: 1 }).find('broken');
  const first = one.ensureLoaded();
  await t.rejects(one.ensureLoaded(), {
    status: 503,
    code: 'model_loading',
    message: /already has 1 waiting requests/,
  });
  await first;
  t.throws(() => one.ready(), { status: 503, code: 'model_unavailable' });
  await hal.ensureLoaded();
  t.ok(hal.ready().contextWindow > 0);
});

t.test('a model that an operator unloaded is not loaded by requests', async (t) => {
  const { pool, lifecycle, states } = await roomOf(t, [{ ...HAL, load: 'demand' }]);
  pool.setLoaded(HAL.id, false, 0);
  t.same(states(), ['unloaded']);
  await lifecycle.ensureLoaded(HAL.id);
  t.same(states(), ['unloaded']);
  pool.setLoaded(HAL.id, true, 0);
  await pool.settled();
  t.same(states(), ['ready']);
});
