// Tests FairSlots, which lets organizations take turns.
import t from 'tap';
import { FairSlots } from '../../src/generation/fair-slots.js';

/** Jobs that run until the test ends each job. */
class Bench {
  readonly begun: string[] = [];
  readonly #ends: (() => void)[] = [];

  constructor(readonly slots: FairSlots) {}

  add(organization: string, weight = 1, signal?: AbortSignal): Promise<void> {
    return this.slots.run({ organization, signal }, weight, () => {
      this.begun.push(organization);
      return new Promise((resolve) => this.#ends.push(resolve));
    });
  }

  /** Ends the oldest running job and lets the next job start. */
  async next(): Promise<void> {
    this.#ends.shift()?.();
    for (let turns = 0; turns < 3; turns++) await new Promise(setImmediate);
  }
}

t.test('organizations take turns', async (t) => {
  const bench = new Bench(new FairSlots(2, 'tests', 100));
  const all = Promise.all(['a', 'a', 'a', 'a', 'a', 'b', 'b', 'c'].map((organization) => bench.add(organization)));
  t.same(bench.begun, ['a', 'a'], 'no more jobs run than there are slots');
  for (let i = 0; i < 8; i++) await bench.next();
  t.equal(bench.begun.join(''), 'aabacbaa', 'an organization with no running job goes first');
  await all;
  await Promise.all([bench.add('d'), bench.next(), bench.next()]);
  t.equal(bench.begun.at(-1), 'd', 'all slots are free again');
});

t.test('one organization cannot take every slot, even if nobody waits', async (t) => {
  const bench = new Bench(new FairSlots(4, 'tests', 100, { mostOfOne: 3 }));
  const all = Promise.all(['a', 'a', 'a', 'a', 'a'].map((organization) => bench.add(organization)));
  t.equal(bench.begun.join(''), 'aaa', 'one slot stays reserved');
  const other = Promise.all([bench.add('b'), bench.add('b')]);
  t.equal(bench.begun.join(''), 'aaab', 'another organization takes it immediately');
  for (let i = 0; i < 7; i++) await bench.next();
  await Promise.all([all, other]);
  t.equal(bench.begun.length, 7);
  t.same(bench.begun.slice(4).sort(), ['a', 'a', 'b'], "waiting jobs start when one of the organization's own ends");
  await Promise.all([bench.add('c'), bench.next()]);
});

t.test('a waiting job is removed when its client disconnects', async (t) => {
  const bench = new Bench(new FairSlots(1, 'tests', 100));
  const first = bench.add('a');
  const client = new AbortController();
  const gone = bench.add('a', 1, client.signal);
  const stays = bench.add('a');
  client.abort(new Error('gone'));
  await t.rejects(gone, { message: 'gone' });
  await t.rejects(bench.add('a', 1, client.signal), { message: 'gone' }, 'a new job of that client is refused');
  await bench.next();
  await first;
  await bench.next();
  await stays;
  t.equal(bench.begun.length, 2);
});

t.test('a failed job frees its slot', async (t) => {
  const slots = new FairSlots(1, 'tests', 100);
  const fail = () => slots.run({ organization: 1 }, 1, () => Promise.reject(new Error('no')));
  for (const one of [fail(), fail(), fail()]) await t.rejects(one, { message: 'no' });
});

t.test('the queue is bounded', async (t) => {
  const bench = new Bench(new FairSlots(1, 'tests', 10));
  const kept = [bench.add('a', 50), bench.add('a', 50)];
  await t.rejects(
    bench.add('a', 1),
    { code: 'capacity_exhausted' },
    'a single job of any weight may wait, but none besides it',
  );
  kept.push(bench.add('b', 6));
  await t.rejects(bench.add('b', 5), { code: 'capacity_exhausted' });
  for (let i = 0; i < 3; i++) await bench.next();
  await Promise.all(kept);
});

t.test('no organization has two slots while a waiting organization has none', async (t) => {
  const bench = new Bench(new FairSlots(2, 'tests', 100));
  const all = Promise.all(['a', 'a', 'a', 'a', 'b', 'b', 'b'].map((organization) => bench.add(organization)));
  for (let i = 0; i < 4; i++) await bench.next();
  // Starting with the second job, b occupies one of the two slots until its queue is empty.
  t.equal(bench.begun.join(''), 'aababa', 'the jobs of a and b alternate');
  for (let i = 0; i < 3; i++) await bench.next();
  await all;
});

t.test('an organization that has used up its budget waits for the refill and delays no other', async (t) => {
  let now = 1e9;
  const slots = new FairSlots(2, 'tests', 100, { budget: { ms: 10, msPerMs: 1 }, now: () => now });
  const bench = new Bench(slots);
  const first = bench.add('a');
  slots.charge('a', 30);
  await bench.next();
  await first;
  const late = bench.add('a'),
    other = bench.add('b');
  t.same(bench.begun, ['a', 'b'], 'the job waits although a slot is free');
  await bench.next();
  await other;
  t.same(bench.begun, ['a', 'b']);
  now += 21;
  await t.resolves(
    Promise.all([
      late,
      (async () => {
        while (bench.begun.length < 3) await new Promise((resolve) => setTimeout(resolve, 5));
        await bench.next();
      })(),
    ]),
    'no job fails, and the waiting job starts without another one arriving',
  );
});
