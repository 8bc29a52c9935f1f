import { once } from 'node:events';
import { Worker } from 'node:worker_threads';
import t from 'tap';
import type { NativeEngine } from '../../src/engine/addon-types.js';
import { loadStarter, promptOf, Recorder, submitOptions } from './starter.js';

const script = new URL('./worker.js', import.meta.url);
const start = (name: string, seed: number, maxTokens: number): Worker =>
  new Worker(script, { workerData: { name, seed, maxTokens } });

async function generate(engine: NativeEngine, seed: number, maxTokens: number): Promise<string> {
  const recorder = new Recorder(engine);
  const id = recorder.channel.submit(
    submitOptions(promptOf(engine), { seed: BigInt(seed), temperature: 1, maxTokens }),
  );
  await recorder.ended(id);
  recorder.channel.close();
  return recorder.text(id);
}

/**
 * Waits until nothing is running. After a channel has been closed, its requests end just before the next engine step.
 */
async function idle(engine: NativeEngine): Promise<void> {
  for (let i = 0; i < 500 && engine.stats().running + engine.stats().waiting > 0; i++)
    await new Promise((resolve) => setTimeout(resolve, 10));
}

t.test('worker threads load and use one engine concurrently and get the same text as a single caller', async (t) => {
  const workers = [1, 2, 3].map((seed) => start('workers', seed, 32));
  const texts = await Promise.all(
    workers.map(async (worker) => {
      const messages: unknown[] = [];
      worker.on('message', (message) => messages.push(message));
      const [code] = await once(worker, 'exit');
      t.equal(code, 0);
      return messages[1];
    }),
  );
  const engine = await loadStarter('workers');
  t.teardown(() => engine.close());
  for (const [i, text] of texts.entries()) t.equal(text, await generate(engine, i + 1, 32));
});

t.test('a worker thread terminated while generating does not affect the other users of the engine', async (t) => {
  const engine = await loadStarter('terminated');
  t.teardown(() => engine.close());
  const expected = await generate(engine, 5, 24);
  for (let round = 0; round < 5; round++) {
    const workers = [start('terminated', 1, 400), start('terminated', 2, 400)];
    await Promise.all(workers.map((worker) => once(worker, 'message')));
    const mine = generate(engine, 5, 24);
    await Promise.all(workers.map((worker) => worker.terminate()));
    t.equal(await mine, expected);
    await idle(engine);
  }
  const stats = engine.stats();
  t.equal(stats.running, 0);
  t.equal(stats.failed, false);
  t.equal(stats.pagesFree + stats.pagesCached, stats.pagesTotal, 'the pages of the terminated workers are free again');
});

t.test('a worker thread terminated while loading leaves no running request', async (t) => {
  for (let round = 0; round < 5; round++) {
    const worker = start(`loading-${round}`, 1, 400);
    await once(worker, 'online');
    await new Promise((resolve) => setTimeout(resolve, round * 25));
    await worker.terminate();
  }
  const engine = await loadStarter('loading-0');
  t.equal(engine.stats().running, 0);
  await engine.close();
});
