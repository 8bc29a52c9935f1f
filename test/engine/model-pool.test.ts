import t from 'tap';
import { readCatalog, type CatalogModel } from '../../src/engine/catalog.js';
import { ModelPool } from '../../src/engine/model-pool.js';
import { ServedModels } from '../../src/generation/served-models.js';
import { loadOptions, must } from '../addon/starter.js';
import { eventually } from '../e2e/monolith.js';

t.test('all names of a file share one engine, which is closed with the last name', async (t) => {
  const pool = new ModelPool(loadOptions);
  t.teardown(() => pool.close());
  const models = readCatalog().slice(0, 3);
  for (const model of models) pool.add({ ...model, file: must(models[0]).file });
  t.match(pool.get('hal-1.0')?.status, { state: 'loading' });
  await pool.settled();
  t.same(
    pool.list().map(({ model, status }) => [model.id, status.state]),
    [
      ['hal-1.0', 'ready'],
      ['clarke-1.0', 'ready'],
      ['tycho-1.0', 'ready'],
    ],
  );
  t.equal(pool.engines().length, 1);
  t.same(pool.engines()[0]?.names, ['hal-1.0', 'clarke-1.0', 'tycho-1.0']);

  const { status } = must(pool.get('tycho-1.0'));
  if (status.state !== 'ready') throw new Error('the model is not ready');
  await pool.remove('hal-1.0');
  await pool.remove('clarke-1.0');
  t.equal(pool.get('hal-1.0'), undefined);
  t.equal(status.engine.stats().failed, false);
  await pool.remove('tycho-1.0');
  t.throws(() => status.engine.stats(), { code: 'closed' });
  t.same(pool.engines(), []);
});

t.test('an engine is not used before its preparation has finished', async (t) => {
  let begun = false;
  let done: () => void = () => undefined;
  const pool = new ModelPool(
    loadOptions,
    undefined,
    () =>
      new Promise((resolve) => {
        begun = true;
        done = resolve;
      }),
  );
  t.teardown(() => pool.close());
  const [model] = readCatalog() as [CatalogModel];
  pool.add(model);
  t.ok(await eventually(() => begun));
  t.equal(pool.get(model.id)?.status.state, 'loading');
  done();
  await pool.settled();
  t.equal(pool.get(model.id)?.status.state, 'ready');
});

t.test('a file that cannot be loaded fails only its own models', async (t) => {
  const pool = new ModelPool(loadOptions);
  t.teardown(() => pool.close());
  const model = must(readCatalog()[0]);
  pool.add(model);
  pool.add({ ...model, id: 'broken', file: '/nowhere/broken.gguf' });
  t.throws(() => pool.add(model), /already/);
  await pool.settled();
  t.equal(pool.get(model.id)?.status.state, 'ready');
  t.match(pool.get('broken')?.status, { state: 'failed', error: { code: 'io', message: /broken\.gguf/ } });
});

t.test('closing the pool during a load waits for the load', async (t) => {
  const pool = new ModelPool(loadOptions);
  const model = must(readCatalog()[0]);
  pool.add(model);
  await pool.close();
  t.same(pool.list(), []);
});

t.test('a model that is loading or failed is refused with Retry-After', async (t) => {
  const pool = new ModelPool(loadOptions);
  t.teardown(() => pool.close());
  const model = must(readCatalog()[0]);
  pool.add(model);
  pool.add({ ...model, id: 'broken', file: '/nowhere/broken.gguf' });
  const served = new ServedModels(pool, {
    queueWaitMs: 1_000,
    maxGenerationMs: 1_000,
    grammar: { whiteSpace: 'compact', callWhiteSpace: 'flexible' },
    images: { perImage: 1_000, perRequest: 10_000 },
  });
  t.throws(() => served.find(model.id).ready(), {
    status: 503,
    code: 'model_loading',
    param: null,
    retryAfterMs: Number,
  });
  t.throws(() => served.find('nobody'), { status: 404, code: 'model_not_found' });
  await pool.settled();
  t.ok(served.find(model.id).ready());
  t.throws(() => served.find('broken').ready(), { status: 503, code: 'model_unavailable', retryAfterMs: 10_000 });
});

t.test('unloading the last name of an engine frees its memory, and loading creates a new engine', async (t) => {
  const pool = new ModelPool(loadOptions);
  t.teardown(() => pool.close());
  const model = must(readCatalog()[0]);
  pool.add(model);
  pool.add({ ...model, id: 'second' });
  pool.add({ ...model, id: 'later' }, false);
  await pool.settled();
  const before = must(pool.get(model.id)).status;
  if (before.state !== 'ready') throw new Error('the model is not ready');
  t.match(pool.get('later')?.status, { state: 'unloaded' });
  pool.setLoaded(model.id, false, 1_000);
  t.match(pool.get(model.id)?.status, { state: 'unloaded' });
  t.match(pool.get('second')?.status, { state: 'ready' }, 'the other name is still served');
  const served = new ServedModels(pool, {
    queueWaitMs: 1_000,
    maxGenerationMs: 1_000,
    grammar: { whiteSpace: 'compact', callWhiteSpace: 'flexible' },
    images: { perImage: 1_000, perRequest: 10_000 },
  });
  t.throws(() => served.find(model.id).ready(), { status: 503, code: 'model_unavailable' });
  pool.setLoaded('second', false, 1_000);
  await pool.settled();
  t.throws(() => before.engine.stats(), { code: 'closed' }, 'the engine is closed');
  pool.setLoaded('later', true, 0);
  t.match(pool.get('later')?.status, { state: 'loading' });
  await pool.settled();
  t.match(pool.get('later')?.status, { state: 'ready' });
  t.ok(served.find('later').ready());
  for (const loaded of [false, true, false, true]) pool.setLoaded('later', loaded, 1_000);
  await pool.settled();
  t.match(pool.get('later')?.status, { state: 'ready' }, 'the last of several load and unload calls decides the state');
});

t.test('requests on a model that is being unloaded get time to finish, then end as truncated', async (t) => {
  const pool = new ModelPool(loadOptions);
  t.teardown(() => pool.close());
  const model = must(readCatalog()[0]);
  pool.add(model);
  await pool.settled();
  const provider = new ServedModels(pool, {
    queueWaitMs: 1_000,
    maxGenerationMs: 60_000,
    grammar: { whiteSpace: 'compact', callWhiteSpace: 'flexible' },
    images: { perImage: 1_000, perRequest: 10_000 },
  })
    .find(model.id)
    .ready();
  const prepared = await provider.prepare(
    {
      model: model.id,
      messages: [{ role: 'user', content: 'Say much.' }],
      continueFinal: false,
      sampling: { temperature: 0 },
      n: 1,
      maxTokens: 900,
      stop: [],
      topLogprobs: null,
      effort: 'none',
      reasoningBudget: null,
      tools: [],
      toolChoice: { mode: 'none', allowed: null },
      parallelToolCalls: true,
      format: { type: 'text' },
      truncation: 'disabled',
      promptParam: 'messages',
      ignoreEos: true,
    },
    { organization: 1 },
  );
  const alive = setInterval(() => undefined, 1_000); // keeps the process alive, as a server's socket would
  t.teardown(() => clearInterval(alive));
  const ended = new Promise<unknown>((resolve) => {
    prepared.start((event) => {
      if (event.type === 'started') void turnOff();
      if (event.type === 'finished' || event.type === 'failed') resolve(event);
    });
  });
  t.match(await ended, { type: 'finished', reason: 'time_limit' });
  await pool.settled();
  t.match(pool.get(model.id)?.status, { state: 'unloaded' });

  async function turnOff(): Promise<void> {
    const before = must(pool.get(model.id)).status;
    pool.setLoaded(model.id, false, 60_000);
    await new Promise((done) => setImmediate(done));
    t.match(pool.get(model.id)?.status, { state: 'unloaded' });
    pool.setLoaded(model.id, true, 0);
    await pool.settled();
    t.equal(must(pool.get(model.id)).status.state, 'ready');
    t.equal(
      (must(pool.get(model.id)).status as { engine?: unknown }).engine,
      (before as { engine?: unknown }).engine,
      'a model loaded again before its requests have ended keeps its engine',
    );
    pool.setLoaded(model.id, false, 0);
  }
});
