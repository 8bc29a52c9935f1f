// Tests that every ReplayStore must pass.
import t, { type Test } from 'tap';
import type { ReplayRow, ReplayStore } from '../../src/generation/replay/replay-store.js';

/** Opens an empty store. `maxBytes`: the store's limit per organization. */
export type OpenReplays = (t: Test, maxBytes: number) => Promise<ReplayStore>;

const now = (): number => Math.floor(Date.now() / 1_000);
export const row = (key: string, more: Partial<ReplayRow> = {}): ReplayRow => ({
  organizationId: 'org_a',
  key,
  model: 'm',
  tokens: Uint8Array.of(1, 2, 3),
  responseId: null,
  expiresAt: now() + 3_600,
  ...more,
});

export function replayStoreTests(open: OpenReplays): void {
  const keys = async (store: ReplayStore, asked: string[], organization = 'org_a'): Promise<string[]> =>
    (await store.find(organization, asked)).map(({ key }) => key).sort();

  t.test('finds what was saved, within the organization', async (t) => {
    const store = await open(t, 1 << 20);
    await store.save([
      row('c1'),
      row('c2', { tokens: Uint8Array.of(0xff, 0x01) }),
      row('c1', { organizationId: 'org_b' }),
    ]);
    t.same(await keys(store, ['c1', 'c2', 'c3']), ['c1', 'c2']);
    t.same(await keys(store, ['c1', 'c2'], 'org_b'), ['c1']);
    const [found] = await store.find('org_a', ['c2']);
    t.same([...(found?.tokens ?? [])], [0xff, 0x01]);
    t.equal(found?.model, 'm');
    t.same(await store.find('org_a', []), []);
  });

  t.test('the last item with a key replaces earlier ones, even in one batch', async (t) => {
    const store = await open(t, 1 << 20);
    await store.save([row('c1', { responseId: 'resp_1' })]);
    await store.save([row('c1', { model: 'n' }), row('c1', { model: 'o' })]);
    t.equal((await store.find('org_a', ['c1']))[0]?.model, 'o');
    await store.eraseResponse('org_a', 'resp_1');
    t.same(await keys(store, ['c1']), ['c1'], 'it no longer belongs to the response');
  });

  t.test('expired items are not found, and a sweep erases them', async (t) => {
    const store = await open(t, 1 << 20);
    await store.save([
      row('c1', { expiresAt: now() - 2 }),
      row('c2'),
      row('c3', { expiresAt: now() - 2, organizationId: 'org_b' }),
    ]);
    t.same(await keys(store, ['c1', 'c2']), ['c2']);
    t.equal(await store.sweep(), 2);
    t.equal(await store.sweep(), 0);
    t.same(await keys(store, ['c2']), ['c2']);
  });

  t.test('items are erased with their response and with their organization', async (t) => {
    const store = await open(t, 1 << 20);
    const responseId = 'resp_1';
    await store.save([
      row('c1', { responseId }),
      row('c2', { responseId: 'resp_2' }),
      row('c3'),
      row('c1', { organizationId: 'org_b', responseId }),
    ]);
    await store.eraseResponse('org_a', responseId);
    t.same(await keys(store, ['c1', 'c2', 'c3']), ['c2', 'c3']);
    await store.eraseOrganization('org_a');
    t.same(await keys(store, ['c1', 'c2', 'c3']), []);
    t.same(await keys(store, ['c1'], 'org_b'), ['c1']);
  });

  t.test('an organization over its limit loses what expires first', async (t) => {
    const store = await open(t, 100_000);
    const tokens = new Uint8Array(30_000);
    for (const nth of [1, 2, 3, 4]) await store.save([row(`c${nth}`, { tokens, expiresAt: now() + 100 * nth })]);
    await store.save([row('c1', { organizationId: 'org_b', tokens })]);
    t.same(await keys(store, ['c1', 'c2', 'c3', 'c4']), ['c2', 'c3', 'c4'], 'without a sweep');
    t.same(await keys(store, ['c1'], 'org_b'), ['c1'], 'another organization keeps its items');
  });
}
