// Tests the storage layout of response items: their sizes, page boundaries and lookup keys.
import t from 'tap';
import { itemKey, itemRows, outputRow, pages, sizeOf, type ItemRow } from '../../src/storage/response-parts.js';
import { itemSize } from '../../src/storage/response-size.js';
import type { ResponseRecord, StoredItem } from '../../src/storage/response-store.js';

const row = (characters: number, id = 'i'): ItemRow => ({
  id,
  item: { text: 'x'.repeat(characters - 128) },
  images: 0,
});

t.test('the size of an item is its text length plus a constant for the item, each part and each value', (t) => {
  t.equal(itemSize({}), 128);
  t.equal(itemSize({ type: 'message', role: 'user' }), 128 + 11);
  t.equal(itemSize({ content: [{ text: 'abc' }, 'de', 7] }), 128 + (128 + 8 + 3) + (128 + 2) + 128);
  t.equal(itemSize({ content: [] }), 128);
  t.equal(itemSize({ n: 5, none: null, yes: true }), 128);
  t.equal(itemSize({ more: { a: 'xy', b: ['z', { c: '' }] } }), 128 + 8 + 2 + 8 + 1 + 8);
  t.equal(sizeOf([row(200), row(300)]), 500);
  t.equal(sizeOf([]), 0);
  t.end();
});

t.test('a page has at most 32 items or 8,192 characters; a larger item gets its own page', (t) => {
  const firsts = (rows: readonly ItemRow[]): [number, number][] =>
    pages(rows).map(({ first, rows: own }) => [first, own.length]);
  t.same(firsts([]), [[0, 0]], 'no items give one empty page');
  t.same(firsts([row(200)]), [[0, 1]]);
  t.same(firsts(Array.from({ length: 32 }, () => row(200))), [[0, 32]]);
  t.same(firsts(Array.from({ length: 33 }, () => row(200))), [
    [0, 32],
    [32, 1],
  ]);
  t.same(firsts(Array.from({ length: 65 }, () => row(200))), [
    [0, 32],
    [32, 32],
    [64, 1],
  ]);
  t.same(firsts([row(8_000), row(192), row(128)]), [
    [0, 2],
    [2, 1],
  ]);
  t.same(firsts([row(8_000), row(193)]), [
    [0, 1],
    [1, 1],
  ]);
  t.same(firsts([row(9_000), row(9_000), row(200), row(200)]), [
    [0, 1],
    [1, 1],
    [2, 2],
  ]);
  t.same(firsts([row(200), row(9_000), row(200)]), [
    [0, 1],
    [1, 1],
    [2, 1],
  ]);
  t.same(
    firsts([row(4_096), row(4_096), row(4_096), row(4_097)]),
    [
      [0, 2],
      [2, 1],
      [3, 1],
    ],
    'each page is counted separately',
  );
  t.end();
});

t.test('ordinary item ids are used as keys; unusual or long ones are hashed', (t) => {
  for (const plain of ['a', 'msg_0-1.2:3', 'x'.repeat(128)]) t.equal(itemKey(plain), plain);
  const others = ['', 'x'.repeat(129), 'a b', 'ü', '#a', 'a\n'];
  for (const other of others) t.match(itemKey(other), /^#[0-9a-f]{64}$/, JSON.stringify(other));
  t.equal(new Set(others.map(itemKey)).size, others.length);
  t.end();
});

t.test('image bytes of an item are stored separately and everything else unchanged', (t) => {
  const picture = { type: 'input_image', image_url: 'data:image/png;base64,AAAA' };
  const item = {
    type: 'message',
    content: [
      picture,
      { type: 'input_text', text: 'data:,x' },
      { image_url: 'https://example.com/a,b' },
      { image_url: 5 },
      { image_url: 'data:nothing' },
      null,
      'text',
    ],
    output: 'data:image/png;base64,AAAA',
  };
  const stored: StoredItem = { id: 'i', item, images: [new Uint8Array(3)] };
  const [kept] = itemRows([stored]) as [ItemRow];
  t.same(kept, {
    id: 'i',
    images: 1,
    item: {
      type: 'message',
      content: [
        { type: 'input_image', image_url: 'data:image/png;base64,' },
        { type: 'input_text', text: 'data:,x' },
        { image_url: 'https://example.com/a,b' },
        { image_url: 5 },
        { image_url: 'data:nothing' },
        null,
        'text',
      ],
      output: 'data:image/png;base64,AAAA',
    },
  });
  t.equal(picture.image_url, 'data:image/png;base64,AAAA', 'the given item is not modified');
  t.same(itemRows([{ ...stored, item: { output: [picture] } }])[0]?.item, {
    output: [{ type: 'input_image', image_url: 'data:image/png;base64,' }],
  });
  t.equal(itemRows([{ id: 'i', item }])[0]?.item, item, 'an item without images is stored as the same object');
  t.same(
    itemRows([
      { id: 'i', item: {}, repeats: true },
      { id: 'j', item: {}, repeats: false },
    ]),
    [
      { id: 'i', item: {}, images: 0, repeats: true },
      { id: 'j', item: {}, images: 0 },
    ],
  );
  t.end();
});

t.test('the output shown to clients is stored only if it differs from the items', (t) => {
  const items = [{ a: 1 }, { b: 2 }];
  const of = (output: unknown): unknown[] | null =>
    outputRow({
      output: items.map((item, at) => ({ id: `i${at}`, item })),
      resource: { output },
    } as unknown as ResponseRecord).shown;
  t.equal(of([...items]), null);
  t.same(of([items[0]]), [{ a: 1 }], 'output with fewer items is stored');
  t.same(of([...items, { c: 3 }]), [...items, { c: 3 }], 'output with more items is stored');
  t.same(of([items[1], items[0]]), [items[1], items[0]], 'output in another order is stored');
  t.same(of([{ a: 1 }, items[1]]), [{ a: 1 }, items[1]], 'equal but different objects are stored');
  t.same(of('none'), []);
  t.end();
});
