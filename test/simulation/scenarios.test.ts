// What a full disk and the end of its time do to background responses, told step by step over the simulated service (docs/internals/simulation.md): minutes of
// its clock, none of ours.
import t from 'tap';
import { Scenario } from './service/scenario.js';
import type { Head } from '../../src/storage/lmdb/responses/response-tables.js';
import type { Resource } from './service/responses-witness.js';

const idOf = ({ answer }: { answer: unknown }): string => (answer as Resource).id;

t.test('a log with a gap: who comes late is told what there is, and the end when it has come', async (t) => {
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
  t.equal(gap, numbers.length - 1, 'what stands behind the gap is not sent as if nothing were missing');
  t.ok((numbers[gap] as number) > 30_000);
  t.match(await scenario.get(0, id), { status: 'completed' });
  await scenario.pass(60_000);
  for (const [after, expected] of [
    [-1, numbers],
    [gap + 100, numbers.slice(-1)],
    [numbers[gap] as number, []],
  ] as const) {
    const again = await scenario.follow(0, id, 10_000, after);
    t.same([again.exchange.unexpected, again.numbers], [null, expected], 'from storage, too');
  }
});

t.test('cancelled while its end waits for the disk', async (t) => {
  const scenario = await Scenario.begin();
  const id = idOf(await scenario.generate(0, 3, 300));
  await scenario.pass(600);
  await scenario.full(15_000);
  await scenario.pass(2_000);
  t.equal((await scenario.get(0, id)).status, 'in_progress');
  const cancel = await scenario.ask(0, 'POST', '/v1/responses/:id/cancel', id);
  await scenario.pass(4_000);
  t.same([cancel.status, cancel.code], [503, 'maintenance'], 'it cannot be stored now');
  await scenario.pass(40_000);
  const { status, usage, completed_at: completedAt, incomplete_details: incomplete } = await scenario.get(0, id);
  t.match([status, usage], ['cancelled', { output_tokens: 3 }]);
  t.same([completedAt, incomplete], [null, null], 'nothing is left of its other end');
  t.same(
    scenario.usage().map(({ outputTokens }) => outputTokens),
    [3],
  );
  const { types } = await scenario.follow(0, id, 1_000);
  t.equal(types.at(-1), 'response.incomplete');
  t.notOk(types.includes('response.failed'));
});

t.test('cancelled on another thread while the disk is full', async (t) => {
  const scenario = await Scenario.begin(2);
  const id = idOf(await scenario.generate(1, 1_000, 100));
  await scenario.pass(1_000);
  await scenario.full(10_000);
  const cancel = await scenario.ask(2, 'POST', '/v1/responses/:id/cancel', id);
  await scenario.pass(6_000);
  t.same([cancel.status, cancel.code], [503, 'maintenance']);
  await scenario.pass(30_000);
  t.equal((await scenario.get(2, id)).status, 'cancelled');
});

t.test('a thread is lost while the disk is full: what it ran has failed once there is room', async (t) => {
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
    'and nothing else has',
  );
  await scenario.pass(30_000);
  t.equal((await scenario.get(2, ids[1] as string)).status, 'completed');
  t.equal(scenario.usage().length, 2);
});

t.test('the disk fills while lost responses are ended: each is counted once', async (t) => {
  const scenario = await Scenario.begin();
  for (let count = 0; count < 3; count++) await scenario.generate(0, 1_000, 100);
  await scenario.pass(2_000);
  scenario.kill();
  // The next start finds them; another process would be told nothing of what this one did.
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
    'the third could not be stored',
  );
  t.equal(scenario.told.length, 2, 'those that are stored as failed, whatever became of the third');
  await scenario.pass(10_000);
  await end();
  await scenario.pass(5_000);
  t.equal(new Set(scenario.told.map(({ requestId }) => requestId)).size, 3);
  t.equal(scenario.told.length, 3);
  t.equal(scenario.usage().length, 6);
});

t.test(
  'a background response whose time is over while another thread generates it is unknown to who cancels it',
  async (t) => {
    const scenario = await Scenario.begin(2);
    const id = idOf(await scenario.generate(1, 1_000, 100));
    await scenario.pass(1_000);
    scenario.leap(31 * 86_400_000);
    for (const thread of [1, 2]) {
      const { status, code } = await scenario.ask(thread, 'POST', '/v1/responses/:id/cancel', id);
      t.same([status, code], [404, 'response_not_found'], `asked of thread ${thread}`);
    }
  },
);

t.test('one that has ended before anything of it was logged has the same events for all who follow it', async (t) => {
  const scenario = await Scenario.begin(2);
  const id = idOf(await scenario.generate(1, 4, 30));
  while (scenario.tables.table<Head>('responses').get(id)?.status !== 'completed') await scenario.pass(1);
  scenario.disk.slowUs = 2_000_000;
  t.equal([...scenario.tables.table('response-events').keys()].length, 0);
  const early = await scenario.follow(2, id, 10_000);
  await scenario.pass(5_000);
  const late = await scenario.follow(2, id, 10_000);
  t.same(early.exchange.events, late.exchange.events);
  t.equal(late.types.filter((type) => type === 'response.output_text.delta').length, 4, 'as they were generated');
});

t.test('one of which nothing could be logged is told from what it says, once that is sure', async (t) => {
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

t.test('who follows on another thread and reads nothing until the log is over is told how it ended', async (t) => {
  const scenario = await Scenario.begin(2);
  const id = idOf(await scenario.generate(1, 1_000, 100));
  await scenario.pass(1_000);
  const follow = await scenario.ask(2, 'GET', '/v1/responses/:id', id, undefined, { stream: 'true' });
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
    'and not that it was deleted',
  );
  t.equal(follow.unexpected, null);
  t.equal(follow.over, true);
});

t.test('nor is who reads nothing until a log without its end is over', async (t) => {
  const scenario = await Scenario.begin();
  const id = idOf(await scenario.generate(0, 3, 300));
  while (scenario.tables.table<Head>('responses').get(id)?.status !== 'completed') await scenario.pass(1);
  await scenario.full(60_000); // before its last events are logged
  await scenario.pass(61_000);
  const slow = await scenario.ask(0, 'GET', '/v1/responses/:id', id, undefined, { stream: 'true' }, false);
  t.same(slow.events, []);
  scenario.leap(2 * 3_600_000);
  slow.stopped = false;
  await scenario.pass(1_000);
  t.same(
    slow.events?.map(({ type }) => type),
    ['response.completed', ''],
  );
  t.equal(slow.over, true);
});

t.test(
  'nor is who follows a response that has ended before its log could be written, and the log is over',
  async (t) => {
    const scenario = await Scenario.begin();
    const id = idOf(await scenario.generate(0, 60, 20));
    while (scenario.tables.table<Head>('responses').get(id)?.status !== 'completed') await scenario.pass(1);
    await scenario.full(10_000);
    scenario.leap(2 * 3_600_000);
    const follow = await scenario.follow(0, id, 60_000);
    t.same([follow.exchange.unexpected, follow.types.at(-1)], [null, 'response.completed']);
  },
);

for (const thread of [1, 2]) {
  const where = thread === 1 ? 'on the thread that generates it' : 'on another thread';
  t.test(`cancelled ${where}, and its time is over before that is stored`, async (t) => {
    const scenario = await Scenario.begin(2);
    const id = idOf(await scenario.generate(1, 1_000, 100));
    await scenario.pass(1_000);
    scenario.disk.slowUs = 1_000_000;
    const cancel = await scenario.ask(thread, 'POST', '/v1/responses/:id/cancel', id);
    t.equal(cancel.over, false);
    scenario.leap(31 * 86_400_000);
    await scenario.pass(20_000);
    t.same([cancel.status, cancel.code], [404, 'response_not_found'], 'not 200 with what it was before');
  });

  t.test(`cancelled ${where}, while all of its organization is erased`, async (t) => {
    const scenario = await Scenario.begin(2);
    const id = idOf(await scenario.generate(1, 1_000, 100));
    await scenario.pass(1_000);
    scenario.disk.slowUs = 1_000_000;
    const cancel = await scenario.ask(thread, 'POST', '/v1/responses/:id/cancel', id);
    await scenario.as(0, () => void scenario.thread(0).responses.eraseOrganization('org_1'));
    t.equal(cancel.over, false);
    await scenario.pass(20_000);
    t.same([cancel.status, cancel.code], [404, 'response_not_found'], 'it is shown to nobody once it is erased');
    t.equal(scenario.told.length, 1, 'and what it cost is counted');
  });
}
