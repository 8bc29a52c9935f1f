// Tests which stored pages are imported for a prompt, for each kind of model.
import t from 'tap';
import { planImport, type ImportQuestion } from '../../../src/engine/kv-tier/import-plan.js';
import type { PagePart } from '../../../src/engine/kv-tier/page-record.js';

const plan = (question: Partial<ImportQuestion>): { pages: number; wanted: [number, readonly PagePart[]][] } => {
  const { pages, wanted } = planImport({
    held: [],
    stored: [],
    windowTokens: 0,
    needsSnapshot: false,
    spans: [],
    ...question,
  });
  return { pages, wanted: [...wanted] };
};
const stored = (...pages: string[]): PagePart[][] =>
  pages.map((letters) => [...letters].map((one) => ({ f: 'full', w: 'window', s: 'snapshot' })[one] as PagePart));

t.test('pages after those in the pool are imported', async (t) => {
  t.same(plan({ held: [1], stored: stored('f', 'f', 'f') }), {
    pages: 3,
    wanted: [
      [1, ['full']],
      [2, ['full']],
    ],
  });
  t.same(plan({ held: [1, 1, 1], stored: stored('f', 'f') }), { pages: 3, wanted: [] }, 'the pool has more');
  t.same(plan({}), { pages: 0, wanted: [] });
});

t.test('sliding windows: only the last window is imported, and it must be complete', async (t) => {
  const windowTokens = 32;
  t.same(plan({ windowTokens, stored: stored('fw', 'fw', 'fw', 'fw') }), {
    pages: 4,
    wanted: [
      [0, ['full']],
      [1, ['full']],
      [2, ['full', 'window']],
      [3, ['full', 'window']],
    ],
  });
  t.equal(plan({ windowTokens, stored: stored('fw', 'fw', 'f', 'fw') }).pages, 2, 'page 2 has no window');
  t.same(
    plan({ windowTokens, held: [3, 1, 1], stored: stored('fw', 'fw', 'fw') }),
    {
      pages: 3,
      wanted: [
        [1, ['window']],
        [2, ['window']],
      ],
    },
    'pages in the pool get their window back',
  );
});

t.test('recurrent state: the pages end at a snapshot', async (t) => {
  const needsSnapshot = true;
  t.same(plan({ needsSnapshot, stored: stored('f', 'fs', 'f', 'f') }), {
    pages: 2,
    wanted: [
      [0, ['full']],
      [1, ['full', 'snapshot']],
    ],
  });
  t.same(plan({ needsSnapshot, held: [1, 5], stored: stored('f', 'fs', 'f') }), { pages: 2, wanted: [] });
  t.same(plan({ needsSnapshot, held: [1, 1], stored: stored('f', 'fs') }), { pages: 2, wanted: [[1, ['snapshot']]] });
  t.same(plan({ needsSnapshot, stored: stored('f', 'f') }), { pages: 0, wanted: [] });
});

t.test('pages do not end within an image whose rows attend to each other', async (t) => {
  const span = { first: 20, rows: 20, hash: [1n, 2n] as const, bidirectional: true };
  t.equal(plan({ stored: stored('f', 'f', 'f'), spans: [span] }).pages, 3);
  t.equal(plan({ stored: stored('f', 'f'), spans: [span] }).pages, 1);
  t.equal(plan({ stored: stored('f', 'f'), spans: [{ ...span, bidirectional: false }] }).pages, 2);
});
