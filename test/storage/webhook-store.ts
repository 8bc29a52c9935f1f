// Tests that every implementation of WebhookStore must pass.
import t from 'tap';
import { newAccountId, newEventId, newResponseId } from '../../src/shared/ids.js';
import { EVENT_TYPES } from '../../src/shared/wire/webhooks.js';
import { MAX_PENDING, type Endpoint, type Job, type WebhookStore } from '../../src/webhooks/webhook-store.js';

const NOW = Date.now();

function endpoint(change: Partial<Endpoint> = {}): Endpoint {
  return {
    id: newAccountId('wh'),
    organizationId: 'org_a',
    url: 'https://example.com/hook',
    events: EVENT_TYPES,
    sealedSecret: 'sealed',
    createdAt: NOW,
    disabled: null,
    failures: 0,
    pausedUntil: 0,
    deliveredAt: null,
    ...change,
  };
}

function job(endpointId: string, change: Partial<Job> = {}): Job {
  const eventId = newEventId();
  return {
    id: `${eventId}.${endpointId}`,
    organizationId: 'org_a',
    endpointId,
    eventId,
    type: 'response.completed',
    body: '{"a":"\\u0000"}',
    state: 'pending',
    createdAt: NOW,
    dueAt: NOW,
    attempts: 0,
    error: null,
    ...change,
  };
}

const waiting = (): Job => job('', { id: newResponseId(), eventId: '', type: null, body: '', state: 'waiting' });
const idsOf = (jobs: readonly Job[]): string[] => jobs.map(({ id }) => id).sort();

/** `rows`: the total number of rows in the store's tables. */
export function webhookStoreTests({ webhooks, rows }: { webhooks: WebhookStore; rows(): Promise<number> }): void {
  t.afterEach(async () => {
    for (const id of ['org_a', 'org_b']) await webhooks.eraseOrganization(id);
    if ((await rows()) > 0) throw new Error('erasing the organizations left rows behind');
  });

  t.test('endpoints are limited, listed by age, changed and removed', async (t) => {
    const [newer, older] = [endpoint({ createdAt: NOW + 1 }), endpoint()];
    t.equal(await webhooks.addEndpoint(newer, 2), true);
    t.equal(await webhooks.addEndpoint(older, 2), true);
    t.equal(await webhooks.addEndpoint(endpoint(), 2), false);
    t.equal(await webhooks.addEndpoint(endpoint({ organizationId: 'org_b' }), 2), true);
    t.same(await webhooks.endpoints('org_a'), [older, newer]);
    t.equal(await webhooks.endpoint('org_b', older.id), null);
    t.equal(await webhooks.endpoint('org_a', 'x'.repeat(5_000)), null);
    const changed = await webhooks.changeEndpoint('org_a', older.id, (before) => ({ ...before, disabled: 'why' }));
    t.equal(changed?.disabled, 'why');
    t.equal(await webhooks.changeEndpoint('org_a', older.id, () => null), null);
    t.equal(await webhooks.changeEndpoint('org_b', older.id, (before) => before), null);
    t.same(await webhooks.endpoint('org_a', older.id), changed);
    await webhooks.add([job(older.id), job(newer.id)]);
    t.equal(await webhooks.removeEndpoint('org_b', older.id), false);
    t.equal(await webhooks.removeEndpoint('org_a', older.id), true);
    t.same(await webhooks.deliveries('org_a', older.id, 10), []);
    t.equal((await webhooks.deliveries('org_a', newer.id, 10)).length, 1);
  });

  t.test('a job is claimed once until its lease expires, and only its claimant settles it', async (t) => {
    const jobs = [job('wh_1'), job('wh_1'), job('wh_1', { dueAt: NOW + 1_000 })];
    await webhooks.add(jobs);
    const claims = await Promise.all([1, 2, 3].map(() => webhooks.claim(NOW, NOW + 100, 1)));
    t.same(idsOf(claims.flat()), idsOf(jobs.slice(0, 2)), 'no job is claimed twice');
    t.same(await webhooks.claim(NOW + 99, NOW + 200, 9), []);
    const [first] = jobs as [Job];
    await webhooks.settle(first.id, NOW + 100, { ...first, state: 'delivered', dueAt: null });
    t.same(idsOf(await webhooks.claim(NOW + 100, NOW + 300, 9)), [jobs[1]!.id], 'the other lease has expired');
    await webhooks.settle(jobs[1]!.id, NOW + 100, null); // too late: it has been claimed again
    await webhooks.settle(jobs[1]!.id, NOW + 300, { ...jobs[1]!, attempts: 1, dueAt: NOW + 400 });
    t.match(await webhooks.claim(NOW + 400, NOW + 500, 9), [{ id: jobs[1]!.id, attempts: 1 }]);
  });

  t.test('jobs of the excluded organizations are not claimed', async (t) => {
    const [one, other] = [job('wh_1', { dueAt: NOW - 1 }), job('wh_2', { organizationId: 'org_b' })];
    await webhooks.add([one]);
    await webhooks.add([other]);
    t.same(await webhooks.claim(NOW, NOW + 100, 1, ['org_a', 'org_b']), []);
    t.same(idsOf(await webhooks.claim(NOW, NOW + 100, 1, ['org_a'])), [other.id]);
    t.same(idsOf(await webhooks.claim(NOW, NOW + 100, 9, ['org_c'])), [one.id]);
  });

  t.test('deliveries are listed newest first, and finished ones are swept', async (t) => {
    const one = job('wh_1', { dueAt: null, state: 'failed', error: 'why' });
    await webhooks.add([one]);
    await new Promise((done) => setTimeout(done, 5)); // IDs sort by time
    const two = job('wh_1');
    await webhooks.add([two, job('wh_2')]);
    const listed = async (limit: number): Promise<string[]> =>
      (await webhooks.deliveries('org_a', 'wh_1', limit)).map(({ id }) => id);
    t.same(await listed(10), [two.id, one.id]);
    t.same(await listed(1), [two.id]);
    t.same(idsOf(await webhooks.deliveries('org_a', 'wh_1', 10, two.eventId)), [one.id], 'the next page');
    t.same(await webhooks.deliveries('org_a', 'wh_1', 10, one.eventId), []);
    t.same(await webhooks.deliveries('org_b', 'wh_1', 10), []);
    t.match(await webhooks.deliveries('org_a', 'wh_1', 10), [{}, one]);
    t.equal(await webhooks.sweep(NOW - 60_000), 0);
    t.equal(await webhooks.sweep(Date.now() + 60_000), 1);
    t.same(await listed(10), [two.id], 'a pending delivery is kept');
    await webhooks.removeEndpoint('org_a', 'wh_1');
    await webhooks.eraseOrganization('org_a');
    for (const { id } of await webhooks.claim(NOW + 1, NOW + 2, 9)) await webhooks.settle(id, NOW + 2, null);
  });

  t.test('a waiting job is replaced by its deliveries only once', async (t) => {
    const expected = waiting();
    await webhooks.add([{ ...expected, dueAt: NOW + 1_000 }]);
    t.same(await webhooks.claim(NOW, NOW + 1, 9), []);
    await webhooks.makeDue(expected.id, NOW);
    await webhooks.makeDue(newResponseId(), NOW);
    t.same(idsOf(await webhooks.claim(NOW, NOW + 100, 9)), [expected.id]);
    await Promise.all([1, 2, 3].map(() => webhooks.add([job('wh_1')], expected.id)));
    t.equal((await webhooks.deliveries('org_a', 'wh_1', 10)).length, 1);
    t.equal((await webhooks.claim(NOW + 100, NOW + 200, 9)).length, 1);
  });

  t.test('deliveries beyond the limit of pending ones are stored as failed', async (t) => {
    for (let at = 0; at < MAX_PENDING; at += 250) await webhooks.add(Array.from({ length: 250 }, () => job('wh_1')));
    await webhooks.add([job('wh_1'), job('wh_2')]);
    await webhooks.add([job('wh_1', { organizationId: 'org_b' })]);
    t.match(await webhooks.deliveries('org_a', 'wh_1', 1), [
      { state: 'failed', dueAt: null, error: 'more than 1000 deliveries are pending' },
    ]);
    t.match(await webhooks.deliveries('org_a', 'wh_2', 1), [{ state: 'pending' }], 'the limit is per endpoint');
    t.match(await webhooks.deliveries('org_b', 'wh_1', 1), [{ state: 'pending' }], 'and per organization');
    const expected = waiting();
    await webhooks.add([{ ...expected, dueAt: NOW - 1 }]);
    t.same(idsOf(await webhooks.claim(NOW - 1, NOW, 9)), [expected.id], 'the end of a response is still expected');
  });
}
