// Several threads that answer: servers elsewhere have one circuit breaker, and one number of requests under way, for all.
import { Agent, request } from 'node:http';
import t from 'tap';
import { ownCounts, SharedCounts, sharedNow, SharedPlaces, upstreamBytes } from '../../../src/generation/upstream/shared-counts.js';
import { eventually } from '../../e2e/monolith.js';
import { error, startGateway, startStandIn, stream } from '../../support/stand-in.js';

const answer = stream({ choices: [{ index: 0, delta: { content: 'Yes' }, finish_reason: 'stop' }] }, '[DONE]');
const one = await startStandIn(answer);
const gateway = await startGateway({ far: { upstream: { url: one.url } }, near: { upstream: { url: one.url } } },
  { http: { threads: 2 }, log_level: 'silent', upstream: { retries: 0, breaker_failures: 4, breaker_ms: 60_000, concurrency: 3 }, limits: { concurrency: null, rpm: null } });
t.teardown(async () => {
  await gateway.close();
  await one.close();
});

/** Over a connection of its own: connections are given to the threads in turn. */
const status = (model: string): Promise<number> => new Promise((resolve, reject) => {
  request(`${gateway.url}/v1/chat/completions`, {
    method: 'POST', agent: new Agent({ keepAlive: false }), headers: { authorization: `Bearer ${gateway.key}`, 'content-type': 'application/json' },
  }, (response) => response.resume().on('end', () => resolve(response.statusCode!))).on('error', reject)
    .end(JSON.stringify({ model, messages: [{ role: 'user', content: 'Hi' }] }));
});

t.test('no more at once than all threads may have together, and all get their turn', async (t) => {
  const waiting: (() => void)[] = [];
  let atOnce = 0, most = 0;
  one.say = (response, heard) => {
    most = Math.max(most, ++atOnce);
    waiting.push(() => { atOnce--; void answer(response, heard); });
  };
  const all = Array.from({ length: 12 }, () => status('near'));
  for (let answered = 0; answered < 12; answered++) {
    t.ok(await eventually(() => waiting.length > 0 && (waiting.length === 3 || answered + waiting.length === 12)), `the ${answered + 1}th is there`);
    waiting.shift()!();
  }
  t.same(new Set(await Promise.all(all)), new Set([200]));
  t.equal(most, 3);
});

t.test('failures in all threads count together, and shut it for all', async (t) => {
  one.say = error(503, { error: { message: 'overloaded' } });
  const before = one.heard.length;
  for (let i = 0; i < 10; i++) t.equal(await status('far'), 503);
  t.equal(one.heard.length - before, 4);
});

t.test('what a thread had under way is given back when it has ended', async (t) => {
  const buffer = new SharedArrayBuffer(upstreamBytes(2, 2));
  const [first, second] = [1, 2].map((thread) => {
    const counts = new SharedCounts(buffer, 2, thread);
    counts.row();
    return counts.row();
  }) as [ReturnType<SharedCounts['row']>, ReturnType<SharedCounts['row']>];
  t.throws(() => { const counts = ownCounts(1); counts.row(); counts.row(); }, RangeError);
  for (const row of [first, first, second]) row.enter();
  t.same([first.tryIt(), second.tryIt(), first.enter(3), second.underWay], [true, false, false, 3]);
  const places = new SharedPlaces(second, 3);
  const freed = new Promise<void>((resolve) => places.whenFree(resolve));
  const begun = sharedNow();
  new SharedCounts(buffer, 2, 0).leaveAll(1);
  await freed;
  t.ok(sharedNow() - begun < 900, 'and who waits hears of it');
  t.same([second.underWay, second.trying, second.tryIt(), places.take()], [1, false, true, true]);
});
