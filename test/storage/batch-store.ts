// Tests that every implementation of BatchStore must pass.
import t from 'tap';
import { newBatchId } from '../../src/shared/ids.js';
import { CLAIMED_CHARACTERS, ERASED_AT_ONCE, NO_USAGE, UNBEGUN_MS } from '../../src/storage/batch-store.js';
import type { Batch, BatchKind, BatchStore, ClaimedLine, LineResult, NewBatch } from '../../src/storage/batch-store.js';

export const START_MS = 1_760_000_000_000;
const DAY_MS = 86_400_000;
const HOUR_MS = 3_600_000;
const LEASE_MS = 30_000;

export interface OpenedBatches {
  batches: BatchStore;
  /** The store's clock, in milliseconds since 1970. Assign `now` to change the time. */
  clock: { now: number };
  /** Returns the total number of rows in the store's tables. */
  rows(): Promise<number>;
}

const success = (text = '{"ok":true}'): LineResult => ({
  outcome: 'succeeded',
  text,
  usage: { input: 3, cached: 1, output: 5, reasoning: 2 },
});
const failure: LineResult = { outcome: 'errored', text: '{"ok":false}', usage: null };

export function batchStoreTests({ batches, clock, rows }: OpenedBatches): void {
  const added = (options: Partial<NewBatch> = {}): NewBatch => ({
    id: newBatchId(options.kind ?? 'openai'),
    organizationId: 'org_a',
    keyId: 'key_a',
    kind: 'openai',
    endpoint: '/v1/chat/completions',
    createdAt: clock.now,
    expiresAt: clock.now + 24 * HOUR_MS,
    inputFileId: null,
    metadata: { a: 'b' },
    headers: {},
    outputExpiresS: null,
    ...options,
  });
  const create = async (options: Partial<NewBatch> = {}): Promise<string> => {
    const batch = added(options);
    await batches.create(batch, 100);
    return batch.id;
  };
  const begin = async (lines: number, options: Partial<NewBatch> = {}): Promise<string> => {
    const id = await create(options);
    await batches.addLines(
      id,
      Array.from({ length: lines }, (_, at) => ({ line: at + 1, customId: `c${at + 1}`, body: `{"n":${at + 1}}` })),
    );
    await batches.begin(id, lines, 'm');
    return id;
  };
  const get = async (id: string, organizationId = 'org_a'): Promise<Batch> =>
    (await batches.get(organizationId, id)) as Batch;
  const claim = (limit: number, owner = 'p1'): Promise<ClaimedLine[]> => batches.claim(owner, limit, LEASE_MS);
  const numbers = (lines: readonly ClaimedLine[]): number[] => lines.map(({ line }) => line);

  t.afterEach(async () => {
    clock.now += 2 * UNBEGUN_MS;
    for (const organization of ['org_a', 'org_b']) await batches.eraseOrganization(organization);
    await batches.sweep();
    if ((await rows()) > 0) throw new Error('erasure left rows behind');
    clock.now = START_MS;
  });

  t.test('a batch runs from its creation to its end', async (t) => {
    const id = await begin(3);
    t.match(await get(id), { phase: 'running', total: 3, model: 'm', inProgressAt: START_MS, metadata: { a: 'b' } });
    const claimed = await claim(10);
    t.same(
      claimed.map(({ line, customId, body, lost }) => [line, customId, body, lost]),
      [
        [1, 'c1', '{"n":1}', 0],
        [2, 'c2', '{"n":2}', 0],
        [3, 'c3', '{"n":3}', 0],
      ],
    );
    t.same(await claim(10), [], 'claimed lines are not claimed again');
    t.same(await batches.counts(), { running: 3, waiting: 0 });
    t.ok(await batches.finish(claimed[0]!, success()));
    t.ok(await batches.finish(claimed[2]!, success('{"third":true}')));
    t.match(await get(id), { phase: 'running', counts: { succeeded: 2, errored: 0 } });
    t.ok(await batches.finish(claimed[1]!, failure));
    t.match(await get(id), {
      phase: 'finalizing',
      ending: 'completed',
      finalizingAt: START_MS,
      counts: { succeeded: 2, errored: 1, canceled: 0, expired: 0 },
      usage: { input: 6, cached: 2, output: 10, reasoning: 4 },
    });
    t.same(await batches.results(id, 0, 1_000), [
      { line: 1, customId: 'c1', outcome: 'succeeded', text: '{"ok":true}' },
      { line: 2, customId: 'c2', outcome: 'errored', text: '{"ok":false}' },
      { line: 3, customId: 'c3', outcome: 'succeeded', text: '{"third":true}' },
    ]);
    t.same((await batches.results(id, 0, 5)).length, 1, 'a page has at least one result');
    t.same((await batches.results(id, 2, 1_000)).length, 1);
    t.equal((await batches.claimJob('p1', LEASE_MS))?.id, id);
    t.ok(await batches.end(id, { outputFileId: 'file-1', errorFileId: null }));
    t.notOk(await batches.end(id, { outputFileId: 'file-2', errorFileId: null }), 'it ends once');
    t.match(await get(id), { phase: 'ended', ending: 'completed', outputFileId: 'file-1', endedAt: START_MS });
    await batches.dropResults(id);
    t.same(await batches.results(id, 0, 1_000), []);
    t.equal(await batches.claimJob('p1', LEASE_MS), null);
  });

  t.test('a line with an expired lease can be claimed again, and not be ended by its previous owner', async (t) => {
    await begin(1);
    const [first] = await claim(1);
    clock.now += LEASE_MS - 1;
    t.same(await claim(1, 'p2'), []);
    clock.now += 1;
    const [second] = await claim(1, 'p2');
    t.equal(second?.lost, 1);
    t.notOk(await batches.finish(first!, success('"first"')), 'the result of the first owner is discarded');
    t.same(await batches.renew([first!], LEASE_MS), []);
    t.ok(await batches.finish(second!, success('"second"')));
    t.notOk(await batches.finish(second!, success('"again"')), 'a line ends once');
    t.same(
      (await batches.results(second!.batch.id, 0, 1_000)).map(({ text }) => text),
      ['"second"'],
    );
    t.match(await get(second!.batch.id), { counts: { succeeded: 1 } });
  });

  t.test('a renewed lease does not expire', async (t) => {
    await begin(1);
    const [line] = await claim(1);
    for (let i = 0; i < 3; i++) {
      clock.now += LEASE_MS - 1;
      t.same(await batches.renew([line!], LEASE_MS), [{ claim: line, stop: null }]);
    }
    t.same(await claim(1, 'p2'), []);
    t.ok(await batches.finish(line!, success()));
  });

  t.test('stores only one of several concurrent results for the same line', async (t) => {
    const id = await begin(20);
    const lines = await claim(20);
    const ends = await Promise.all(
      lines.flatMap((line) => [1, 2].map((n) => batches.finish(line, success(String(n))))),
    );
    t.equal(ends.filter(Boolean).length, 20);
    t.match(await get(id), { phase: 'finalizing', counts: { succeeded: 20 } });
  });

  t.test('concurrent claims never return the same line', async (t) => {
    await begin(30);
    const claimed = (await Promise.all(['p1', 'p2', 'p3'].map((owner) => claim(20, owner)))).flat();
    t.equal(new Set(numbers(claimed)).size, claimed.length);
    const rest = await claim(30, 'p4');
    t.same(
      [...numbers(claimed), ...numbers(rest)].sort((a, b) => a - b),
      Array.from({ length: 30 }, (_, at) => at + 1),
    );
  });

  t.test('a released line can be claimed after its delay, and does not count as lost', async (t) => {
    await begin(1);
    const [line] = await claim(1);
    await batches.release(line!, 5_000);
    t.notOk(await batches.finish(line!, success()), 'it is no longer claimed');
    t.same(await claim(1), []);
    t.same(await batches.counts(), { running: 0, waiting: 1 });
    clock.now += 5_000;
    t.equal((await claim(1))[0]?.lost, 0);
  });

  t.test('claims lines of all organizations in equal numbers, except for excluded organizations', async (t) => {
    await begin(10);
    await begin(10, { organizationId: 'org_b' });
    const claimed = await claim(4);
    t.same(claimed.map(({ batch }) => batch.organizationId).sort(), ['org_a', 'org_a', 'org_b', 'org_b']);
    const others = await batches.claim('p1', 3, LEASE_MS, new Set(['org_b']));
    t.same(
      others.map(({ batch }) => batch.organizationId),
      ['org_a', 'org_a', 'org_a'],
      'an excepted organization waits',
    );
  });

  t.test('a claim returns few lines if they are large', async (t) => {
    const id = await create();
    const body = JSON.stringify({ text: 'x'.repeat(0.75 * CLAIMED_CHARACTERS) });
    await batches.addLines(
      id,
      [1, 2, 3, 4, 5].map((line) => ({ line, customId: `c${line}`, body })),
    );
    await batches.begin(id, 5, 'm');
    t.same(numbers(await claim(5)), [1, 2]);
    t.same(numbers(await claim(1)), [3]);
    t.same(numbers(await claim(5)), [4, 5]);
  });

  t.test('erases all lines of batches with many lines', async (t) => {
    const count = 2 * ERASED_AT_ONCE + 1;
    const lines = Array.from({ length: count }, (_, at) => ({ line: at + 1, customId: `c${at}`, body: '{}' }));
    const [failed, cancelled] = [await create(), await create()];
    for (const id of [failed, cancelled]) await batches.addLines(id, lines);
    await batches.fail(failed, []);
    await batches.cancel('org_a', cancelled);
    t.equal(await batches.end(cancelled, { outputFileId: null, errorFileId: null }), true);
    const deleted = await begin(count, { kind: 'messages' });
    await batches.cancel('org_a', deleted);
    while ((await batches.stopLines(deleted, ERASED_AT_ONCE)) > 0);
    await batches.end(deleted, { outputFileId: null, errorFileId: null });
    t.ok((await rows()) >= count);
    t.equal(await batches.delete('org_a', deleted), true);
    t.ok((await rows()) < 10, `${await rows()} rows of the batches themselves`);
    await begin(count, { organizationId: 'org_b' });
  });

  t.test('the lines of an erased organization can neither be renewed nor ended', async (t) => {
    await begin(2);
    const claimed = await claim(2);
    await batches.eraseOrganization('org_a');
    t.same(await batches.renew(claimed, LEASE_MS), []);
    t.equal(await batches.finish(claimed[0]!, success()), false);
    t.equal(await rows(), 0);
  });

  t.test('claims no lines of an excluded batch, but lines of other batches of the same organization', async (t) => {
    const first = await begin(3);
    const second = await begin(3);
    const claimed = await batches.claim('p1', 6, LEASE_MS, new Set([first]));
    t.same(
      claimed.map(({ batch }) => batch.id),
      [second, second, second],
    );
  });

  t.test('claims a line of every organization even if there are more batches than one claim considers', async (t) => {
    const organizations = Array.from({ length: 11 }, (_, at) => `org_${at}`);
    for (const organizationId of organizations)
      for (let count = 0; count < 20; count++) await begin(1, { organizationId });
    await begin(1, { organizationId: 'org_last' });
    const claimed = await claim(12);
    t.equal(new Set(claimed.map(({ batch }) => batch.organizationId)).size, 12);
    for (const id of [...organizations, 'org_last']) await batches.eraseOrganization(id);
  });

  t.test('cancelling a batch ends waiting lines immediately; owners end their running lines', async (t) => {
    const id = await begin(5);
    const [first, second] = await claim(2);
    t.match(await batches.cancel('org_a', id), { phase: 'stopping', ending: 'cancelled', cancellingAt: START_MS });
    t.same(await claim(5), [], 'its lines are no longer claimed');
    t.equal((await batches.claimJob('p1', LEASE_MS))?.id, id);
    t.equal(await batches.stopLines(id, 2), 2);
    t.equal(await batches.stopLines(id, 10), 1);
    t.equal(await batches.stopLines(id, 10), 0, 'the lines that run are left to their owner');
    t.same(
      (await batches.renew([first!, second!], LEASE_MS)).map(({ stop }) => stop),
      ['canceled', 'canceled'],
    );
    t.ok(await batches.finish(first!, { outcome: 'canceled', text: '', usage: null }));
    clock.now += LEASE_MS;
    t.equal(await batches.stopLines(id, 10), 1, 'the line of a lost owner also ends');
    t.match(await get(id), { phase: 'finalizing', ending: 'cancelled', counts: { canceled: 5, succeeded: 0 } });
    t.match(await batches.cancel('org_a', id), { phase: 'finalizing' }, 'a second cancellation changes nothing');
    await batches.end(id, { outputFileId: null, errorFileId: null });
    t.match(await get(id), { phase: 'ended', ending: 'cancelled' });
  });

  t.test('a batch that is cancelled during validation runs no lines', async (t) => {
    const id = await create();
    await batches.addLines(id, [{ line: 1, customId: 'x', body: '{}' }]);
    t.match(await batches.cancel('org_a', id), { phase: 'finalizing', ending: 'cancelled' });
    await batches.addLines(id, [{ line: 2, customId: 'y', body: '{}' }]);
    t.notOk(await batches.begin(id, 2, 'm'));
    t.same(await claim(5), []);
    t.ok(await batches.end(id, { outputFileId: null, errorFileId: null }));
    t.match(await get(id), { phase: 'ended', ending: 'cancelled', total: 0 });
  });

  t.test('a batch expires, and its remaining lines end as expired', async (t) => {
    const id = await begin(2);
    const [line] = await claim(1);
    clock.now += 24 * HOUR_MS - 1;
    await batches.renew([line!], LEASE_MS);
    t.equal(await batches.expire(), 0);
    clock.now += 1;
    t.equal(await batches.expire(), 1);
    t.same(await batches.renew([line!], LEASE_MS), [{ claim: line, stop: 'expired' }]);
    t.equal(await batches.stopLines(id, 10), 1);
    t.ok(await batches.finish(line!, success()), 'a response that was complete is kept');
    t.match(await get(id), { phase: 'finalizing', ending: 'expired', counts: { succeeded: 1, expired: 1 } });
  });

  t.test('an invalid input file ends the batch, stores the problems and erases the lines', async (t) => {
    const id = await create();
    await batches.addLines(id, [{ line: 1, customId: 'x', body: '{}' }]);
    const problems = [{ code: 'invalid_json_line', message: 'no', param: null, line: 3 }];
    t.equal((await batches.claimJob('p1', LEASE_MS))?.id, id);
    await batches.fail(id, problems);
    t.match(await get(id), { phase: 'ended', ending: 'failed', problems });
    t.notOk(await batches.begin(id, 1, null));
  });

  t.test('only one process holds the job of a batch, until its lease expires', async (t) => {
    const id = await create();
    t.equal((await batches.claimJob('p1', LEASE_MS))?.id, id);
    t.equal(await batches.claimJob('p2', LEASE_MS), null);
    clock.now += LEASE_MS - 1;
    t.ok(await batches.renewJob(id, 'p1', LEASE_MS));
    clock.now += LEASE_MS;
    t.equal((await batches.claimJob('p2', LEASE_MS))?.id, id);
    t.notOk(await batches.renewJob(id, 'p1', LEASE_MS));
    await batches.releaseJob(id, 'p2', 1_000);
    t.equal(await batches.claimJob('p1', LEASE_MS), null);
    clock.now += 1_000;
    t.equal((await batches.claimJob('p1', LEASE_MS))?.id, id);
  });

  t.test('batches are listed from the newest to the oldest, in pages and by kind', async (t) => {
    const ids: string[] = [];
    for (let i = 0; i < 5; i++) ids.push(await create());
    await create({ kind: 'messages' });
    await create({ organizationId: 'org_b' });
    ids.sort().reverse();
    const listed = async (
      query: { after?: string; before?: string; limit: number },
      kind: BatchKind = 'openai',
    ): Promise<[ids: string[], more: boolean]> => {
      const page = await batches.list('org_a', kind, query);
      return [page.batches.map(({ id }) => id), page.more];
    };
    t.same(await listed({ limit: 3 }), [ids.slice(0, 3), true]);
    t.same(await listed({ limit: 3, after: ids[2]! }), [ids.slice(3), false]);
    t.same(await listed({ limit: 2, before: ids[3]! }), [ids.slice(1, 3), true]);
    t.equal((await listed({ limit: 3 }, 'messages'))[0].length, 1);
  });

  t.test('an organization sees and changes only its own batches', async (t) => {
    const id = await begin(1);
    t.equal(await batches.get('org_b', id), null);
    t.equal(await batches.cancel('org_b', id), null);
    t.notOk(await batches.delete('org_b', id));
    t.equal(await batches.get('org_a', 'batch_x'), null);
  });

  t.test('limits the number of unfinished batches per organization', async (t) => {
    const first = added();
    await batches.create(first, 1);
    await t.rejects(batches.create(added(), 1), { code: 'too_many_batches' });
    await batches.create(added({ organizationId: 'org_b' }), 1);
    await batches.fail(first.id, []);
    await batches.create(added(), 1);
  });

  t.test('a finished batch can be deleted, and is erased after the retention period', async (t) => {
    const [one, two] = [await begin(1, { kind: 'messages' }), await begin(1, { kind: 'messages' })];
    t.notOk(await batches.delete('org_a', one), 'it is unfinished');
    for (const line of await claim(2)) await batches.finish(line, success());
    for (const id of [one, two]) await batches.end(id, { outputFileId: null, errorFileId: null });
    t.equal((await batches.results(one, 0, 100)).length, 1, 'results of messages stay');
    t.ok(await batches.delete('org_a', one));
    t.equal(await batches.get('org_a', one), null);
    clock.now += 30 * DAY_MS - 1;
    t.equal(await batches.sweep(), 0);
    t.ok(await get(two));
    clock.now += 1;
    t.equal(await batches.get('org_a', two), null);
    t.equal(await batches.sweep(), 1);
    t.equal(await rows(), 0);
  });

  t.test('erases a message batch whose creation was interrupted', async (t) => {
    await create({ kind: 'messages' });
    t.equal(await batches.claimJob('p1', LEASE_MS), null);
    t.equal(await batches.sweep(), 0);
    clock.now += UNBEGUN_MS;
    t.equal(await batches.sweep(), 1);
  });

  t.test('a result without usage does not change the usage of its batch', async (t) => {
    const id = await begin(1);
    const [line] = await claim(1);
    await batches.finish(line!, failure);
    t.same((await get(id)).usage, NO_USAGE);
  });
}
