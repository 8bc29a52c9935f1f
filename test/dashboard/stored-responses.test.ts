// …/responses: what is stored, without its content; whose it is decides who sees it.

import t from 'tap';
import OpenAI from 'openai';
import type { CreatedApiKey, InviteObject, ListPage, StoredResponseObject } from '../../src/wire/dashboard.js';
import { refusal } from '../support/dashboard-client.js';
import { openOwned } from '../support/owned-server.js';
import { eventually } from '../e2e/monolith.js';

t.setTimeout(300_000);     // for a busy machine

const { server, owner, organization, client: clientOf, close } = await openOwned();
t.teardown(close);
const LIST = `/organizations/${organization.id}/responses`;
const { secret } = await owner.post<CreatedApiKey>(`/organizations/${organization.id}/api-keys`, { name: 'k' });
const openai = new OpenAI({ baseURL: `${server.url}/v1`, apiKey: secret, maxRetries: 0 });
const model = 'tycho-1.0';

t.test('youngest first, a page at a time, nothing of the content', async (t) => {
  const made: string[] = [];
  for (let i = 0; i < 5; i++) made.push((await openai.responses.create({ model, input: `A: secret words ${i}` })).id);
  await openai.responses.create({ model, input: 'A: x', store: false });
  const seen: StoredResponseObject[] = [];
  for (let after = ''; ;) {
    const page = await owner.get<ListPage<StoredResponseObject>>(`${LIST}?limit=2${after}`);
    t.ok(page.data.length <= 2);
    seen.push(...page.data);
    t.equal(page.has_more, page.next !== null);
    if (page.next === null) break;
    after = `&after=${encodeURIComponent(page.next)}`;
  }
  t.same(seen.map(({ id }) => id), made.toReversed());
  t.same([...seen].sort((a, b) => b.created_at.localeCompare(a.created_at)).map(({ created_at: at }) => at), seen.map(({ created_at: at }) => at));
  const [first] = seen;
  t.match(first, { model, status: 'completed', background: false });
  t.equal(Date.parse(first?.expires_at ?? '') - Date.parse(first?.created_at ?? ''), 30 * 86_400_000);
  t.notMatch(JSON.stringify(seen), /secret words|Paris/);
  t.match(await refusal(owner.get(`${LIST}?after=nothing`)), { status: 400, code: 'invalid_query_parameter', param: 'after' });
});

t.test('deleted: unknown to the API at once; one that runs is ended first; a page goes on behind a deleted one', async (t) => {
  const page = await owner.get<ListPage<StoredResponseObject>>(`${LIST}?limit=1`);
  const id = page.data[0]?.id as string;
  t.match(await owner.delete(`${LIST}/${id}`), { id, deleted: true });
  t.equal((await owner.get<ListPage<StoredResponseObject>>(`${LIST}?limit=1&after=${encodeURIComponent(page.next as string)}`)).data.length, 1);
  await t.rejects(openai.responses.retrieve(id), { status: 404, code: 'response_not_found' } as never);
  t.match(await refusal(owner.delete(`${LIST}/${id}`)), { status: 404, code: 'resource_not_found' });
  const running = await openai.responses.create({ model, input: 'L: endless', background: true, max_output_tokens: 8_000 });
  t.match((await owner.get<ListPage<StoredResponseObject>>(LIST)).data.find(({ id }) => id === running.id), { background: true, status: /queued|in_progress/ });
  await owner.delete(`${LIST}/${running.id}`);
  t.ok(await eventually(async () => ((await (await fetch(`${server.url}/readyz`, { headers: { authorization: `Bearer ${server.key}` } })).json()) as { models: { running: number }[] }).models.every((one) => one.running === 0)), 'it does not run any more');
});

t.test('only admins, only of their own organization', async (t) => {
  const invite = await owner.post<InviteObject>(`/organizations/${organization.id}/invites`, { email: 'dev@example.com', role: 'developer' });
  const developer = clientOf();
  await developer.signUp({ email: 'dev@example.com', invite: new URL(invite.url as string).searchParams.get('token') as string });
  t.match(await refusal(developer.get(LIST)), { status: 403, code: 'role_not_allowed' });
  const stranger = clientOf();
  const { organization: theirs } = await stranger.signUp();
  const [mine] = (await owner.get<ListPage<StoredResponseObject>>(LIST)).data;
  t.same((await stranger.get<ListPage<StoredResponseObject>>(`/organizations/${theirs.id}/responses`)).data, []);
  t.match(await refusal(stranger.delete(`/organizations/${theirs.id}/responses/${mine?.id as string}`)), { status: 404, code: 'resource_not_found' });
  t.match(await refusal(stranger.delete(`${LIST}/${mine?.id as string}`)), { status: 404, code: 'resource_not_found' });
});
