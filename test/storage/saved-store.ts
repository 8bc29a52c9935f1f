// Tests that every implementation of SavedStore must pass.
import t, { type Test } from 'tap';
import { MAX_SAVED } from '../../src/dashboard/saved/saved-store.js';
import type { SavedRow, SavedStore } from '../../src/dashboard/saved/saved-store.js';

const row = (id: string, more: Partial<SavedRow> = {}): SavedRow => ({
  id,
  organizationId: 'org_1',
  userId: 'user_1',
  kind: 'preset',
  sealedName: 'n',
  shared: true,
  createdAt: 1,
  expiresAt: null,
  ...more,
});

/** `open` returns a new, empty store that uses the given clock and is removed after the test. */
export function savedStoreTests(open: (t: Test, now: () => number) => Promise<SavedStore>): void {
  t.test('SavedStore isolates organizations, enforces its limits and hides expired entries', async (t) => {
    let now = 1_000;
    const saved = await open(t, () => now);
    const ids = async (organizationId: string): Promise<string[]> =>
      (await saved.list(organizationId)).map(({ id }) => id);
    await saved.add(row('b', { createdAt: 2, shared: false }), 'content of b');
    await saved.add(row('a', { createdAt: 1, userId: 'user_2', expiresAt: 2_000 }), 'content of a');
    await saved.add(row('c', { organizationId: 'org_12', userId: 'user_12' }), 'content of c');
    t.same(await ids('org_1'), ['a', 'b'], 'entries are listed oldest first');
    t.same(await saved.get('org_1', 'b'), {
      row: row('b', { createdAt: 2, shared: false }),
      sealedContent: 'content of b',
    });
    t.equal(await saved.get('org_12', 'b'), null, "another organization's entry is not found");
    t.same(
      await saved.change('org_1', 'b', { shared: true, sealedContent: 'changed' }),
      row('b', { createdAt: 2, shared: true }),
    );
    t.match(await saved.get('org_1', 'b'), { sealedContent: 'changed', row: { sealedName: 'n', expiresAt: null } });
    t.match(await saved.change('org_1', 'a', { expiresAt: 3_000 }), { expiresAt: 3_000 });
    t.match(await saved.change('org_1', 'b', { expiresAt: 4_000 }), { expiresAt: 4_000 });
    t.match(await saved.change('org_1', 'b', { expiresAt: null }), { expiresAt: null });
    now = 3_000;
    t.same(
      [await ids('org_1'), await saved.get('org_1', 'a'), await saved.change('org_1', 'a', { shared: false })],
      [['b'], null, null],
      'an expired entry is not found',
    );
    await saved.eraseOrganization('org_1');
    t.same(
      [await ids('org_1'), await ids('org_12')],
      [[], ['c']],
      'an organization whose id has the same prefix keeps its entries',
    );
    await saved.add(row('d'), 'x');
    await saved.eraseUser('user_1');
    t.same([await ids('org_1'), await ids('org_12')], [[], ['c']]);
    await saved.sweep(async (id) => id !== 'user_12');
    t.same(await ids('org_12'), [], 'entries without an owner are swept');
    await Promise.all(Array.from({ length: MAX_SAVED.ofUser }, (_, at) => saved.add(row(`m${at}`), 'x')));
    await t.rejects(saved.add(row('more'), 'x'), { code: 'too_many_entries' });
    await saved.remove('org_1', 'm0');
    await saved.remove('org_1', 'm0');
    const both = await Promise.allSettled([saved.add(row('one'), 'x'), saved.add(row('two'), 'x')]);
    t.same(
      both.map(({ status }) => status).sort(),
      ['fulfilled', 'rejected'],
      'if two entries are added concurrently and there is room for one, only one succeeds',
    );
  });
}
