// Tests page modules without a browser: the command palette's search, logarithmic scales, and the playground's history.

import { test } from 'tap';
import { fromSlider, STEPS, ticksOf, toSlider } from '../../src/dashboard/web/src/operator/log-scale.js';
import { findItems, isRequestId } from '../../src/dashboard/web/src/palette/find.js';
import type { PaletteItem } from '../../src/dashboard/web/src/palette/find.js';
import { clearHistory, forget, historyOf, remember, titleOf } from '../../src/dashboard/web/src/playground/history.js';
import type { HistoryEntry, HistoryStorage } from '../../src/dashboard/web/src/playground/history.js';

test('the command palette ranks entries by how well they match', (t) => {
  const item = (id: string, group: string, more: Partial<PaletteItem> = {}): PaletteItem => ({
    id,
    group,
    label: id,
    run: () => undefined,
    ...more,
  });
  const items = [
    item('Overview', 'Pages', { isFirst: true, words: 'home' }),
    item('API keys', 'Pages', { isFirst: true }),
    item('key.of+monkeys', 'Keys', { hint: 'sk-1234' }),
    ...Array.from({ length: 20 }, (_, n) => item(`model-${n}`, 'Models')),
  ];
  const found = (text: string): string[] => findItems(items, text).map(({ id }) => id);
  t.same(found(' '), ['Overview', 'API keys'], 'without text, the first entries are listed');
  t.same(found('key'), ['key.of+monkeys', 'API keys'], 'the group with the best match comes first');
  t.same(found('1234 of'), ['key.of+monkeys'], 'every word must match the label, the hint or the other words');
  t.same(found('HOME'), ['Overview']);
  t.same(found('f+m'), ['key.of+monkeys'], 'characters have no special meaning');
  t.same(found('key home'), []);
  t.equal(found('model').length, 8, 'a group shows only its best matches');
  t.same(['req_0123456789ab', 'resp-0123456789', 'short_1', 'two words_12345678'].map(isRequestId), [
    true,
    true,
    false,
    false,
  ]);
  t.end();
});

test('a logarithmic scale covers its range and labels powers of ten', (t) => {
  for (const [min, max] of [
    [1, 1_024],
    [0, 60_000],
    [1, 1_000_000_000],
    [7, 7],
  ] as const) {
    t.equal(fromSlider(0, min, max), min);
    t.equal(fromSlider(STEPS, min, max), max);
    t.equal(toSlider(max * 10, min, max), max === min ? 0 : STEPS, 'a value above the range is at the end');
    t.equal(toSlider(-5, min, max), 0, 'a value below the range is at the start');
    let last: number = min;
    for (let at = 0; at <= STEPS; at++) {
      const value = fromSlider(at, min, max);
      t.ok(value >= last && value <= max, `${min} to ${max}: position ${at} does not step back`);
      last = value;
    }
  }
  t.same(
    ticksOf(1, 1_024).map(({ value }) => value),
    [1, 10, 100, 1_024],
  );
  t.same(ticksOf(0, 60_000)[0], { value: 0, at: 0 });
  t.end();
});

test('the history keeps the newest conversations of one user within its limits', (t) => {
  const kept = new Map<string, string>();
  const storage: HistoryStorage = {
    getItem: (name) => kept.get(name) ?? null,
    setItem: (name, value) => void kept.set(name, value),
    removeItem: (name) => void kept.delete(name),
    key: (at) => [...kept.keys()][at] ?? null,
    get length() {
      return kept.size;
    },
  };
  const entry = (id: string, text = 'Hello'): HistoryEntry => ({
    id,
    title: id,
    at: '2026-11-30T00:00:00Z',
    content: { settings: {}, columns: [{ model: 'm', turns: [{ kind: 'user', text }] }] },
  });
  const ids = (user = 'ana'): string[] => historyOf(storage, user, 'org').map(({ id }) => id);
  for (let n = 0; n < 35; n++) remember(storage, 'ana', 'org', entry(String(n)));
  t.equal(ids().length, 30);
  t.equal(ids()[0], '34');
  remember(storage, 'ana', 'org', entry('20'));
  t.same([ids()[0], ids().length], ['20', 30], 'an entry that is continued moves to the front');
  forget(storage, 'ana', 'org', '20');
  t.notOk(ids().includes('20'));
  remember(storage, 'ana', 'org', entry('large', 'x'.repeat(1_400_000)));
  remember(storage, 'ana', 'org', entry('larger', 'x'.repeat(1_400_000)));
  t.same(ids(), ['larger'], 'the oldest entries make room');
  t.same(ids('bob'), [], 'another user does not see them');
  remember(storage, 'bob', 'org', entry('own'));
  t.same(ids(), [], 'and replaces them');
  kept.set('monolith.playground', '{}');
  clearHistory(storage);
  t.same([...kept.keys()], ['monolith.playground'], 'signing out deletes the history alone');
  t.equal(titleOf(entry('a', `  ${'word '.repeat(20)}\nsecond line`).content), `${'word '.repeat(12).trim()} …`);
  t.equal(titleOf({ settings: {}, columns: [{ model: 'm', turns: [] }] }), '');
  t.end();
});
