// Tests saved presets and conversations: private to their user until shared, then visible to members until revoked or
// expired. They are encrypted in the database file, deleted with the account or organization, and limited in number.

import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import t from 'tap';
import { LmdbSavedStore } from '../../src/storage/lmdb/dashboard/saved-store.js';
import { MAX_SAVED } from '../../src/dashboard/saved/saved-store.js';
import type { SavedRow } from '../../src/dashboard/saved/saved-store.js';
import { databasePath, openStore } from '../../src/storage/lmdb/lmdb-store.js';
import type { ListPage } from '../../src/shared/wire/list.js';
import type { AuditEntry, InviteObject } from '../../src/shared/wire/organizations.js';
import type { SavedContent, SavedItem } from '../../src/shared/wire/playground.js';
import { eventually } from '../e2e/monolith.js';
import { PASSWORD, refusal } from '../support/dashboard-client.js';
import type { DashboardClient } from '../support/dashboard-client.js';
import { openOwned } from '../support/owned-server.js';

t.setTimeout(300_000);

const folder = mkdtempSync(join(tmpdir(), 'monolith-saved-'));
t.teardown(() => rmSync(folder, { recursive: true, force: true }));

const content = (secret: string): SavedContent => ({
  settings: { system: `system ${secret}`, temperature: '0.5' },
  columns: [
    {
      model: 'hal-1.0',
      turns: [
        { kind: 'user', text: `question ${secret}` },
        {
          kind: 'answer',
          model: 'hal-1.0',
          text: `answer ${secret}`,
          reasoning: '',
          finish_reason: 'stop',
          calls: [],
          results: {},
          usage: { prompt: 5, cached: 0, completion: 3, reasoning: 0 },
          first_ms: 10,
          total_ms: 30,
        },
      ],
    },
  ],
});
const names = async (client: DashboardClient, list: string): Promise<string[]> =>
  (await client.get<ListPage<SavedItem>>(list)).data.map(({ name }) => name);

t.test('a saved item is private until it is shared with the organization', async (t) => {
  const { owner, organization, client, close } = await openOwned({ env: { MONOLITH_DATA_DIR: folder } });
  t.teardown(close);
  const LIST = `/organizations/${organization.id}/playground/saved`;
  const join = async (email: string, role: string): Promise<DashboardClient> => {
    const { url } = await owner.post<InviteObject>(`/organizations/${organization.id}/invites`, { email, role });
    const member = client();
    await member.signUp({ email, invite: new URL(url as string).searchParams.get('token') as string });
    return member;
  };
  const grace = await join('grace@example.com', 'developer');
  const viewer = await join('viewer@example.com', 'viewer');
  const stranger = client();
  const { organization: other } = await stranger.signUp({ email: 'eve@example.com' });

  const mine = await owner.post<SavedItem>(LIST, {
    kind: 'preset',
    name: 'Careful marzipan',
    content: content('pistachio'),
  });
  t.match(mine, { kind: 'preset', name: 'Careful marzipan', shared: false, own: true, expires_at: null });
  for (const reader of [grace, viewer, stranger])
    t.match(
      await refusal(reader.get(`${LIST}/${mine.id}`)),
      { status: 404, code: 'resource_not_found' },
      "another user's private item returns 404",
    );
  t.same(await names(grace, LIST), []);
  t.match((await owner.get<SavedItem & { content: SavedContent }>(`${LIST}/${mine.id}`)).content, content('pistachio'));
  t.match(await owner.patch(`${LIST}/${mine.id}`, { name: 'Renamed' }), { name: 'Renamed' });

  const talk = await owner.post<SavedItem>(LIST, {
    kind: 'conversation',
    name: 'Talk',
    content: content('cardamom'),
    shared: true,
  });
  for (const reader of [grace, viewer])
    t.match(await reader.get(`${LIST}/${talk.id}`), { own: false, content: content('cardamom') });
  t.same(await names(grace, LIST), ['Talk']);
  t.match(
    await refusal(stranger.get(`${LIST}/${talk.id}`)),
    { status: 404 },
    'a link to a shared item works only for members',
  );
  t.match(
    await refusal(stranger.get(`/organizations/${other.id}/playground/saved/${talk.id}`)),
    { status: 404 },
    "a shared item cannot be read through another organization's path",
  );
  t.match(await refusal(client().get(`${LIST}/${talk.id}`)), { status: 401 });
  t.match(await refusal(grace.patch(`${LIST}/${talk.id}`, { name: 'Hers' })), {
    status: 403,
    code: 'role_not_allowed',
  });
  t.match(await refusal(grace.delete(`${LIST}/${talk.id}`)), { status: 403 });
  t.match(await refusal(viewer.post(LIST, { kind: 'preset', name: 'x', content: content('x') })), { status: 403 });

  await owner.patch(`${LIST}/${talk.id}`, { shared: false });
  t.match(await refusal(grace.get(`${LIST}/${talk.id}`)), { status: 404 }, 'a revoked item returns 404');
  await owner.patch(`${LIST}/${talk.id}`, { shared: true, expires_at: new Date(Date.now() + 1_500).toISOString() });
  t.equal((await grace.get<SavedItem>(`${LIST}/${talk.id}`)).name, 'Talk');
  t.ok(
    await eventually(async () => (await grace.fetch(`${LIST}/${talk.id}`)).status === 404),
    'an expired item returns 404',
  );
  t.match(
    await refusal(owner.post(LIST, { kind: 'preset', name: 'x', content: content('x'), expires_at: '2020-01-01' })),
    { status: 422, param: 'expires_at' },
  );
  t.match(
    await refusal(
      owner.post(LIST, {
        kind: 'preset',
        name: 'x',
        content: { ...content('x'), settings: { system: 'x'.repeat(400_001) } },
      }),
    ),
    { status: 422 },
  );
  t.same(
    (await owner.get<ListPage<AuditEntry>>(`/organizations/${organization.id}/audit-log`)).data
      .filter(({ target }) => target === talk.id)
      .map(({ action }) => action),
    ['conversation.shared', 'conversation.unshared', 'conversation.shared'],
  );

  const hers = await grace.post<SavedItem>(LIST, {
    kind: 'preset',
    name: 'Of Grace',
    content: content('x'),
    shared: true,
  });
  await owner.delete(`${LIST}/${hers.id}`);
  t.match(
    await refusal(grace.get(`${LIST}/${hers.id}`)),
    { status: 404 },
    'an admin can delete an item shared by another member',
  );

  const last = await grace.post<SavedItem>(LIST, {
    kind: 'preset',
    name: 'Her last',
    content: content('saffron'),
    shared: true,
  });
  t.ok((await owner.get<SavedItem>(`${LIST}/${last.id}`)).shared);
  const bytes = readFileSync(databasePath(folder)).toString('latin1');
  t.ok(bytes.includes(last.id) && bytes.includes(mine.id), 'the rows are in the database file');
  for (const word of ['pistachio', 'cardamom', 'saffron', 'marzipan', 'Her last'])
    t.notOk(bytes.includes(word), `${word} is not in the file in plain text`);
  await grace.post('/account/delete', { password: PASSWORD });
  t.same(await names(owner, LIST), ['Renamed'], "deleting the account deletes the user's items");
});

t.test('saved items are erased with their organization or user, expire, and are limited in number', async (t) => {
  const path = mkdtempSync(join(tmpdir(), 'monolith-saved-store-'));
  const store = await openStore(path);
  t.teardown(async () => {
    await store.close();
    rmSync(path, { recursive: true, force: true });
  });
  const clock = { now: 1_000 };
  const saved = new LmdbSavedStore(store, () => clock.now);
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
  const left = (): number =>
    [...store.table('saved').keys(), ...store.table('saved-contents').keys(), ...store.table('saved-by-user').keys()]
      .length;
  await saved.add(row('a'), 'x');
  await saved.add(row('b', { organizationId: 'org_12', userId: 'user_12' }), 'x');
  await saved.add(row('c', { userId: 'user_2', expiresAt: 2_000 }), 'x');
  await saved.eraseOrganization('org_1');
  t.same(
    (await saved.list('org_12')).map(({ id }) => id),
    ['b'],
    'an organization whose id begins with the deleted id keeps its items',
  );
  t.equal(left(), 3);
  await saved.add(row('d'), 'x');
  await saved.eraseUser('user_1');
  t.equal(left(), 3, 'a user whose id begins with the deleted id keeps the items');
  await saved.add(row('e', { expiresAt: 2_000 }), 'x');
  clock.now = 2_000;
  await saved.sweep(async (id) => id !== 'user_12');
  t.equal(left(), 0, 'sweep() deletes expired items and items of deleted users');
  await Promise.all(Array.from({ length: MAX_SAVED.ofUser }, (_, at) => saved.add(row(`m${at}`), 'x')));
  await t.rejects(saved.add(row('more'), 'x'), { code: 'too_many_entries' });
  await saved.remove('org_1', 'm0');
  await saved.add(row('more'), 'x');
});

t.test("reading saved items and unpaginated lists is charged to the organization's event-loop budget", async (t) => {
  const { owner, organization, client, close } = await openOwned({ env: { MONOLITH_LIMITS_EVENT_LOOP_MS: '1' } });
  t.teardown(close);
  const LIST = `/organizations/${organization.id}/playground/saved`;
  const { id } = await owner.post<SavedItem>(LIST, {
    kind: 'conversation',
    name: 'Long',
    content: content('x'.repeat(100_000)),
  });
  for (const path of [
    `${LIST}/${id}`,
    LIST,
    `/organizations/${organization.id}/members`,
    `/organizations/${organization.id}/invites`,
  ]) {
    let answer = await owner.fetch(path);
    for (let read = 0; read < 1_000 && answer.status === 200; read++) {
      await answer.text();
      answer = await owner.fetch(path);
    }
    t.match(await answer.json(), { error: { code: 'rpm_limit_exceeded' } });
    t.equal(answer.status, 429);
  }
  const other = client();
  const { organization: another } = await other.signUp({ email: 'other@example.com' });
  t.same(
    await names(other, `/organizations/${another.id}/playground/saved`),
    [],
    'another organization is not limited',
  );
});
