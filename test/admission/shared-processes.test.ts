// Tests three processes that count in one Redis at full speed. Their combined admissions never exceed a limit, and a
// killed process's slots are freed when its lease expires.
import { fork, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { startRedis, withoutRedis } from '../support/redis.js';
import type { Done, Order } from './shared-process.js';

t.setTimeout(300_000); // the machine may be busy

const PROCESSES = 3;

interface Others {
  all: readonly ChildProcess[];
  together(order: Order): Promise<Done[]>;
  told(one: ChildProcess, order: Order): Promise<Done>;
}

async function start(t: Test, limits: object, settings: object): Promise<Others> {
  const all = Array.from({ length: PROCESSES }, () =>
    fork(join(import.meta.dirname, 'shared-process.js'), [JSON.stringify([limits, settings])]),
  );
  t.teardown(() => {
    for (const one of all) one.kill('SIGKILL');
  });
  await Promise.all(all.map((one) => once(one, 'message')));
  const told = async (one: ChildProcess, order: Order): Promise<Done> => {
    one.send(order);
    const [done] = (await once(one, 'message')) as [Done];
    return done;
  };
  return { all, told, together: (order) => Promise.all(all.map((one) => told(one, order))) };
}

const sum = (done: readonly Done[]): number => done.reduce((all, { admitted }) => all + admitted, 0);

/** Returns the highest number of requests held concurrently across all processes. */
function highest(done: readonly Done[]): number {
  const steps = done.flatMap(({ held }) =>
    held.flatMap(([from, to]): [bigint, number][] => [
      [BigInt(from), 1],
      [BigInt(to), -1],
    ]),
  );
  steps.sort(([a, up], [b, down]) => (a < b ? -1 : a > b ? 1 : up - down));
  let most = 0;
  let now = 0;
  for (const [, step] of steps) most = Math.max(most, (now += step));
  return most;
}

t.test('several processes share limits through one Redis', { skip: withoutRedis }, async (t) => {
  const redis = await startRedis();
  t.teardown(() => redis.stop());
  const settings = (prefix: string): object => ({ url: redis.url, prefix, timeout_ms: 20_000, lease_ms: 1_500 });

  await t.test('exactly as many requests and tokens are admitted as the bucket holds', async (t) => {
    for (const [prefix, limits, cost] of [
      ['rpm', { rpm: 600, tpm: null }, 0],
      ['tpm', { rpm: null, tpm: 12_000 }, 10],
    ] as const) {
      const { together } = await start(t, { ...limits, concurrency: null }, settings(prefix));
      const began = performance.now();
      const done = await together({ lanes: 10, rounds: 40, holdMs: 0, promptTokens: cost, output: cost });
      const refilled = Math.ceil(((performance.now() - began) / 1000) * 10); // 600 per minute
      t.ok(
        sum(done) >= 600 && sum(done) <= 600 + refilled,
        `${sum(done)} were admitted: 600 and at most ${refilled} refilled`,
      );
      for (const { admitted } of done) t.ok(admitted > 0, `${admitted} were admitted by one process`);
    }
  });

  await t.test('concurrent requests never exceed the concurrency limits of the organization and the key', async (t) => {
    const { together } = await start(t, { rpm: null, tpm: null, concurrency: 8 }, settings('places'));
    const done = await together({ lanes: 6, rounds: 25, holdMs: 2, promptTokens: 1, output: 1 });
    t.ok(highest(done) <= 8, `${highest(done)} concurrent`);
    t.ok(highest(done) >= 7, 'the slots were contended');
    t.ok(done.some(({ refused }) => (refused['concurrency_limit_exceeded'] ?? 0) > 0));
    const bound = await together({ lanes: 6, rounds: 15, holdMs: 2, promptTokens: 1, output: 1, keyPlaces: 4 });
    t.ok(highest(bound) <= 4, `${highest(bound)} of the key's 4 slots were in use`);
    const client = redis.client();
    for (const key of await client.keys('places:c:*')) t.equal(await client.zcard(key), 0, 'no slot is still in use');
  });

  await t.test(
    'the slots of a killed process are freed when its lease expires, and the others keep theirs',
    async (t) => {
      const { all, told } = await start(t, { rpm: null, tpm: null, concurrency: 8 }, settings('killed'));
      const [first, second, third] = all as [ChildProcess, ChildProcess, ChildProcess];
      const order = { lanes: 1, holdMs: 0, promptTokens: 1, output: 1 };
      t.match(await told(first, { ...order, rounds: 5 }), { admitted: 5 });
      t.match(await told(second, { ...order, rounds: 5 }), { admitted: 3, refused: { concurrency_limit_exceeded: 2 } });
      first.kill('SIGKILL');
      const began = performance.now();
      t.match(await told(third, { ...order, rounds: 1 }), { admitted: 0 }, 'the slots are not freed immediately');
      let admitted = 0;
      // Each slot has its own lease. The leases expire shortly after one another, in the order in which they were
      // taken.
      while (admitted < 5 && performance.now() - began < 30_000)
        admitted += (await told(third, { ...order, rounds: 1 })).admitted;
      t.ok(performance.now() - began < 1_500 + 1_000, `after ${Math.round(performance.now() - began)} ms`);
      t.match(
        await told(third, { ...order, rounds: 10 }),
        { admitted: 0 },
        'only the five slots of the killed process were freed',
      );
    },
  );

  await t.test('every Redis key expires', async (t) => {
    const client = redis.client();
    const keys = await client.keys('*');
    t.ok(keys.length > 5);
    for (const key of keys) t.ok((await client.pttl(key)) > 0, key);
  });
});
