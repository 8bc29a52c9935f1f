// Step-by-step scenarios on the simulated service (docs/internals/simulation.md): background responses when the disk is
// full or when they expire. They take minutes of simulated time and almost no real time.
import t from 'tap';
import { Scenario } from './service/scenario.js';
import type { Head } from '../../src/storage/lmdb/responses/response-tables.js';
import type { Resource } from './service/responses-witness.js';

const idOf = ({ answer }: { answer: unknown }): string => (answer as Resource).id;

t.test(
  'a late subscriber to a log with a gap receives the events before the gap, then the terminal event',
  async (t) => {
    const scenario = await Scenario.begin();
    const id = idOf(await scenario.generate(0, 30_000, 1));
    await scenario.pass(500);
    await scenario.full(22_000);
    await scenario.pass(24_000);
    t.equal((await scenario.get(0, id)).status, 'in_progress');
    const late = await scenario.follow(0, id, 60_000);
    t.equal(late.exchange.unexpected, null);
    t.equal(late.types.at(-1), 'response.completed');
    const { numbers } = late;
    const gap = numbers.findIndex((number, at) => number !== at);
    t.equal(gap, numbers.length - 1, 'events after the gap are not sent as if none were missing');
    t.ok((numbers[gap] as number) > 30_000);
    t.match(await scenario.get(0, id), { status: 'completed' });
    await scenario.pass(60_000);
    for (const [after, expected] of [
      [-1, numbers],
      [gap + 100, numbers.slice(-1)],
      [numbers[gap] as number, []],
    ] as const) {
      const again = await scenario.follow(0, id, 10_000, after);
      t.same(
        [again.exchange.unexpected, again.numbers],
        [null, expected],
        'storage returns the same events when the stream is read again',
      );
    }
  },
);

t.test('cancelling a response whose completion waits for a full disk stores it as cancelled', async (t) => {
  const scenario = await Scenario.begin();
  const id = idOf(await scenario.generate(0, 3, 300));
  await scenario.pass(600);
  await scenario.full(15_000);
  await scenario.pass(2_000);
  t.equal((await scenario.get(0, id)).status, 'in_progress');
  const cancel = await scenario.ask(0, 'POST', '/v1/responses/:id/cancel', { id });
  await scenario.pass(4_000);
  t.same(
    [cancel.status, cancel.code],
    [503, 'maintenance'],
    'the cancel request gets 503 while the cancellation cannot be stored',
  );
  await scenario.pass(40_000);
  const { status, usage, completed_at: completedAt, incomplete_details: incomplete } = await scenario.get(0, id);
  t.match([status, usage], ['cancelled', { output_tokens: 3 }]);
  t.same([completedAt, incomplete], [null, null], 'no trace of the completed state remains');
  t.same(
    scenario.usage().map(({ outputTokens }) => outputTokens),
    [3],
  );
  const { types } = await scenario.follow(0, id, 1_000);
  t.equal(types.at(-1), 'response.incomplete');
  t.notOk(types.includes('response.failed'));
});

t.test('cancelling from another thread while the disk is full returns 503 and takes effect later', async (t) => {
  const scenario = await Scenario.begin(2);
  const id = idOf(await scenario.generate(1, 1_000, 100));
  await scenario.pass(1_000);
  await scenario.full(10_000);
  const cancel = await scenario.ask(2, 'POST', '/v1/responses/:id/cancel', { id });
  await scenario.pass(6_000);
  t.same([cancel.status, cancel.code], [503, 'maintenance']);
  await scenario.pass(30_000);
  t.equal((await scenario.get(2, id)).status, 'cancelled');
});

t.test('the responses of a lost thread are stored as failed once the full disk has space again', async (t) => {
  const scenario = await Scenario.begin(2);
  const ids = [idOf(await scenario.generate(1, 1_000, 100)), idOf(await scenario.generate(2, 300, 100))];
  await scenario.pass(2_000);
  await scenario.full(15_000);
  scenario.lose(1);
  await scenario.pass(14_000);
  t.same(scenario.errors.filter((text) => /is tried again|will retry/.test(text)).length > 0, true);
  t.equal((await scenario.get(2, ids[0] as string)).status, 'in_progress');
  await scenario.pass(12_000);
  t.same(
    (await Promise.all(ids.map((id) => scenario.get(2, id)))).map(({ status }) => status),
    ['failed', 'in_progress'],
    'only the response of the lost thread has failed',
  );
  await scenario.pass(30_000);
  t.equal((await scenario.get(2, ids[1] as string)).status, 'completed');
  t.equal(scenario.usage().length, 2);
});

t.test('usage is counted once per response when the disk fills up while lost responses are being failed', async (t) => {
  const scenario = await Scenario.begin();
  for (let count = 0; count < 3; count++) await scenario.generate(0, 1_000, 100);
  await scenario.pass(2_000);
  scenario.kill();
  // The next start finds the interrupted responses and reports their usage, which the killed process did not report.
  await scenario.start();
  t.equal(scenario.told.length, 3);
  scenario.told.length = 0;
  for (let count = 0; count < 3; count++) await scenario.generate(0, 1_000, 100);
  await scenario.pass(2_000);
  let looked = 0;
  const end = (isRunning?: () => boolean): Promise<Error | null> =>
    scenario.as(0, () => {
      return new Promise((resolve) => {
        resolve(null);
        void scenario
          .thread(0)
          .failUnfinished(isRunning)
          .catch((error: unknown) => scenario.errors.push(`${String(error)}: ${String((error as Error).cause)}`));
      });
    });
  await end(() => {
    if (++looked === 3) void scenario.full(5_000);
    return false;
  });
  await scenario.pass(1_000);
  t.ok(
    scenario.errors.some((text) => /No space left/.test(text)),
    'the third response could not be stored as failed',
  );
  t.equal(scenario.told.length, 2, 'usage is reported for the two that were stored as failed');
  await scenario.pass(10_000);
  await end();
  await scenario.pass(5_000);
  t.equal(new Set(scenario.told.map(({ requestId }) => requestId)).size, 3);
  t.equal(scenario.told.length, 3);
  t.equal(scenario.usage().length, 6);
});

t.test('cancelling an expired background response returns 404 while another thread still generates it', async (t) => {
  const scenario = await Scenario.begin(2);
  const id = idOf(await scenario.generate(1, 1_000, 100));
  await scenario.pass(1_000);
  scenario.leap(31 * 86_400_000);
  for (const thread of [1, 2]) {
    const { status, code } = await scenario.ask(thread, 'POST', '/v1/responses/:id/cancel', { id });
    t.same([status, code], [404, 'response_not_found'], `cancel sent to thread ${thread}`);
  }
});

t.test('a response that ended before any event was logged gives every subscriber the same events', async (t) => {
  const scenario = await Scenario.begin(2);
  const id = idOf(await scenario.generate(1, 4, 30));
  while (scenario.tables.table<Head>('responses').get(id)?.status !== 'completed') await scenario.pass(1);
  scenario.disk.slowUs = 2_000_000;
  t.equal([...scenario.tables.table('response-events').keys()].length, 0);
  const early = await scenario.follow(2, id, 10_000);
  await scenario.pass(5_000);
  const late = await scenario.follow(2, id, 10_000);
  t.same(early.exchange.events, late.exchange.events);
  t.equal(
    late.types.filter((type) => type === 'response.output_text.delta').length,
    4,
    'the deltas are those that were generated',
  );
});

t.test('a response without any logged event is replayed from its stored output', async (t) => {
  const scenario = await Scenario.begin(2);
  const id = idOf(await scenario.generate(1, 4, 30));
  while (scenario.tables.table<Head>('responses').get(id)?.status !== 'completed') await scenario.pass(1);
  t.equal([...scenario.tables.table('response-events').keys()].length, 0);
  await scenario.full(60_000);
  await scenario.pass(61_000);
  t.equal([...scenario.tables.table('response-events').keys()].length, 0);
  const { types, numbers } = await scenario.follow(2, id, 10_000);
  t.same(
    [types.at(0), types.at(-1), types.filter((type) => type === 'response.output_text.delta').length],
    ['response.created', 'response.completed', 1],
  );
  t.same(
    numbers,
    numbers.map((_, at) => at),
  );
  t.same((await scenario.follow(2, id, 10_000, 3)).numbers, numbers.slice(4));
});

t.test(
  'a slow subscriber on another thread that reads nothing until the log has expired receives the failure',
  async (t) => {
    const scenario = await Scenario.begin(2);
    const id = idOf(await scenario.generate(1, 1_000, 100));
    await scenario.pass(1_000);
    const follow = await scenario.ask(2, 'GET', '/v1/responses/:id', { id, query: { stream: 'true' } });
    const before = follow.events?.length ?? 0;
    t.ok(before > 0);
    follow.stopped = true;
    scenario.lose(1);
    await scenario.pass(15_000);
    t.match(await scenario.get(2, id), { status: 'failed' });
    scenario.leap(2 * 3_600_000);
    await scenario.as(0, () => void scenario.thread(0).responses.sweep());
    await scenario.pass(1_000);
    follow.stopped = false;
    await scenario.pass(2_000);
    t.same(
      follow.events?.slice(before).map(({ type }) => type),
      ['error', 'response.failed', ''],
      'the subscriber is not told that the response was deleted',
    );
    t.equal(follow.unexpected, null);
    t.equal(follow.over, true);
  },
);

t.test(
  'a slow subscriber to a log without a terminal event receives the completion after the log has expired',
  async (t) => {
    const scenario = await Scenario.begin();
    const id = idOf(await scenario.generate(0, 3, 300));
    while (scenario.tables.table<Head>('responses').get(id)?.status !== 'completed') await scenario.pass(1);
    await scenario.full(60_000); // before its last events are logged
    await scenario.pass(61_000);
    const slow = await scenario.ask(0, 'GET', '/v1/responses/:id', { id, query: { stream: 'true' }, reads: false });
    t.same(slow.events, []);
    scenario.leap(2 * 3_600_000);
    slow.stopped = false;
    await scenario.pass(1_000);
    t.same(
      slow.events?.map(({ type }) => type),
      ['response.completed', ''],
    );
    t.equal(slow.over, true);
  },
);

t.test('a subscriber receives the completion when the log expires before it could be written', async (t) => {
  const scenario = await Scenario.begin();
  const id = idOf(await scenario.generate(0, 60, 20));
  while (scenario.tables.table<Head>('responses').get(id)?.status !== 'completed') await scenario.pass(1);
  await scenario.full(10_000);
  scenario.leap(2 * 3_600_000);
  const follow = await scenario.follow(0, id, 60_000);
  t.same([follow.exchange.unexpected, follow.types.at(-1)], [null, 'response.completed']);
});

for (const thread of [1, 2]) {
  const where = thread === 1 ? 'on the thread that generates it' : 'on another thread';
  t.test(`cancelled ${where}, returns 404 when the response expires before the cancellation is stored`, async (t) => {
    const scenario = await Scenario.begin(2);
    const id = idOf(await scenario.generate(1, 1_000, 100));
    await scenario.pass(1_000);
    scenario.disk.slowUs = 1_000_000;
    const cancel = await scenario.ask(thread, 'POST', '/v1/responses/:id/cancel', { id });
    t.equal(cancel.over, false);
    scenario.leap(31 * 86_400_000);
    await scenario.pass(20_000);
    t.same(
      [cancel.status, cancel.code],
      [404, 'response_not_found'],
      'the cancel request does not get 200 with the earlier state',
    );
  });

  t.test(`cancelled ${where}, returns 404 while its organization is being erased`, async (t) => {
    const scenario = await Scenario.begin(2);
    const id = idOf(await scenario.generate(1, 1_000, 100));
    await scenario.pass(1_000);
    scenario.disk.slowUs = 1_000_000;
    const cancel = await scenario.ask(thread, 'POST', '/v1/responses/:id/cancel', { id });
    await scenario.as(0, () => void scenario.thread(0).responses.eraseOrganization('org_1'));
    t.equal(cancel.over, false);
    await scenario.pass(20_000);
    t.same([cancel.status, cancel.code], [404, 'response_not_found'], 'an erased response is not returned');
    t.equal(scenario.told.length, 1, 'its usage is counted');
  });
}
