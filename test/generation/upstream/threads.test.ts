// Tests that several HTTP workers share each upstream's circuit breaker and its number of requests in flight.
import { Agent, request } from 'node:http';
import t from 'tap';
import { FairSlots } from '../../../src/generation/fair-slots.js';
import { FAILING_MS, SharedCounts, sharedNow, upstreamBytes } from '../../../src/generation/upstream/shared-counts.js';
import { eventually } from '../../e2e/monolith.js';
import { error, startGateway, startStandIn, stream } from '../../support/stand-in.js';

const answer = stream({ choices: [{ index: 0, delta: { content: 'Yes' }, finish_reason: 'stop' }] }, '[DONE]');
const one = await startStandIn(answer);
const gateway = await startGateway(
  { far: { upstream: { url: one.url } }, near: { upstream: { url: one.url } } },
  {
    http: { threads: 2 },
    log_level: 'silent',
    upstream: { retries: 0, breaker_failures: 4, breaker_ms: 60_000, concurrency: 3 },
    limits: { concurrency: null, rpm: null },
  },
);
t.teardown(async () => {
  await gateway.close();
  await one.close();
});

/** Uses a new connection, because connections are distributed across the workers in turn. */
const status = (model: string): Promise<number> =>
  new Promise((resolve, reject) => {
    request(
      `${gateway.url}/v1/chat/completions`,
      {
        method: 'POST',
        agent: new Agent({ keepAlive: false }),
        headers: { authorization: `Bearer ${gateway.key}`, 'content-type': 'application/json' },
      },
      (response) => response.resume().on('end', () => resolve(response.statusCode!)),
    )
      .on('error', reject)
      .end(JSON.stringify({ model, messages: [{ role: 'user', content: 'Hi' }] }));
  });

t.test('limits requests in flight over all workers, and every request is served', async (t) => {
  const waiting: (() => void)[] = [];
  let atOnce = 0,
    most = 0;
  one.say = (response, heard) => {
    most = Math.max(most, ++atOnce);
    waiting.push(() => {
      atOnce--;
      void answer(response, heard);
    });
  };
  const all = Array.from({ length: 12 }, () => status('near'));
  for (let answered = 0; answered < 12; answered++) {
    t.ok(
      await eventually(() => waiting.length > 0 && (waiting.length === 3 || answered + waiting.length === 12)),
      `request ${answered + 1} has arrived`,
    );
    waiting.shift()!();
  }
  t.same(new Set(await Promise.all(all)), new Set([200]));
  t.equal(most, 3);
});

t.test('failures in all workers count together and open the circuit breaker for all', async (t) => {
  one.say = error(503, { error: { message: 'overloaded' } });
  const before = one.heard.length;
  for (let i = 0; i < 10; i++) t.equal(await status('far'), 503);
  t.equal(one.heard.length - before, 4);
});

/** Creates the counts shared by workers 1 to `threads` of a process, for one model on one upstream. */
const shared = (threads: number): { buffer: SharedArrayBuffer; counts: SharedCounts[]; all: SharedCounts } => {
  const shape = { models: 1, servers: 1, threads };
  const buffer = new SharedArrayBuffer(upstreamBytes(shape));
  return {
    buffer,
    counts: Array.from({ length: threads }, (_, at) => new SharedCounts(buffer, shape, at + 1)),
    all: new SharedCounts(buffer, shape, 0),
  };
};

t.test('counts an upstream that has responded and then fails requests of several organizations', (t) => {
  const {
    counts: [one, two],
  } = shared(2);
  const rows = [one!.row(), two!.row()] as const;
  t.same(
    [rows[0].failedFor(7, 1_000), rows[1].failedFor(7, 1_000), rows[0].failedFor(7, 1_000)],
    [true, false, false],
    'an organization counts only once over all workers',
  );
  t.same([rows[0].failedFor(8, 1_000), rows[1].failedFor(7, 1_000)], [true, true]);
  t.same(
    [rows[0].failedFor(null, 1_000), rows[1].failedFor(null, 1_000)],
    [true, true],
    'failures not caused by a request always count',
  );
  t.same([rows[0].failedFor(0, 1_000), rows[0].failedFor(0, 1_000)], [true, false]);
  rows[1].answered();
  t.ok(rows[0].failedFor(0, 1_000), 'failures count again after a success');
  t.same(
    [1_000 + FAILING_MS - 1, 1_000 + FAILING_MS].map((now) => rows[1].failedFor(0, now)),
    [false, true],
    'an upstream without any success for a long time is at fault itself',
  );
  t.end();
});

/** One worker's jobs, which the test ends; `begun` is shared by all workers. */
class Bench {
  constructor(
    readonly slots: FairSlots<number>,
    readonly begun: string[],
    readonly ends: (() => void)[],
  ) {}

  add(organization: number, name: string, signal?: AbortSignal): Promise<void> {
    return this.slots.run({ organization, signal }, 1, () => {
      this.begun.push(name);
      return new Promise((resolve) => this.ends.push(resolve));
    });
  }
}

/** `end` ends the oldest job and waits for `more` to start. */
const benches = (places: number, threads = 2): { of: Bench[]; begun: string[]; end(more?: number): Promise<void> } => {
  const begun: string[] = [],
    ends: (() => void)[] = [];
  const of = shared(threads).counts.map(
    (counts) => new Bench(new FairSlots(counts.places(places), 'tests', 100), begun, ends),
  );
  return {
    of,
    begun,
    end: async (more = 1) => {
      const before = begun.length;
      ends.shift()?.();
      await eventually(() => begun.length >= before + more, 5_000);
    },
  };
};

t.test('organizations take turns, whichever worker their requests use', async (t) => {
  const {
    of: [one, two],
    begun,
    end,
  } = benches(1);
  const all = [1, 2, 3, 4].map((n) => one!.add(1, `a${n}`));
  all.push(two!.add(2, 'b1'), two!.add(2, 'b2'), two!.add(1, 'a5'), one!.add(3, 'c1'));
  t.same(begun, ['a1']);
  const waited = sharedNow();
  for (let i = 0; i < 7; i++) await end();
  await end(0);
  t.same(
    begun,
    ['a1', 'a2', 'b1', 'c1', 'a5', 'b2', 'a3', 'a4'],
    'within an organization, the longest wait goes first',
  );
  t.ok(sharedNow() - waited < 2_000, 'no job waited for a timer');
  await Promise.all(all);
});

t.test('no organization has two slots while another one that waits in a different worker has none', async (t) => {
  const {
    of: [one, two],
    begun,
    end,
  } = benches(2);
  const all = [1, 2, 3, 4].map((n) => one!.add(1, `a${n}`));
  all.push(two!.add(2, 'b1'), two!.add(2, 'b2'));
  t.same(begun, ['a1', 'a2']);
  for (let i = 0; i < 4; i++) await end();
  t.same(begun.slice(2), ['b1', 'a3', 'b2', 'a4']);
  for (let i = 0; i < 2; i++) await end(0);
  await Promise.all(all);
});

t.test('a new request does not overtake those waiting in other workers', async (t) => {
  const {
    of: [one, two],
    begun,
    end,
  } = benches(1);
  const all = [one!.add(1, 'a1'), two!.add(2, 'b1')];
  all.push(one!.add(3, 'c1'));
  await end();
  await end();
  t.same(begun, ['a1', 'b1', 'c1']);
  await end(0);
  await Promise.all(all);
});

t.test('a cancelled request, and a worker that does not take its turn, block no other', async (t) => {
  const {
    of: [one, two],
    begun,
    end,
  } = benches(1);
  const client = new AbortController();
  const first = one!.add(1, 'a1');
  const gone = t.rejects(two!.add(2, 'b1', client.signal), { message: 'gone' });
  const stays = one!.add(1, 'a2');
  client.abort(new Error('gone'));
  await gone;
  await end();
  t.same(begun, ['a1', 'a2']);
  await end(0);
  await Promise.all([first, stays]);

  // A worker that registers as waiting and then does nothing.
  const {
    counts: [awake, asleep],
  } = shared(2);
  const [mine, theirs] = [awake!.places(1), asleep!.places(1)];
  t.ok(mine.take(1, null));
  t.notOk(theirs.take(2, theirs.now()));
  mine.release(1);
  t.notOk(mine.take(3, null), 'a new request does not overtake the waiting worker');
  const freed = sharedNow();
  const taken = await new FairSlots(mine, 'tests', 100).run({ organization: 1 }, 1, async () => sharedNow());
  t.ok(taken - freed >= 50, `after ${taken - freed} ms`);
  const slots = new FairSlots(mine, 'tests', 100);
  for (let at = 0; at < 40; at++) await slots.run({ organization: 1 }, 1, async () => undefined);
  t.ok(sharedNow() - taken < 2_000, 'the inactive worker is not waited for repeatedly');
});

t.test("frees a worker's requests in flight when it terminates", async (t) => {
  const {
    all,
    counts: [one, two],
  } = shared(2);
  const [first, second] = [one!.row(), two!.row()];
  t.throws(() => one!.row(), RangeError);
  for (const row of [first, first, second]) row.enter();
  t.same([first.tryIt(), second.tryIt(), second.underWay], [true, false, 3]);
  const [mine, theirs] = [one!.places(3), two!.places(3)];
  t.throws(() => one!.places(3), RangeError);
  t.same(
    [
      mine.take(1, null),
      mine.take(1, null),
      theirs.take(2, null),
      mine.take(1, mine.now()),
      theirs.take(1, theirs.now()),
    ],
    [true, true, true, false, false],
  );
  const freed = new Promise<void>((resolve) => theirs.whenFree(resolve));
  const begun = sharedNow();
  all.releaseAll(1);
  await freed;
  t.ok(sharedNow() - begun < 900, 'waiting requests are notified');
  t.same([second.underWay, second.trying, second.tryIt()], [1, false, true]);
  t.same(
    [theirs.atWork(1), theirs.take(1, theirs.now()), theirs.atWork(1), theirs.atWork(2)],
    [0, true, 1, 1],
    'waiting requests do not wait for the terminated worker',
  );
});
