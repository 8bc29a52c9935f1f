// Tests that every implementation of CompletionStore must pass.
import t from 'tap';
import { newStoredCompletionId } from '../../src/shared/ids.js';
import {
  MAX_PAGE_SIZE,
  type CompletionQuery,
  type CompletionStore,
  type MessageQuery,
  type NewCompletion,
} from '../../src/storage/completion-store.js';
import { DAY, START } from './records.js';

export interface OpenedCompletions {
  completions: CompletionStore;
  /** The store's clock, in seconds since the Unix epoch. Assign `now` to change the time. */
  clock: { now: number };
  /** Returns the total number of rows in the store's tables. */
  rows(): Promise<number>;
}

let made = 0;
function completion(change: Partial<NewCompletion> = {}): NewCompletion {
  return {
    id: newStoredCompletionId(START * 1_000 + made++),
    organizationId: 'org_a',
    model: 'clarke-1.0',
    createdAt: START,
    metadata: {},
    body: '{"choices":[]}',
    messages: ['{"role":"user","content":"hello"}'],
    ...change,
  };
}

const allMessages: MessageQuery = { newestFirst: false, after: null, limit: 100 };
const everything: CompletionQuery = { model: null, metadata: {}, newestFirst: false, after: null, limit: 100 };

export function completionStoreTests({ completions, clock, rows }: OpenedCompletions): void {
  async function save(change: Partial<NewCompletion> = {}): Promise<string> {
    const made = completion(change);
    await completions.save(made);
    return made.id;
  }
  const listed = async (query: Partial<CompletionQuery> = {}): Promise<unknown> => {
    const { data, more } = await completions.list('org_a', { ...everything, ...query });
    return [data.map(({ id }) => id), more];
  };

  t.afterEach(async () => {
    clock.now = START + 400 * DAY;
    await completions.sweep();
    if ((await rows()) > 0) throw new Error('expiry left rows behind');
    clock.now = START;
  });

  t.test('a completion and its messages are read back', async (t) => {
    const odd = '{"role":"user","content":"\\u0000 \\ud800 🙂"}';
    const made = completion({ metadata: { k: 'v\0' }, messages: [odd, '{"role":"user"}'], body: '{"a":"\\u0000"}' });
    await completions.save(made);
    const { messages, body, ...head } = made;
    const expected = { ...head, messages: 2, size: body.length };
    t.same(await completions.head('org_a', made.id), expected);
    t.same(await completions.get('org_a', made.id), { ...expected, body });
    t.same(await completions.messages('org_a', made.id, allMessages), {
      data: messages.map((message, index) => ({ index, message })),
      more: false,
    });
  });

  t.test('other organizations and unknown IDs find nothing', async (t) => {
    const id = await save();
    for (const [organization, one] of [
      ['org_b', id],
      ['org_a', newStoredCompletionId()],
      ['org_a', 'chatcmpl-\0'],
      ['org_a', 'x'.repeat(5_000)],
    ] as const) {
      t.equal(await completions.head(organization, one), null);
      t.equal(await completions.get(organization, one), null);
      t.equal(await completions.setMetadata(organization, one, {}), null);
      t.equal(await completions.messages(organization, one, allMessages), null);
      t.equal(await completions.delete(organization, one), false);
    }
    t.same(await completions.list('org_b', everything), { data: [], more: false });
    t.same(await listed(), [[id], false]);
  });

  t.test('pages list completions in both directions, by model and by metadata', async (t) => {
    const ids: string[] = [];
    for (let at = 0; at < 6; at++)
      ids.push(await save({ model: at % 2 === 0 ? 'even' : 'odd', metadata: at < 3 ? { k: 'v', n: `${at}` } : {} }));
    t.same(await listed(), [ids, false]);
    t.same(await listed({ newestFirst: true }), [ids.toReversed(), false]);
    t.same(await listed({ after: ids[1]!, limit: 2 }), [ids.slice(2, 4), true]);
    t.same(await listed({ after: ids[4]!, limit: 1 }), [ids.slice(5), false], 'the last page');
    t.same(await listed({ after: ids[3]!, newestFirst: true, limit: 2 }), [[ids[2], ids[1]], true]);
    t.same(await listed({ model: 'odd' }), [[ids[1], ids[3], ids[5]], false]);
    t.same(await listed({ metadata: { k: 'v' } }), [ids.slice(0, 3), false]);
    t.same(await listed({ metadata: { k: 'v', n: '1' }, model: 'odd' }), [[ids[1]], false]);
    t.same(await listed({ metadata: { toString: 'x' } }), [[], false]);
    await completions.delete('org_a', ids[2]!);
    t.same(await listed({ after: ids[2]!, limit: 1 }), [[ids[3]], true], 'after a deleted completion');
  });

  t.test('a filter finds completions beyond the rows that are read together', async (t) => {
    const first = await save({ metadata: { k: 'v' } });
    for (let at = 0; at < 1_100; at++) await save();
    const last = await save({ metadata: { k: 'v' } });
    t.same(await listed({ metadata: { k: 'v' } }), [[first, last], false]);
    t.same(await listed({ metadata: { k: 'v' }, newestFirst: true }), [[last, first], false]);
    t.equal((await completions.list('org_a', { ...everything, limit: 1_100 })).more, true);
    await completions.eraseOrganization('org_a');
  });

  t.test('the size of pages is limited', async (t) => {
    const body = JSON.stringify('x'.repeat(MAX_PAGE_SIZE / 2));
    const ids = [await save({ body }), await save({ body }), await save({ body })];
    t.same(await listed(), [[ids[0]], true]);
    t.same(await listed({ after: ids[1]! }), [[ids[2]], false]);
    const id = await save({ messages: [body, body, body] });
    const indexes = async (after: number | null, newestFirst = false): Promise<unknown> => {
      const page = await completions.messages('org_a', id, { newestFirst, after, limit: 10 });
      return [page?.data.map(({ index }) => index), page?.more];
    };
    t.same(await indexes(null), [[0], true]);
    t.same(await indexes(1), [[2], false]);
    t.same(await indexes(null, true), [[2], true]);
  });

  t.test('messages are paged in both directions', async (t) => {
    const id = await save({ messages: Array.from({ length: 5 }, (_, at) => `"${at}"`) });
    const texts = async (newestFirst: boolean, after: number | null, limit: number): Promise<unknown> => {
      const page = await completions.messages('org_a', id, { newestFirst, after, limit });
      return [page?.data.map(({ message }) => message), page?.more];
    };
    t.same(await texts(false, null, 2), [['"0"', '"1"'], true]);
    t.same(await texts(false, 1, 9), [['"2"', '"3"', '"4"'], false]);
    t.same(await texts(false, 4, 9), [[], false]);
    t.same(await texts(true, null, 2), [['"4"', '"3"'], true]);
    t.same(await texts(true, 3, 9), [['"2"', '"1"', '"0"'], false]);
    t.same(await texts(true, 0, 9), [[], false]);
  });

  t.test('metadata is replaced', async (t) => {
    const id = await save({ metadata: { a: '1' } });
    t.match(await completions.setMetadata('org_a', id, { b: '2' }), { id, body: '{"choices":[]}' });
    t.same((await completions.get('org_a', id))?.metadata, { b: '2' });
    t.same(await listed({ metadata: { b: '2' } }), [[id], false]);
  });

  t.test('deleting and erasing leave no rows behind', async (t) => {
    const id = await save({ messages: Array.from({ length: 1_200 }, () => '{}') });
    t.equal(await completions.delete('org_a', id), true);
    t.equal(await completions.delete('org_a', id), false);
    t.equal(await rows(), 0);
    await save();
    await save({ organizationId: 'org_b' });
    await completions.eraseOrganization('org_a');
    t.same(await listed(), [[], false]);
    t.equal((await completions.list('org_b', everything)).data.length, 1);
  });

  t.test('a completion expires exactly at the end of its retention', async (t) => {
    const id = await save();
    clock.now = START + 30 * DAY - 1;
    t.equal(await completions.sweep(), 0);
    t.ok(await completions.head('org_a', id));
    clock.now = START + 30 * DAY;
    t.equal(await completions.head('org_a', id), null);
    t.same(await listed(), [[], false]);
    t.equal(await completions.delete('org_a', id), false);
    t.equal(await completions.sweep(), 1);
  });
}
