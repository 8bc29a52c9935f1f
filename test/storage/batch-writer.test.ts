// Tests that batched writes keep their order, are retried after a failure, and are limited while writing is failing.
import t from 'tap';
import { setTimeout as sleep } from 'node:timers/promises';
import { BatchWriter } from '../../src/storage/batch-writer.js';
import type { Log } from '../../src/telemetry/types.js';
import { eventually } from '../e2e/monolith.js';

function bench(more: { batch?: number; maxWaiting?: number } = {}) {
  const written: number[][] = [];
  const said: string[] = [];
  const state = { fails: false, gate: Promise.resolve() };
  const note =
    (level: string) =>
    (fields: object, text: string): void => {
      said.push(
        `${level} ${text} ${JSON.stringify(fields, (key, value: unknown) => (key === 'err' ? undefined : value))}`,
      );
    };
  const writer = new BatchWriter<number>({
    what: 'use',
    log: { error: note('error'), info: note('info') } as unknown as Log,
    ...more,
    write: async (batch) => {
      await state.gate;
      if (state.fails) throw new Error('no');
      written.push([...batch]);
    },
  });
  return { writer, written, said, state };
}

t.test('all entries that arrive within a quarter of a second of the first are written together', async (t) => {
  const { writer, written } = bench();
  const began = performance.now();
  for (const one of [1, 2, 3]) writer.add(one);
  t.same([written, writer.waiting], [[], 3]);
  const alive = setInterval(() => undefined, 1_000);
  t.ok(await eventually(() => written.length > 0));
  clearInterval(alive);
  t.ok(performance.now() - began >= 245);
  t.same([written, writer.waiting], [[[1, 2, 3]], 0]);
});

t.test('flush writes everything in batches, including entries that arrive in the meantime', async (t) => {
  const { writer, written, state, said } = bench({ batch: 2 });
  let open = (): void => undefined;
  state.gate = new Promise((resolve) => {
    open = resolve;
  });
  for (const one of [1, 2, 3]) writer.add(one);
  const flushes = [writer.flush(), writer.flush()];
  writer.add(4);
  writer.add(5);
  open();
  await Promise.all(flushes);
  await sleep(300);
  t.same([written, writer.waiting, said], [[[1, 2], [3, 4], [5]], 0, []], 'no empty batch is written later');
  await writer.close();
  t.same(said, []);
});

t.test('a batch takes an eighth of the queue, but at least 32 and at most 1,000 entries, in order', async (t) => {
  const { writer, written } = bench();
  const all = Array.from({ length: 5_000 }, (_, one) => one);
  for (const one of all) writer.add(one);
  await writer.close();
  t.same(written.flat(), all);
  const sizes = written.map(({ length }) => length);
  t.same(sizes.slice(0, 4), [625, 547, 479, 419]);
  t.ok(
    sizes.slice(0, -1).every((size) => size >= 32),
    'every batch except the last has at least 32 entries',
  );
  for (let one = 0; one < 10_000; one++) writer.add(one);
  await writer.flush();
  t.equal(written[sizes.length]?.length, 1_000);
});

t.test('the batch writer pauses between batches so that requests can run', async (t) => {
  const at: number[] = [];
  const writer = new BatchWriter<number>({
    what: 'use',
    log: {} as Log,
    write: async (batch) => {
      at.push(performance.now(), batch.length);
    },
  });
  for (let one = 0; one < 97; one++) writer.add(one);
  const alive = setInterval(() => undefined, 1_000);
  t.ok(await eventually(() => writer.waiting === 0));
  clearInterval(alive);
  t.same(
    at.filter((_, place) => place % 2 === 1),
    [32, 32, 32, 1],
    'the last batch may have a single entry',
  );
  for (const place of [2, 4, 6])
    t.ok(
      (at[place] as number) - (at[place - 2] as number) >= 24,
      `${(at[place] as number) - (at[place - 2] as number)} ms`,
    );
});

t.test('a failed batch is retried first, and the log reports the failure and the recovery once each', async (t) => {
  const { writer, written, said, state } = bench();
  state.fails = true;
  writer.add(1);
  await writer.flush();
  writer.add(2);
  await writer.flush();
  t.same([written, writer.waiting], [[], 2]);
  t.match(said, [/^error use: recording failed; will retry/]);
  t.equal(said.length, 1);
  state.fails = false;
  const began = performance.now();
  const alive = setInterval(() => undefined, 1_000);
  t.ok(await eventually(() => written.length > 0), 'the batch is retried automatically');
  clearInterval(alive);
  t.ok(performance.now() - began > 1_500, 'the retry comes after two seconds');
  t.same(written, [[1, 2]]);
  t.equal(said.at(-1), 'info use: recording works again {"dropped":0}');
  writer.add(3);
  await writer.close();
  t.equal(said.length, 2);
});

t.test('entries over the limit are dropped, which is reported once', async (t) => {
  const { writer, written, said, state } = bench({ maxWaiting: 2 });
  state.fails = true;
  for (const one of [1, 2, 3, 4]) writer.add(one);
  t.equal(writer.waiting, 2);
  await writer.flush();
  t.same(said, [
    'error use: entries arrive faster than they can be recorded; dropping some {"waiting":2}',
    'error use: recording failed; will retry {}',
  ]);
  state.fails = false;
  await writer.flush();
  t.same(written, [[1, 2]]);
  t.equal(said.at(-1), 'info use: recording works again {"dropped":2}');
  for (const one of [5, 6, 7]) writer.add(one);
  t.match(said.at(-1), /entries arrive faster/, 'the next overload is reported again');
  state.fails = true;
  await writer.close();
  t.equal(said.at(-1), 'error use: could not be recorded, entries are lost {"entries":2}');
  t.equal(writer.waiting, 0);
  await sleep(5);
});
