// Tests that every implementation of ResponseStore must pass. Saved responses and their chains can be read only by
// their own organization, until they are deleted or expire, and erasing leaves nothing behind.
import { setTimeout as sleep } from 'node:timers/promises';
import { MessageChannel } from 'node:worker_threads';
import t from 'tap';
import { newResponseId } from '../../src/shared/ids.js';
import { unfinishedResponses } from '../../src/protocol/responses/unfinished.js';
import { RemoteRun } from '../../src/protocol/responses/remote-run.js';
import { itemSize } from '../../src/storage/response-size.js';
import type { ChainedResponse, ResponsePage, ResponseStore, StoredItem } from '../../src/storage/response-store.js';
import { LocalBus } from '../../src/shared/bus.js';
import { HubBus, PortBus } from '../../src/server/workers/hub-bus.js';
import type { FinishedUsage } from '../../src/shared/usage-sink.js';
import { DAY, EMPTY, message, record, START } from './records.js';
import type { OpenedResponses } from './records.js';
import { cpuTime } from '../support/cpu-time.js';

export async function allOf<T>(some: AsyncIterable<T>): Promise<T[]> {
  const all: T[] = [];
  for await (const one of some) all.push(one);
  return all;
}

/**
 * `begin` returns a new, empty store with a clock that the tests control. `chainLength`: length of the longest chain.
 */
export async function responseStoreTests(begin: () => Promise<OpenedResponses>, chainLength: number): Promise<void> {
  const open = await begin();
  t.teardown(() => open.close());
  /** Reads a chain and releases it immediately. */
  async function chainOf(
    responses: ResponseStore,
    organizationId: string,
    id: string,
  ): Promise<readonly ChainedResponse[] | null> {
    const held = await responses.chain(organizationId, id);
    held?.release();
    return held?.responses ?? null;
  }
  const inputOf = async (responses: ResponseStore, id: string): Promise<readonly StoredItem[]> =>
    (await chainOf(responses, 'org_a', id))!.at(-1)!.input;
  const itemOf = async (responses: ResponseStore, organizationId: string, id: string): Promise<StoredItem | null> =>
    (await responses.items(organizationId, [id], Infinity)).get(id) ?? null;
  async function listedOf(
    responses: ResponseStore,
    organizationId: string,
    id: string,
    newestFirst: boolean,
    after: string | null,
  ): Promise<string[] | string> {
    const page = await responses.inputItems(organizationId, id, { newestFirst, after, limit: 1_000, images: false });
    return typeof page === 'string' ? page : page.items.map((item) => item.id);
  }
  const ids = (records: readonly { id: string }[] | null): string[] | null => records?.map(({ id }) => id) ?? null;

  t.afterEach(async () => {
    open.clock.now = START + 400 * DAY;
    await open.responses.sweep();
    const left = Object.entries(await open.rows()).filter(([, rows]) => rows > 0);
    if (left.length > 0) throw new Error(`expiry left rows behind: ${left.join(' ')}`);
    open.clock.now = START;
  });

  t.test('a saved response is returned only to its organization, and unknown ids return null', async (t) => {
    const { responses } = open;
    const saved = record();
    await responses.save(saved);
    const read = (await responses.get('org_a', saved.id))!;
    const { input, output, ...head } = saved;
    t.same(read, head);
    const { resource, ...content } = head;
    const plain = (items: readonly StoredItem[]) => items.map(({ id, item }) => ({ id, item }));
    t.same(await responses.head('org_a', saved.id), content);
    t.same(await chainOf(responses, 'org_a', saved.id), [{ ...content, input: plain(input), output: plain(output) }]);
    t.same(read.resource, resource, 'output is stored once and returned as items and in the resource');
    t.same((await itemOf(responses, 'org_a', saved.output[0]!.id))?.item, saved.output[0]!.item);
    for (const other of ['org_b', '']) {
      t.equal(await responses.get(other, saved.id), null);
      t.equal(await chainOf(responses, other, saved.id), null);
      t.equal(await itemOf(responses, other, saved.output[0]!.id), null);
      t.equal(await responses.delete(other, saved.id), false);
    }
    for (const id of ['', 'resp_', newResponseId(), `${saved.id}0`, 'x'.repeat(10_000), '\0']) {
      t.equal(await responses.get('org_a', id), null);
      t.equal(await itemOf(responses, 'org_a', id), null);
      t.equal(await responses.delete('org_a', id), false);
      const page = { newestFirst: false, after: null, limit: 10, images: false };
      t.same(
        [
          await responses.head('org_a', id),
          await responses.chain('org_a', id),
          await responses.inputItems('org_a', id, page),
        ],
        [null, null, 'no response'],
      );
      t.same(
        [await responses.events(id, -1), await responses.lastEvent(id), await responses.list('org_a', 10, id)],
        [null, null, null],
      );
    }
    t.equal((await responses.items('org_a', [saved.output[0]!.id, saved.output[0]!.id, 'msg_none'], Infinity)).size, 1);
    const strange = record({ output: [{ id: '\0 ünusual '.repeat(20), item: { type: 'message' } }] });
    await responses.save(strange);
    t.same((await itemOf(responses, 'org_a', strange.output[0]!.id))?.item, { type: 'message' });
  });

  t.test('the output shown to clients may differ from the stored items', async (t) => {
    const saved = record();
    const resource = { ...saved.resource, output: [{ id: 'x', type: 'reasoning', summary: [] }] };
    await open.responses.save({ ...saved, resource });
    const read = (await open.responses.get('org_a', saved.id))!;
    t.same(read.resource, resource);
    t.same((await chainOf(open.responses, 'org_a', saved.id))![0]!.output[0]!.item, saved.output[0]!.item);
  });

  t.test('a later save of a background response replaces its mutable fields', async (t) => {
    const { responses } = open;
    const queued = record({ background: true, status: 'queued', output: [] });
    await responses.save(queued);
    const done = record({ id: queued.id, background: true, input: [] }, 'done');
    await responses.save(done);
    const read = (await responses.get('org_a', queued.id))!;
    t.equal(read.status, 'completed');
    t.same(read.resource, done.resource);
    t.same(
      (await inputOf(responses, queued.id)).map(({ id }) => id),
      queued.input.map(({ id }) => id),
      'the input is unchanged',
    );
    t.ok(await itemOf(responses, 'org_a', done.output[0]!.id));
    await responses.delete('org_a', queued.id);
    await responses.save(done);
    t.equal(await responses.get('org_a', queued.id), null, 'a deleted response stays deleted');
    t.equal((await open.rows())['response-items'], 0);
  });

  t.test('an item with the same id in several responses is read from the latest response', async (t) => {
    const shared = (text: string) => ({ id: 'msg_1', item: { id: 'msg_1', text } });
    const [older, newer] = [
      record({ input: [shared('old')] }),
      record({ createdAt: START + 1, input: [shared('new')] }),
    ];
    await open.responses.save(newer);
    await open.responses.save(older);
    t.equal((await itemOf(open.responses, 'org_a', 'msg_1'))?.item['text'], 'new');
    await open.responses.delete('org_a', newer.id);
    t.equal((await itemOf(open.responses, 'org_a', 'msg_1'))?.item['text'], 'old');
  });

  t.test('a chain can be read even after its ancestors are deleted', async (t) => {
    const { responses } = open;
    const root = record();
    const middle = record({ previousId: root.id });
    const leaf = record({ previousId: middle.id });
    const twin = record({ previousId: middle.id });
    for (const one of [root, middle, leaf, twin]) await responses.save(one);
    t.same(ids(await chainOf(responses, 'org_a', leaf.id)), [root.id, middle.id, leaf.id]);
    t.equal(await responses.delete('org_a', root.id), true);
    t.equal(await responses.delete('org_a', root.id), false);
    await responses.delete('org_a', middle.id);
    for (const gone of [root, middle]) {
      t.equal(await responses.get('org_a', gone.id), null);
      t.equal(await chainOf(responses, 'org_a', gone.id), null);
      t.equal(
        await itemOf(responses, 'org_a', gone.output[0]!.id),
        null,
        'items of a deleted response cannot be referenced either',
      );
    }
    const chain = (await chainOf(responses, 'org_a', leaf.id))!;
    t.same(ids(chain), [root.id, middle.id, leaf.id]);
    t.same(
      chain[0]!.output.map(({ item }) => item),
      root.output.map(({ item }) => item),
    );
    await responses.delete('org_a', leaf.id);
    t.same(
      ids(await chainOf(responses, 'org_a', twin.id)),
      [root.id, middle.id, twin.id],
      'one descendant is enough to keep the ancestors',
    );
    await responses.delete('org_a', twin.id);
    t.same(await open.rows(), EMPTY, 'deleting the last descendant erases all of them');
  });

  t.test('a deleted response that is held for a continuation is kept until it is released', async (t) => {
    const { responses } = open;
    const root = record();
    await responses.save(root);
    const { responses: context, release } = (await responses.chain('org_a', root.id))!;
    await responses.delete('org_a', root.id);
    t.equal(await responses.get('org_a', root.id), null);
    t.ok(context[0]!.input.length > 0, 'the held chain is readable although the response was deleted');
    const child = record({ previousId: root.id });
    await responses.save(child);
    release();
    release();
    t.same(ids(await chainOf(responses, 'org_a', child.id)), [root.id, child.id]);

    const other = record();
    await responses.save(other);
    const releases = [await responses.chain('org_a', other.id), await responses.chain('org_a', other.id)];
    await responses.delete('org_a', other.id);
    await responses.sweep();
    releases[0]!.release();
    releases[0]!.release();
    t.equal((await open.rows())['responses'], 3, 'the response is kept while the second hold lasts');
    releases[1]!.release();
    await responses.sweep();
    t.equal((await open.rows())['responses'], 2);

    const orphan = record({ previousId: other.id });
    await responses.save(orphan);
    t.ok(await responses.get('org_a', orphan.id));
    t.equal(await chainOf(responses, 'org_a', orphan.id), null, 'an incomplete chain is never returned');
  });

  t.test('a response expires to the second, counted from its creation time', async (t) => {
    const { responses, clock } = open;
    const root = record();
    const leaf = record({ previousId: root.id, createdAt: START + 100 });
    await responses.save(root);
    clock.now = START + 100;
    await responses.save(leaf);
    clock.now = START + 30 * DAY - 1;
    t.ok(await responses.get('org_a', root.id));
    clock.now = START + 30 * DAY;
    t.equal(await responses.get('org_a', root.id), null);
    t.equal(await chainOf(responses, 'org_a', root.id), null);
    t.equal(await itemOf(responses, 'org_a', root.output[0]!.id), null);
    t.equal(await responses.delete('org_a', root.id), false);
    t.same(ids(await chainOf(responses, 'org_a', leaf.id)), [root.id, leaf.id]);
    t.equal(await responses.sweep(), 1);
    t.same(
      ids(await chainOf(responses, 'org_a', leaf.id)),
      [root.id, leaf.id],
      'the expired response is kept for its descendant',
    );
    t.equal(await responses.sweep(), 0);
    clock.now = START + 100 + 30 * DAY;
    t.equal(await responses.get('org_a', leaf.id), null);
    t.equal(await responses.sweep(), 1);
    t.same(await open.rows(), EMPTY);
  });

  t.test('images are stored separately from their items and erased with them', async (t) => {
    const { responses } = open;
    // more bytes than fit in one statement
    const bytes = [new Uint8Array([1, 2, 255]), new Uint8Array(9 * 1024 * 1024).fill(7)];
    const content = [
      { type: 'input_image', image_url: 'data:image/png;base64,AQL/', detail: 'low' },
      { type: 'input_text', text: 'data:,kept' },
      { type: 'input_image', image_url: 'https://images.example.com/a.png' },
    ];
    const small = record({ input: [message('user', content, [bytes[0]!, new Uint8Array([9])])] });
    const large = record({ input: [message('user', content, [bytes[1]!, bytes[0]!])], previousId: small.id });
    for (const saved of [small, large]) {
      await responses.save(saved);
      const read = (await inputOf(responses, saved.id))[0]!;
      t.ok(read.images?.every((image, index) => Buffer.compare(image, saved.input[0]!.images![index]!) === 0));
      t.equal(read.images?.length, 2);
      t.same(
        read.item['content'],
        [{ ...content[0], image_url: 'data:image/png;base64,' }, content[1], content[2]],
        'image bytes are not repeated in the item',
      );
    }
    t.same([...(await chainOf(responses, 'org_a', large.id))![0]!.input[0]!.images![0]!], [1, 2, 255]);
    await responses.delete('org_a', small.id);
    t.equal((await open.rows())['response-images'], 4);
    await responses.delete('org_a', large.id);
    t.equal((await open.rows())['response-images'], 0);
  });

  t.test('a response with 3,000 items can be stored and its items found by id', async (t) => {
    const items = Array.from({ length: 3_000 }, (_, index) => ({
      id: `item_${index}`,
      item: { text: `text ${index}` },
    }));
    const saved = record({ input: items });
    await open.responses.save(saved);
    t.equal(await open.noted(), 0, 'no rows of the write-ahead phase are left');
    t.same((await itemOf(open.responses, 'org_a', 'item_2999'))?.item, { text: 'text 2999' });
    t.same(
      (await inputOf(open.responses, saved.id)).map(({ id }) => id),
      items.map(({ id }) => id),
    );
    const spent = cpuTime();
    for (let n = 0; n < 10; n++) {
      const found = await open.responses.items('org_a', [...items.map(({ id }) => id), 'item_3000'], Infinity);
      if (!items.every(({ id, item }) => found.get(id)?.item['text'] === item.text))
        t.fail('an item was not found by its id');
      if (found.has('item_3000')) t.fail('an unknown id was found');
    }
    const ms = spent();
    t.ok(ms < 3_000, `30,000 lookups took ${ms.toFixed(0)} ms`);
    const size = itemSize(items[0]!.item);
    t.equal(
      (
        await open.responses.items(
          'org_a',
          items.slice(0, 10).map(({ id }) => id),
          3 * size,
        )
      ).size,
      4,
      'reading stops with the item that exceeds the size limit',
    );
  });

  t.test('the input items of a response can be listed starting at any item, in both orders', async (t) => {
    const { responses } = open;
    const texts = (name: string, count: number): StoredItem[] =>
      Array.from({ length: count }, (_, index) => ({
        id: `${name}${index}`,
        item: { text: `${name}${index}`, long: index % 7 === 0 ? ['x'.repeat(20_000)] : [] },
      }));
    const root = record({ input: texts('a', 130), output: texts('b', 3) });
    const middle = record({ input: [], output: texts('c', 1), previousId: root.id });
    const leaf = record({ input: texts('d', 70), output: texts('e', 2), previousId: middle.id });
    for (const one of [root, middle, leaf]) await responses.save(one);
    const oldest = [...root.input, ...root.output, ...middle.output, ...leaf.input].map(({ id }) => id);
    const listed = (newestFirst: boolean, after: string | null) =>
      listedOf(responses, 'org_a', leaf.id, newestFirst, after);
    for (const newestFirst of [false, true]) {
      const all = newestFirst ? oldest.toReversed() : oldest;
      t.same(await listed(newestFirst, null), all);
      // Every seventh item, and the items at the start and the end of each response.
      const starts = [...all.entries()].filter(
        ([index, id]) => index % 7 === 0 || /^[abcd](0|1|2|68|69|128|129)$/.test(id),
      );
      for (const [index, id] of starts)
        t.same(await listed(newestFirst, id), all.slice(index + 1), `${newestFirst} ${id}`);
      t.equal(await listed(newestFirst, 'e0'), 'no item', 'the output of a response is not among its input items');
      t.equal(await listed(newestFirst, ''), 'no item');
    }
    t.equal(await listedOf(responses, 'org_b', leaf.id, true, null), 'no response');
    const page = async (limit: number) =>
      responses.inputItems('org_a', leaf.id, { newestFirst: false, after: null, limit, images: false });
    t.match([await page(204), await page(203)], [{ more: false }, { more: true }]);
    t.same(
      (await chainOf(responses, 'org_a', leaf.id))!.map(({ input }) => input.length),
      [130, 0, 70],
    );
  });

  t.test('a repeated item is listed once, at its first position', async (t) => {
    const { responses } = open;
    const item = (id: string, repeats = false): StoredItem => ({ id, item: { text: id }, repeats });
    const root = record({ input: [item('a0'), item('a1')], output: [item('b0')] });
    const middle = record({
      input: [item('b0', true), item('c0'), item('c0', true)],
      output: [item('d0')],
      previousId: root.id,
    });
    const leaf = record({
      input: [item('a1', true), item('d0', true), item('e0'), item('c0', true)],
      previousId: middle.id,
    });
    for (const one of [root, middle, leaf]) await responses.save(one);
    const all = ['a0', 'a1', 'b0', 'c0', 'd0', 'e0'];
    for (const newestFirst of [false, true]) {
      const expected = newestFirst ? all.toReversed() : all;
      const listed = (after: string | null) => listedOf(responses, 'org_a', leaf.id, newestFirst, after);
      t.same(await listed(null), expected);
      for (const [index, id] of expected.entries())
        t.same(await listed(id), expected.slice(index + 1), `${newestFirst} ${id}`);
    }
    await responses.delete('org_a', root.id);
    t.same(
      (await itemOf(responses, 'org_a', 'b0'))?.item,
      { text: 'b0' },
      'a response that repeated the item still has it after the first response is deleted',
    );
  });

  t.test('responses created within one second are listed in creation order', async (t) => {
    const { responses } = open;
    const made = Array.from({ length: 30 }, (_, at) =>
      record({ createdAt: START + (at >> 4), madeAt: START + (at >> 4) + (at % 16) / 1_000_000 }),
    );
    for (const one of [...made].sort((a, b) => a.id.localeCompare(b.id))) await responses.save(one);
    await responses.save(made[7]!);
    const listed: string[] = [];
    for (let after: string | null = null; ; ) {
      const page: ResponsePage = (await responses.list('org_a', 4, after))!;
      listed.push(...page.data.map(({ id }) => id));
      t.ok(
        page.data.every(
          ({ createdAt, expiresAt }) => Number.isInteger(createdAt) && expiresAt === createdAt + 30 * DAY,
        ),
      );
      if ((after = page.next) === null) break;
    }
    t.same(listed, made.map(({ id }) => id).toReversed());
  });

  t.test('lists have the first words of the newest user message', async (t) => {
    const { responses } = open;
    const item = (role: string, content: unknown): StoredItem => ({ id: `msg_${role}`, item: { role, content } });
    const cases = [
      [[item('user', 'first'), item('assistant', 'no'), item('user', ' newest\n\0 question ')], 'newest question'],
      [[item('user', [{ type: 'input_image' }, { type: 'input_text', text: 'what is this?' }])], 'what is this?'],
      [[item('user', 'x'.repeat(5_000))], `${'x'.repeat(120)}…`],
      [[item('developer', 'rules')], null],
    ] as const;
    for (const [input, preview] of cases) {
      const saved = record({ organizationId: 'org_previews', input });
      await responses.save(saved);
      await responses.save({ ...saved, input: [] });
      t.equal((await responses.list('org_previews', 1, null))!.data[0]!.preview, preview);
      await responses.delete('org_previews', saved.id);
    }
  });

  t.test('metadata keys chosen by clients are returned unchanged', async (t) => {
    const metadata = JSON.parse('{"__proto__":"x","constructor":"y","a":"\\ud800"}') as object;
    const saved = record();
    await open.responses.save({ ...saved, resource: { ...saved.resource, metadata } });
    t.equal(
      JSON.stringify((await open.responses.get('org_a', saved.id))!.resource['metadata']),
      JSON.stringify(metadata),
    );
  });

  t.test("a response is never read or written through another organization's chain", async (t) => {
    const { responses } = open;
    const theirs = record();
    await responses.save(theirs);
    const mine = record({ organizationId: 'org_b', previousId: theirs.id });
    await responses.save(mine);
    t.equal(
      await chainOf(responses, 'org_b', mine.id),
      null,
      'the chain is reported as missing and does not include the other response',
    );
    t.same(
      await listedOf(responses, 'org_b', mine.id, true, null),
      mine.input.map(({ id }) => id),
    );
    t.equal(await listedOf(responses, 'org_b', mine.id, false, theirs.output[0]!.id), 'no item');
    await responses.save(record({ id: theirs.id, organizationId: 'org_b', output: [] }, 'overwritten'));
    t.same((await responses.get('org_a', theirs.id))!.resource, theirs.resource);
    t.equal(await responses.get('org_b', theirs.id), null);
    await responses.delete('org_a', theirs.id);
    await responses.delete('org_b', mine.id);
    t.same(await open.rows(), EMPTY, 'neither response keeps the other');
  });

  t.test('a chain over the size limit is refused before any of it is read', async (t) => {
    const { responses } = open;
    const megabytes = (count: number): StoredItem[] => [
      {
        id: 'big',
        item: { type: 'message', content: [{ type: 'input_text', text: 'x'.repeat(count * 1024 * 1024) }] },
      },
    ];
    const root = record({ input: megabytes(30) });
    const queued = record({
      input: megabytes(30),
      output: [],
      background: true,
      status: 'queued',
      previousId: root.id,
    });
    const child = record({ id: queued.id, input: [], output: megabytes(3), background: true });
    for (const one of [root, queued, child]) await responses.save(one);
    t.equal((await chainOf(responses, 'org_a', child.id))!.length, 2);
    const leaf = record({ previousId: child.id, output: megabytes(1) });
    await responses.save(leaf);
    const spent = cpuTime();
    for (let n = 0; n < 100; n++)
      await t.rejects(responses.chain('org_a', leaf.id), {
        code: 'response_not_usable',
        message: /too long to be read/,
      });
    const ms = spent();
    t.ok(ms < 2_000, `100 refusals took ${ms.toFixed(0)} ms`); // each chain has 64 MiB
    t.match(
      (await listedOf(responses, 'org_a', leaf.id, true, null)).length,
      5,
      'the input items of a chain over the limit can still be listed',
    );
  });

  t.test(
    'event logs of background responses are stored, can be read from any event on, and expire after an hour',
    async (t) => {
      const { responses, clock } = open;
      const running = record({ background: true, status: 'queued', output: [] });
      const event = (sequence: number) => ({ sequence, type: 'response.output_text.delta', data: `{"n":${sequence}}` });
      t.equal(await responses.events(running.id, -1), null);
      await responses.appendEvents(running.id, [event(0)]);
      await responses.save(running);
      t.same(await responses.events(running.id, -1), [], 'events of a response that does not exist are not stored');
      await responses.appendEvents(running.id, [0, 1, 2].map(event));
      await responses.appendEvents(running.id, []);
      await responses.appendEvents(running.id, [3, 4].map(event));
      const sequences = async (after: number, atLeast?: number) =>
        (await responses.events(running.id, after, atLeast))?.map(({ sequence }) => sequence) ?? null;
      t.same((await responses.events(running.id, -1))![1], event(1));
      t.same(await sequences(-1), [0, 1, 2, 3, 4]);
      t.same(await sequences(1), [2, 3, 4]);
      t.same(await sequences(2), [3, 4]);
      t.same(await sequences(4), []);
      t.same(await sequences(-1, 1), [0, 1, 2]);
      t.equal(await responses.events(record().id, -1), null);
      await responses.save(record({ id: running.id, background: true, input: [] }));
      clock.now = START + 3_599;
      t.same(await sequences(3), [4]);
      clock.now = START + 3_600;
      t.equal(await sequences(3), null, 'the event log expires an hour after the end');
      t.ok(await responses.get('org_a', running.id), 'the response itself is kept');
      await responses.sweep();
      t.equal((await open.rows())['response-events'], 0);

      clock.now = START;
      const deleted = record({ background: true, status: 'queued', output: [] });
      await responses.save(deleted);
      await responses.appendEvents(deleted.id, [event(0)]);
      await responses.delete('org_a', deleted.id);
      await responses.appendEvents(deleted.id, [event(1)]);
      t.equal((await open.rows())['response-events'], 0);
      t.equal(await open.noted(), 0);
    },
  );

  t.test('background responses that were running when the process ended are marked as failed', async (t) => {
    const queued = record({ background: true, status: 'queued', output: [] });
    const done = record({ background: true, status: 'queued', output: [] });
    const deleted = record({ background: true, status: 'queued', output: [] });
    for (const one of [queued, done, deleted]) await open.responses.save(one);
    await open.responses.save(record({ id: done.id, background: true }));
    await open.responses.save({ ...deleted, status: 'in_progress' });
    await open.responses.delete('org_a', deleted.id);
    await open.reopen();
    const { responses } = open;
    t.equal((await allOf(responses.failUnfinished(unfinishedResponses))).length, 1);
    t.equal((await allOf(responses.failUnfinished(unfinishedResponses))).length, 0);
    const read = (await responses.get('org_a', queued.id))!;
    t.equal(read.status, 'failed');
    t.match(read.resource, { status: 'failed', error: { code: 'server_error', message: /restarted/ }, output: [] });
    t.equal((await responses.get('org_a', done.id))!.status, 'completed');
    t.same(await responses.events(queued.id, -1), [], 'the event log is kept for an hour');
  });

  t.test('the output of an interrupted response is restored from its event log', async (t) => {
    const started = record({ background: true, status: 'queued', output: [] });
    const ended = record({ background: true, status: 'queued', output: [] });
    const event = (sequence: number, type: string, fields: object = {}) => ({
      sequence,
      type,
      data: JSON.stringify({ type, sequence_number: sequence, ...fields }),
    });
    const beginning = [event(0, 'response.created'), event(1, 'response.queued'), event(2, 'response.in_progress')];
    const reasoning = {
      id: 'rs_1',
      type: 'reasoning',
      status: 'completed',
      summary: [],
      content: [{ type: 'reasoning_text', text: 'hm' }],
    };
    const usage: FinishedUsage = {
      requestId: 'req_1',
      organizationId: 'org_a',
      keyId: 'key_1',
      model: 'tycho-1.0',
      endpoint: '/v1/responses',
      stream: false,
      status: 'failed',
      receivedAt: 1,
      startedAt: 2,
      firstTokenAt: 3,
      endedAt: 4,
      inputTokens: 10,
      cachedTokens: 4,
      outputTokens: 3,
      reasoningTokens: 1,
      images: 0,
      finishReason: null,
      errorCode: 'internal_error',
    };
    for (const one of [started, ended]) {
      await open.responses.save(one);
      await open.responses.appendEvents(one.id, beginning);
    }
    await open.responses.appendEvents(
      started.id,
      [
        event(3, 'response.output_item.added', { item: { ...reasoning, status: 'in_progress' } }),
        event(4, 'response.reasoning.delta', { delta: 'h' }),
        event(5, 'response.output_item.done', { item: reasoning }),
      ],
      { ...usage, outputTokens: 1 },
    );
    await open.responses.save({ ...started, status: 'in_progress' });
    const logprob = { token: 'a', logprob: -1, bytes: [97], top_logprobs: [] };
    await open.responses.appendEvents(
      started.id,
      [
        event(6, 'response.output_item.added', {
          item: { id: 'msg_1', type: 'message', status: 'in_progress', role: 'assistant', content: [] },
        }),
        event(7, 'response.output_text.delta', { delta: 'fo', logprobs: [logprob] }),
        event(8, 'response.output_text.delta', { delta: 'ur', logprobs: [] }),
      ],
      usage,
    );
    await open.responses.save(record({ id: ended.id, background: true }));
    await open.reopen();
    const { responses } = open;
    const failed = await allOf(responses.failUnfinished(unfinishedResponses, (_, id) => id === 'somebody else'));
    t.same(
      failed.map(({ record: { id }, usage: spent }) => [id, spent]),
      [[started.id, usage]],
    );
    const output = [
      reasoning,
      {
        id: 'msg_1',
        type: 'message',
        status: 'incomplete',
        role: 'assistant',
        content: [{ type: 'output_text', text: 'four', annotations: [], logprobs: [logprob] }],
      },
    ];
    const read = (await responses.get('org_a', started.id))!;
    t.match(read.resource, {
      status: 'failed',
      error: { code: 'server_error' },
      usage: {
        input_tokens: 10,
        input_tokens_details: { cached_tokens: 4 },
        output_tokens: 3,
        output_tokens_details: { reasoning_tokens: 1 },
        total_tokens: 13,
      },
    });
    t.same(read.resource['output'], output);
    t.same(
      (await chainOf(responses, 'org_a', started.id))![0]!.output.map(({ item }) => item),
      output,
    );
    t.same((await itemOf(responses, 'org_a', 'msg_1'))?.item, output[1]);
    const log = (await responses.events(started.id, -1))!;
    t.same(
      log.map(({ sequence }) => sequence),
      log.map((_, at) => at),
      'new events continue the sequence numbers of the log',
    );
    t.same(
      log.slice(9).map(({ type }) => type),
      ['error', 'response.failed'],
    );
    t.same((JSON.parse(log.at(-1)!.data) as { response: object }).response, read.resource);
    t.equal(
      (await responses.lastEvent(ended.id))?.type,
      'response.completed',
      'the missing last event of a completed response is added',
    );
    t.same(await allOf(responses.failUnfinished(unfinishedResponses)), [], 'a second call finds nothing to do');
    t.equal((await responses.events(started.id, -1))!.length, 11);
  });

  t.test('a reader in another thread sees the end of an event log', async (t) => {
    const saved = record({ background: true, status: 'queued', output: [] });
    await open.responses.save(saved);
    await open.responses.appendEvents(
      saved.id,
      [0, 1].map((sequence) => ({ sequence, type: 'response.created', data: '{}' })),
    );
    const running = await RemoteRun.open(open.responses, new LocalBus(), 'org_a', saved.id);
    t.equal((await running.after(-1, 10))?.length, 2);
    t.same([await running.after(1, 10), running.ended], [[], false]);
    await allOf(open.responses.failUnfinished(unfinishedResponses));
    t.same(
      [(await running.after(1, 10))?.map(({ sequence, type }) => [sequence, type]), running.ended],
      [
        [
          [2, 'error'],
          [3, 'response.failed'],
        ],
        true,
      ],
    );
    t.same((await running.after(-1, 10))?.length, 4);
    const deleted = await RemoteRun.open(open.responses, new LocalBus(), 'org_a', saved.id);
    await open.responses.delete('org_a', saved.id);
    t.same(
      [await deleted.after(1, 10), deleted.end.map(({ type }) => type)],
      [null, ['error', 'response.failed']],
      'a reader of a deleted response receives the end',
    );
  });

  t.test('failUnfinished reports a failed response even if the next one cannot be stored', async (t) => {
    const { responses } = open;
    const saved = [1, 2].map(() => record({ background: true, status: 'queued', output: [] }));
    for (const one of saved) await responses.save(one);
    const told: string[] = [];
    let looked = 0;
    await t.rejects(
      (async () => {
        for await (const {
          record: { id },
        } of responses.failUnfinished({
          ...unfinishedResponses,
          fail: (...of) => {
            if (++looked === 2) throw new Error('no room');
            return unfinishedResponses.fail(...of);
          },
        }))
          told.push(id);
      })(),
      { message: 'no room' },
    );
    t.same([looked, told.length], [2, 1]);
    t.same(
      (await allOf(responses.failUnfinished(unfinishedResponses))).map(({ record: { id } }) => id),
      saved.map(({ id }) => id).filter((id) => id !== told[0]),
      'the other response fails on the next call',
    );
  });

  t.test('a reader of an event log with a gap receives the complete response as its end', async (t) => {
    const event = (sequence: number, type: string, fields: object = {}) => ({
      sequence,
      type,
      data: JSON.stringify({ type, sequence_number: sequence, ...fields }),
    });
    const begin = async () => {
      const saved = record({ background: true, status: 'queued', output: [] });
      await open.responses.save(saved);
      const item = { id: 'msg_1', type: 'message', status: 'in_progress', role: 'assistant', content: [] };
      await open.responses.appendEvents(saved.id, [
        event(0, 'response.output_item.added', { item }),
        event(1, 'response.output_text.delta', { delta: 'be' }),
      ]);
      await open.responses.appendEvents(saved.id, [event(5, 'response.output_text.delta', { delta: 'hind' })]);
      const running = await RemoteRun.open(open.responses, bus, 'org_a', saved.id);
      leaving.push(running.watch(() => undefined));
      return { saved, running };
    };
    const leaving: (() => void)[] = [];
    const onError = (error: unknown): void => {
      t.fail(String(error));
    };
    const [bus, { port1, port2 }] = [new HubBus({ threads: 1, onError }), new MessageChannel()];
    bus.add(1, port1);
    const elsewhere = new PortBus(1, port2, { threads: 1, onError });
    leaving.push(
      () => bus.close(),
      () => elsewhere.close(),
    );
    t.teardown(() => {
      for (const leave of leaving) leave();
    });
    const sequences = (events: readonly { sequence: number }[] | null) => events?.map(({ sequence }) => sequence);
    const one = await begin();
    t.same(
      [sequences(await one.running.after(-1, 10)), sequences(await one.running.after(1, 10)), one.running.ended],
      [[0, 1], [], false],
      'events after the gap are not sent as if none were missing',
    );
    t.same(
      [sequences(await one.running.after(3, 10)), sequences(await one.running.after(4, 10))],
      [[], [5]],
      'a reader that has already passed the gap receives them',
    );
    await open.responses.save(record({ id: one.saved.id, background: true }));
    await open.responses.appendEvents(one.saved.id, [event(6, 'response.completed')]);
    t.same(
      [sequences(await one.running.after(1, 10)), one.running.ended, sequences(await one.running.after(6, 10))],
      [[6], true, []],
    );
    // Here, the last event could not be logged either.
    const two = await begin();
    await open.responses.save(record({ id: two.saved.id, background: true }));
    t.same(sequences(await two.running.after(1, 10)), [], 'the last event may still arrive');
    elsewhere.publish('response.logged', { id: two.saved.id, ended: true });
    let told = await two.running.after(1, 10);
    for (; told?.length === 0; told = await two.running.after(1, 10)) await sleep(5);
    t.same(
      [told?.map(({ sequence, type }) => [sequence, type]), two.running.ended],
      [[[6, 'response.completed']], true],
    );
    // Here, the end of the log arrives late and in several parts.
    const late = await begin();
    let woken = false;
    leaving.push(
      late.running.watch(() => {
        woken = true;
      }),
    );
    elsewhere.publish('response.logged', { id: late.saved.id, ended: true });
    while (!woken) await sleep(1);
    t.same(
      [sequences(await late.running.after(1, 10)), late.running.ended],
      [[], false],
      'a response that is not stored as finished is unfinished',
    );
    await open.responses.save(record({ id: late.saved.id, background: true }));
    await open.responses.appendEvents(late.saved.id, [event(6, 'response.output_text.done')]);
    t.same(
      [sequences(await late.running.after(5, 10)), sequences(await late.running.after(6, 10)), late.running.ended],
      [[6], [], false],
      'a partial end may be followed by more events',
    );
    woken = false;
    elsewhere.publish('response.logged', { id: late.saved.id, ended: true, end: [event(7, 'response.completed')] });
    while (!woken) await sleep(1);
    await open.responses.delete('org_a', late.saved.id);
    t.same(
      [await late.running.after(6, 10), sequences(late.running.end)],
      [null, [7]],
      'a response deleted meanwhile ends with the reported event',
    );
    // Here, the response was interrupted.
    const three = await begin();
    const failed = (await allOf(open.responses.failUnfinished(unfinishedResponses))).find(
      ({ record: { id } }) => id === three.saved.id,
    )!;
    t.same(
      failed.record.output.map(({ item }) => (item as { content: { text: string }[] }).content[0]?.text),
      ['be'],
      'text after the gap is not joined to the text before it',
    );
    t.same(sequences(await three.running.after(1, 10)), [6, 7]);
  });

  t.test('no event follows the last one for a reader in another thread', async (t) => {
    const saved = record({ background: true, status: 'queued', output: [] });
    await open.responses.save(saved);
    await open.responses.appendEvents(
      saved.id,
      [0, 1].map((sequence) => ({ sequence, type: 'response.created', data: '{}' })),
    );
    await allOf(open.responses.failUnfinished(unfinishedResponses));
    for (const after of [3, 4, 1_000]) {
      const late = await RemoteRun.open(open.responses, new LocalBus(), 'org_a', saved.id);
      t.same([await late.after(after, 10), late.ended], [[], true], `no event follows sequence number ${after}`);
    }
  });

  t.test(`a chain of ${chainLength} responses can be read and erased`, async (t) => {
    const { responses } = open;
    let previousId: string | null = null;
    const all: string[] = [];
    const saves: Promise<void>[] = [];
    for (let depth = 0; depth < chainLength; depth++) {
      const one = record({ previousId });
      saves.push(responses.save(one));
      all.push((previousId = one.id));
    }
    await Promise.all(saves);
    await responses.sweep();
    const spent = cpuTime();
    const chain = (await chainOf(responses, 'org_a', previousId!))!;
    t.same(ids(chain), all);
    t.ok(chain.every(({ input, output }) => input.length === 1 && output.length === 1));
    const ms = spent();
    t.ok(ms < 3_000, `the chain was read in ${ms.toFixed(0)} ms`);
    // By now, the reader has released the chain. Otherwise, the reader would have to erase the responses that are
    // deleted next.
    await responses.sweep();
    const deleted = all.slice(0, -1).map((id) => responses.delete('org_a', id));
    t.equal(await responses.delete('org_a', previousId!), true);
    await Promise.all(deleted);
    t.same(await open.rows(), EMPTY, 'the chain is erased from its end to its root');
  });
}
