// Tests the dashboard's routes for files and batches: access by role and organization, pages, invalid requests.
import Anthropic from '@anthropic-ai/sdk';
import OpenAI, { toFile } from 'openai';
import t from 'tap';
import type { CreatedApiKey } from '../../src/shared/wire/api-keys.js';
import type { BatchListItem, FileListItem } from '../../src/shared/wire/files.js';
import type { ListPage } from '../../src/shared/wire/list.js';
import type { InviteObject } from '../../src/shared/wire/organizations.js';
import { refusal, type DashboardClient } from '../support/dashboard-client.js';
import { openOwned } from '../support/owned-server.js';

t.setTimeout(300_000); // the machine may be busy

const owned = await openOwned();
t.teardown(() => owned.close());
const { owner, server, organization } = owned;
const path = `/organizations/${organization.id}`;
const { secret: apiKey } = await owner.post<CreatedApiKey>(`${path}/api-keys`, {
  name: 'k',
  scopes: ['inference', 'batches', 'files.read', 'files.write'],
});
const client = new OpenAI({ baseURL: `${server.url}/v1`, apiKey, maxRetries: 0 });
const anthropic = new Anthropic({ baseURL: server.url, apiKey, maxRetries: 0 });
const upload = async (name: string): Promise<string> =>
  (await client.files.create({ file: await toFile(Buffer.from(name), name), purpose: 'user_data' })).id;

t.test('files are listed in pages, newest first, and downloaded as attachments', async (t) => {
  const ids = [await upload('a.html'), await upload('b.txt'), await upload('c.txt')].reverse();
  const first = await owner.get<ListPage<FileListItem>>(`${path}/files?limit=2`);
  t.same(
    first.data.map(({ id }) => id),
    ids.slice(0, 2),
  );
  t.match(first.data[0], { filename: 'c.txt', purpose: 'user_data', bytes: 5, media_type: 'text/plain' });
  const second = await owner.get<ListPage<FileListItem>>(`${path}/files?limit=2&after=${first.next!}`);
  t.same([second.data.map(({ id }) => id), second.next], [ids.slice(2), null]);
  const response = await owner.fetch(`${path}/files/${ids[2]!}/content`);
  t.equal(await response.text(), 'a.html');
  t.match(response.headers.get('content-disposition'), /^attachment;/, 'a page of a client is never shown');
  t.equal(response.headers.get('x-content-type-options'), 'nosniff');
  await owner.delete(`${path}/files/${ids[0]!}`);
  t.match(await refusal(owner.delete(`${path}/files/${ids[0]!}`)), { status: 404, code: 'file_not_found' });
  t.match(await refusal(owner.get(`${path}/files?after=x`)), { status: 400, param: 'after' });
});

t.test('batches of both APIs are listed, and cancelled once', async (t) => {
  const { id } = await anthropic.messages.batches.create({
    requests: [
      {
        custom_id: 'a',
        params: { model: 'clarke-1.0', max_tokens: 5_000, messages: [{ role: 'user', content: 'L: x' }] },
      },
    ],
  });
  t.same((await owner.get<ListPage<BatchListItem>>(`${path}/batches`)).data, []);
  const [batch] = (await owner.get<ListPage<BatchListItem>>(`${path}/batches?kind=messages`)).data;
  t.match(batch, { id, kind: 'messages', total: 1, ended_at: null, output_file_id: null });
  t.match(await owner.post<BatchListItem>(`${path}/batches/${id}/cancel`, {}), { id, status: /^cancell/ });
  let status = '';
  while (status !== 'ended') status = (await anthropic.messages.batches.retrieve(id)).processing_status;
  t.match(await refusal(owner.post(`${path}/batches/${id}/cancel`, {})), { code: 'batch_not_cancellable' });
  t.match(await refusal(owner.post(`${path}/batches/batch_x/cancel`, {})), { status: 404, code: 'batch_not_found' });
  t.match(await refusal(owner.get(`${path}/batches?kind=x`)), { status: 400, param: 'kind' });
});

t.test('developers see files and batches, viewers do not', async (t) => {
  const member = async (role: string): Promise<DashboardClient> => {
    const email = `${role}@example.com`;
    const invite = await owner.post<InviteObject>(`${path}/invites`, { email, role });
    const one = owned.client();
    await one.signUp({ email, invite: new URL(invite.url as string).searchParams.get('token') as string });
    return one;
  };
  const id = await upload('d.txt');
  const [viewer, developer] = [await member('viewer'), await member('developer')];
  const denied = { status: 403, code: 'role_not_allowed' };
  t.match(await refusal(viewer.get(`${path}/files`)), denied);
  t.match(await refusal(viewer.get(`${path}/files/${id}/content`)), denied);
  t.match(await refusal(viewer.delete(`${path}/files/${id}`)), denied);
  t.match(await refusal(viewer.get(`${path}/batches`)), denied);
  t.match(await refusal(viewer.post(`${path}/batches/batch_x/cancel`, {})), denied);
  t.equal((await developer.get<ListPage<FileListItem>>(`${path}/files`)).data[0]!.id, id);
  t.ok(await developer.get(`${path}/batches`));
});

t.test('another organization sees nothing', async (t) => {
  const id = await upload('secret.txt');
  const other = await owner.post<{ id: string }>('/organizations', { name: 'Other' });
  const theirs = `/organizations/${other.id}`;
  t.same((await owner.get<ListPage<FileListItem>>(`${theirs}/files`)).data, []);
  t.match(await refusal(owner.get(`${theirs}/files/${id}/content`)), { status: 404 });
  t.match(await refusal(owner.delete(`${theirs}/files/${id}`)), { status: 404 });
  const [batch] = (await owner.get<ListPage<BatchListItem>>(`${path}/batches?kind=messages`)).data;
  t.match(await refusal(owner.post(`${theirs}/batches/${batch!.id}/cancel`, {})), { status: 404 });
});
