// Tests that every implementation of ConversationStore must pass.
import t from 'tap';
import { newConversationId, newItemId } from '../../src/shared/ids.js';
import {
  MAX_CONVERSATION_ITEMS,
  type ConversationItem,
  type ConversationStore,
} from '../../src/storage/conversation-store.js';
import { itemSize } from '../../src/storage/response-size.js';
import { DAY, message, START } from './records.js';

export interface OpenedConversations {
  conversations: ConversationStore;
  /** The store's clock, in seconds since the Unix epoch. Assign `now` to change the time. */
  clock: { now: number };
  /** Returns the total number of rows in the store's tables. */
  rows(): Promise<number>;
}

const text = (words: string): ConversationItem => message('user', [{ type: 'input_text', text: words }]);
const answer = (words: string): ConversationItem => ({
  ...message('assistant', [{ type: 'output_text', text: words, annotations: [], logprobs: [] }]),
  output: true,
});
const picture = (): ConversationItem =>
  message(
    'user',
    [{ type: 'input_image', image_url: 'data:image/png;base64,cG5n', detail: 'auto' }],
    [Buffer.from('png')],
  );
/** Returns the item in its stored form, in which the image's URL contains no data. */
const stored = ({ item, images }: ConversationItem): unknown =>
  images === undefined
    ? item
    : { ...item, content: [{ type: 'input_image', image_url: 'data:image/png;base64,', detail: 'auto' }] };

export function conversationStoreTests({ conversations, clock, rows }: OpenedConversations): void {
  async function begin(items: readonly ConversationItem[] = [], organizationId = 'org_a'): Promise<string> {
    const id = newConversationId();
    await conversations.create({ id, organizationId, createdAt: START, metadata: { k: 'v' } }, items);
    return id;
  }
  const listed = async (
    id: string,
    newestFirst = false,
    after: string | null = null,
    limit = 100,
  ): Promise<unknown> => {
    const page = await conversations.page('org_a', id, { newestFirst, after, limit, images: false });
    return typeof page === 'string' ? page : [page.items.map((item) => item.id), page.more];
  };
  const sizeOf = (items: readonly ConversationItem[]): number =>
    items.reduce((sum, item) => sum + itemSize(stored(item) as Record<string, unknown>), 0);

  t.afterEach(async () => {
    clock.now = START + 400 * DAY;
    await conversations.sweep();
    if ((await rows()) > 0) throw new Error('expiry left rows behind');
    clock.now = START;
  });

  t.test('conversations are listed newest first, in pages, without expired ones', async (t) => {
    const idsOf = async (limit: number, before: string | null = null): Promise<string[]> =>
      (await conversations.list('org_a', limit, before)).map(({ id }) => id);
    t.same(await idsOf(9), []);
    const ids: string[] = [];
    for (let at = 0; at < 4; at++) {
      ids.unshift(await begin([text('a')]));
      await new Promise((done) => setTimeout(done, 2)); // IDs sort by time
    }
    await begin([], 'org_b');
    t.same(await idsOf(9), ids);
    t.match((await conversations.list('org_a', 1, null))[0], await conversations.head('org_a', ids[0]!));
    t.same(await idsOf(2), ids.slice(0, 2));
    t.same(await idsOf(2, ids[1]), ids.slice(2));
    t.same(await idsOf(2, ids[3]), []);
    await conversations.delete('org_a', ids[1]!);
    t.same(await idsOf(9, ids[1]), ids.slice(2), 'the conversation may have been deleted since');
    clock.now = START + 20 * DAY;
    await conversations.append('org_a', ids[2]!, [text('b')]);
    clock.now = START + 35 * DAY;
    t.same(await idsOf(9), [ids[2]]);
  });

  t.test('an organization has at most 50 conversations', async (t) => {
    const ids: string[] = [];
    for (let at = 0; at < 50; at++) ids.push(await begin());
    await t.rejects(begin(), { status: 422, code: 'too_many_conversations' });
    await begin([], 'org_b');
    await conversations.delete('org_a', ids[0]!);
    const results = await Promise.allSettled([begin(), begin(), begin()]);
    t.equal(results.filter(({ status }) => status === 'fulfilled').length, 1, 'concurrent requests');
    await conversations.eraseOrganization('org_a');
    await begin();
  });

  t.test('items are read back in order, with images and the mark of output', async (t) => {
    const first = [text('one'), picture()];
    const id = await begin(first);
    const more = [text('two'), answer('three')];
    t.equal(await conversations.append('org_a', id, more), true);
    const items = (await conversations.items('org_a', id))!;
    t.same(
      items.map((item) => [item.id, item.item, item.output ?? false]),
      [...first, ...more].map((item) => [item.id, stored(item), item.output ?? false]),
    );
    t.equal(Buffer.from(items[1]!.images![0]!).toString(), 'png');
    t.same(await conversations.head('org_a', id), {
      id,
      organizationId: 'org_a',
      createdAt: START,
      metadata: { k: 'v' },
      count: 4,
      size: sizeOf([...first, ...more]),
    });
    t.equal(Buffer.from((await conversations.item('org_a', id, first[1]!.id))!.images![0]!).toString(), 'png');
  });

  t.test('pages list each ID once, in both directions', async (t) => {
    const all = Array.from({ length: 5 }, (_, at) => text(`text ${at}`));
    const ids = all.map((item) => item.id);
    const id = await begin(all);
    await conversations.append('org_a', id, [all[1]!]);
    t.same(await listed(id), [ids, false]);
    t.same(await listed(id, true), [ids.toReversed(), false]);
    t.same(await listed(id, false, ids[1], 2), [ids.slice(2, 4), true]);
    t.same(await listed(id, true, ids[3], 3), [ids.slice(0, 3).toReversed(), false]);
    t.equal(await listed(id, false, 'msg_unknown'), 'no item');
    t.equal((await conversations.items('org_a', id))!.length, 6, 'a repeated item stays in the conversation');
  });

  t.test('removing an item removes all items with its ID, and their size', async (t) => {
    const [one, two] = [text('one'), picture()];
    const id = await begin([one, two, one]);
    t.equal(await conversations.removeItem('org_a', id, one.id), true);
    t.same(await listed(id), [[two.id], false]);
    t.equal((await conversations.head('org_a', id))!.size, sizeOf([two]));
    t.equal(await conversations.removeItem('org_a', id, one.id), false);
    t.equal(await conversations.item('org_a', id, one.id), null);
    const later = text('later');
    await conversations.append('org_a', id, [later]);
    t.same(await listed(id), [[two.id, later.id], false], 'new items follow the remaining ones');
  });

  t.test('metadata is replaced', async (t) => {
    const id = await begin();
    t.same((await conversations.setMetadata('org_a', id, { a: 'b' }))!.metadata, { a: 'b' });
    t.same((await conversations.head('org_a', id))!.metadata, { a: 'b' });
  });

  t.test('other organizations and unknown IDs find nothing', async (t) => {
    const one = text('one');
    const id = await begin([one]);
    for (const [organization, name] of [
      ['org_b', id],
      ['org_a', newConversationId()],
      ['org_a', 'x'.repeat(5_000)],
    ] as const) {
      t.equal(await conversations.head(organization, name), null);
      t.equal(await conversations.items(organization, name), null);
      t.equal(await conversations.setMetadata(organization, name, {}), null);
      t.equal(await conversations.append(organization, name, [text('x')]), false);
      t.equal(await conversations.item(organization, name, one.id), null);
      t.equal(await conversations.removeItem(organization, name, one.id), false);
      t.equal(await conversations.delete(organization, name), false);
      t.equal(
        await conversations.page(organization, name, { newestFirst: false, after: null, limit: 1, images: false }),
        'no conversation',
      );
    }
    t.equal((await conversations.items('org_a', id))!.length, 1);
  });

  t.test('deleting a conversation or an organization erases all rows', async (t) => {
    const id = await begin([text('one'), picture()]);
    t.equal(await conversations.delete('org_a', id), true);
    t.equal(await conversations.delete('org_a', id), false);
    t.equal(await rows(), 0);
    const mine = await begin([picture()]);
    const theirs = await begin([picture()], 'org_b');
    await conversations.eraseOrganization('org_b');
    t.equal(await conversations.head('org_b', theirs), null);
    t.not(await conversations.head('org_a', mine), null);
  });

  t.test('a conversation expires 30 days after the last item was added', async (t) => {
    const id = await begin([text('one')]);
    clock.now = START + 20 * DAY;
    await conversations.append('org_a', id, [text('two')]);
    clock.now = START + 49 * DAY;
    t.equal(await conversations.sweep(), 0);
    t.not(await conversations.head('org_a', id), null);
    clock.now = START + 50 * DAY;
    t.equal(await conversations.head('org_a', id), null, 'it cannot be read even before the sweep');
    t.equal(await conversations.append('org_a', id, [text('three')]), false);
    t.equal(await conversations.sweep(), 1);
    t.equal(await rows(), 0);
  });

  t.test('a conversation that would become too large is not changed', async (t) => {
    const id = await begin([text('one')]);
    const many = new Array<ConversationItem>(MAX_CONVERSATION_ITEMS).fill(text('x'));
    await t.rejects(conversations.append('org_a', id, many), { code: 'conversation_too_large', status: 422 });
    t.equal((await conversations.items('org_a', id))!.length, 1);
    const large = text('x'.repeat(33 * 1024 ** 2));
    await t.rejects(conversations.append('org_a', id, [large, large]), { code: 'conversation_too_large' });
    await t.rejects(begin([large, large]), { code: 'conversation_too_large' });
    t.equal((await conversations.items('org_a', id))!.length, 1);
  });

  t.test('output that was generated is added even if the conversation becomes too large', async (t) => {
    const id = await begin([text('x'.repeat(40 * 1024 ** 2))]);
    t.equal(await conversations.append('org_a', id, [answer('y'.repeat(40 * 1024 ** 2))]), true);
    await t.rejects(conversations.append('org_a', id, [text('z')]), { code: 'conversation_too_large' });
  });

  t.test('a summary is left out if items were added that it does not cover', async (t) => {
    const summary = (): ConversationItem => {
      const id = newItemId('cmp');
      return { id, item: { id, type: 'compaction', encrypted_content: 'x' }, output: true };
    };
    const id = await begin([text('one')]);
    const types = async (): Promise<unknown[]> =>
      (await conversations.items('org_a', id))!.map(({ item }) => item['type']);
    await conversations.append('org_a', id, [text('two'), summary()], { read: 1 });
    t.same(await types(), ['message', 'message', 'compaction']);
    await conversations.append('org_a', id, [text('three'), summary(), answer('four')], { read: 1 });
    t.same(await types(), ['message', 'message', 'compaction', 'message', 'message']);
  });

  t.test('a repeated addition changes nothing', async (t) => {
    const id = await begin();
    const turn = [text('one'), answer('two')];
    const options = { unless: turn[1]!.id };
    t.equal(await conversations.append('org_a', id, turn, options), true);
    t.equal(await conversations.append('org_a', id, turn, options), true);
    t.equal((await conversations.items('org_a', id))!.length, 2);
  });

  t.test('concurrent additions are all kept, each in one piece', async (t) => {
    const id = await begin();
    const turns = Array.from({ length: 20 }, (_, at) => [text(`question ${at}`), answer(`answer ${at}`)]);
    await Promise.all(turns.map((turn) => conversations.append('org_a', id, turn)));
    const ids = (await conversations.items('org_a', id))!.map((item) => item.id);
    t.equal(ids.length, 40);
    for (const [question, reply] of turns) t.equal(ids.indexOf(reply!.id), ids.indexOf(question!.id) + 1);
  });
}
