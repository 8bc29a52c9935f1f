// Tests the dashboard's stored responses (…/responses): a list without content, one response as a conversation, and
// that only the organization's admins have access.

import { setTimeout as sleep } from 'node:timers/promises';
import t from 'tap';
import OpenAI from 'openai';
import type { CreatedApiKey } from '../../src/shared/wire/api-keys.js';
import type { ListPage } from '../../src/shared/wire/list.js';
import type { AuditEntry, InviteObject } from '../../src/shared/wire/organizations.js';
import type { StoredConversation, StoredResponseObject } from '../../src/shared/wire/stored-responses.js';
import { conversationOf } from '../../src/dashboard/api/stored-conversation.js';
import type { ChainedResponse } from '../../src/storage/response-store.js';
import { refusal } from '../support/dashboard-client.js';
import { openOwned } from '../support/owned-server.js';
import { eventually } from '../e2e/monolith.js';

t.setTimeout(300_000); // the machine may be busy

const { server, owner, organization, client: clientOf, close } = await openOwned();
t.teardown(close);
const LIST = `/organizations/${organization.id}/responses`;
const { secret } = await owner.post<CreatedApiKey>(`/organizations/${organization.id}/api-keys`, { name: 'k' });
const openai = new OpenAI({ baseURL: `${server.url}/v1`, apiKey: secret, maxRetries: 0 });
const model = 'tycho-1.0';

t.test('the list is paginated, newest first, and has only the first words of each prompt', async (t) => {
  const made: string[] = [];
  for (let i = 0; i < 5; i++)
    made.push((await openai.responses.create({ model, input: `A: first words ${i} ${'x'.repeat(200)} last` })).id);
  await openai.responses.create({ model, input: 'A: x', store: false });
  const seen: StoredResponseObject[] = [];
  for (let after = ''; ; ) {
    const page = await owner.get<ListPage<StoredResponseObject>>(`${LIST}?limit=2${after}`);
    t.ok(page.data.length <= 2);
    seen.push(...page.data);
    t.equal(page.has_more, page.next !== null);
    if (page.next === null) break;
    after = `&after=${encodeURIComponent(page.next)}`;
  }
  t.same(
    seen.map(({ id }) => id),
    made.toReversed(),
  );
  t.same(
    [...seen].sort((a, b) => b.created_at.localeCompare(a.created_at)).map(({ created_at: at }) => at),
    seen.map(({ created_at: at }) => at),
  );
  const [first] = seen;
  t.match(first, { model, status: 'completed', background: false });
  t.equal(Date.parse(first?.expires_at ?? '') - Date.parse(first?.created_at ?? ''), 30 * 86_400_000);
  t.match(first?.preview, /^A: first words 4 x+…$/);
  t.notMatch(JSON.stringify(seen), /last|Paris/, 'the rest of the prompt and the response are not in the list');
  t.match(await refusal(owner.get(`${LIST}?after=nothing`)), {
    status: 400,
    code: 'invalid_query_parameter',
    param: 'after',
  });
});

t.test('a stored response is shown as a conversation with all its previous responses', async (t) => {
  const first = await openai.responses.create({ model, input: 'A: the beginning', instructions: 'Be brief.' });
  const second = await openai.responses.create({
    model,
    previous_response_id: first.id,
    input: [{ role: 'user', content: [{ type: 'input_text', text: 'A: and on' }] }],
    max_output_tokens: 16,
  });
  const { turns, earlier } = await owner.get<StoredConversation>(`${LIST}/${second.id}`);
  t.same(
    turns.map(({ id }) => id),
    [first.id, second.id],
  );
  t.equal(earlier, 0);
  t.match(turns[0]?.input, [{ kind: 'message', role: 'user', text: 'A: the beginning', cut: false, images: 0 }]);
  t.match(
    turns[0]?.output.find(({ kind }) => kind === 'message'),
    { role: 'assistant', text: first.output_text },
  );
  t.equal(turns[1]?.input.length, 1, 'each turn has only its own input');
  t.match(turns[1]?.input[0], { text: 'A: and on' });
  t.match(await refusal(owner.get(`${LIST}/resp_nothing`)), { status: 404, code: 'resource_not_found' });
  const { data } = await owner.get<ListPage<AuditEntry>>(`/organizations/${organization.id}/audit-log`);
  t.equal(data.filter(({ action, target }) => action === 'response.read' && target === second.id).length, 1);
});

t.test('reads are rate-limited because each one adds an audit log entry', async (t) => {
  const { id } = await openai.responses.create({ model, input: 'A: x' });
  const reads = await Promise.all(
    Array.from({ length: 400 }, async () => {
      const answer = await owner.fetch(`${LIST}/${id}`);
      const { error } = (await answer.json()) as { error?: { code: string } };
      return `${answer.status} ${error?.code ?? ''}`;
    }),
  );
  t.same(
    [...new Set(reads)].sort(),
    ['200 ', '429 too_many_attempts'],
    'the log keeps ten thousand entries, so unlimited reads would push out important ones',
  );
  t.equal((await owner.fetch(LIST)).status, 200, 'requests without a log entry are not counted');
  await sleep(1_000); // lets the rate limit recover for the following tests
});

t.test('a very long conversation is shortened, starting with the oldest part', async (t) => {
  const said = (id: string, items: object[]): ChainedResponse => ({
    id,
    organizationId: 'org_x',
    model,
    createdAt: 1,
    status: 'completed',
    background: false,
    previousId: null,
    output: [],
    input: items.map((item, at) => ({ id: `${id}_${at}`, item: { type: 'message', role: 'user', ...item } })),
  });
  const long = Array.from({ length: 11 }, () => ({ content: 'x'.repeat(30_000) }));
  const { turns, earlier } = conversationOf([said('a', long), said('b', long), said('c', long)]);
  t.same(
    turns.map(({ id }) => id),
    ['b', 'c'],
  );
  t.equal(earlier, 1);
  t.match(turns[0]?.input[0], { cut: true, text: /^x{20000}$/ });
  const {
    turns: [huge],
  } = conversationOf([
    said(
      'e',
      Array.from({ length: 1_000 }, (_, at) => ({ content: `${at} `.padEnd(10_000, 'x') })),
    ),
  ]);
  t.match(huge?.input.at(-1), { cut: false, text: /^999 x+$/ });
  t.match(huge?.input[0], { cut: true, text: '' }, 'within a single response, the oldest items are shortened first');
  t.ok(JSON.stringify(huge).length < 1_000_000);
  const wordless = Array.from({ length: 40 }, (_, at) =>
    said(
      `f${at}`,
      Array.from({ length: 1_000 }, () => ({ content: '' })),
    ),
  );
  t.match(conversationOf(wordless), { turns: { length: 4 }, earlier: 36 }, 'many items without text are shortened too');
  const kinds = conversationOf([
    said('d', [
      {
        content: [
          { type: 'input_text', text: 'see' },
          { type: 'input_image', image_url: 'data:image/png;base64,' },
        ],
      },
      { type: 'function_call', name: 'f', arguments: '{"a":1}' },
      { type: 'function_call_output', output: 'done' },
      { type: 'reasoning', summary: [{ type: 'summary_text', text: 'why' }] },
    ]),
  ]).turns[0]?.input;
  t.match(kinds, [
    { kind: 'message', text: 'see', images: 1 },
    { kind: 'call', name: 'f', text: '{"a":1}' },
    { kind: 'result', text: 'done' },
    { kind: 'reasoning', text: 'why' },
  ]);
});

t.test(
  'a deleted response disappears from the API, a running one is cancelled first, and pagination continues after it',
  async (t) => {
    const page = await owner.get<ListPage<StoredResponseObject>>(`${LIST}?limit=1`);
    const id = page.data[0]?.id as string;
    t.match(await owner.delete(`${LIST}/${id}`), { id, deleted: true });
    t.equal(
      (
        await owner.get<ListPage<StoredResponseObject>>(
          `${LIST}?limit=1&after=${encodeURIComponent(page.next as string)}`,
        )
      ).data.length,
      1,
    );
    await t.rejects(openai.responses.retrieve(id), { status: 404, code: 'response_not_found' } as never);
    t.match(await refusal(owner.delete(`${LIST}/${id}`)), { status: 404, code: 'resource_not_found' });
    const running = await openai.responses.create({
      model,
      input: 'L: endless',
      background: true,
      max_output_tokens: 8_000,
    });
    t.match(
      (await owner.get<ListPage<StoredResponseObject>>(LIST)).data.find(({ id }) => id === running.id),
      { background: true, status: /queued|in_progress/ },
    );
    await owner.delete(`${LIST}/${running.id}`);
    t.ok(
      await eventually(async () =>
        (
          (await (
            await fetch(`${server.url}/readyz`, { headers: { authorization: `Bearer ${server.key}` } })
          ).json()) as { models: { running: number }[] }
        ).models.every((one) => one.running === 0),
      ),
      'the deleted response is no longer running',
    );
  },
);

t.test('only admins of the organization can read stored responses', async (t) => {
  const invite = await owner.post<InviteObject>(`/organizations/${organization.id}/invites`, {
    email: 'dev@example.com',
    role: 'developer',
  });
  const developer = clientOf();
  await developer.signUp({
    email: 'dev@example.com',
    invite: new URL(invite.url as string).searchParams.get('token') as string,
  });
  t.match(await refusal(developer.get(LIST)), { status: 403, code: 'role_not_allowed' });
  const stranger = clientOf();
  const { organization: theirs } = await stranger.signUp();
  const [mine] = (await owner.get<ListPage<StoredResponseObject>>(LIST)).data;
  t.match(await refusal(developer.get(`${LIST}/${mine?.id as string}`)), { status: 403 });
  t.match(await refusal(stranger.get(`/organizations/${theirs.id}/responses/${mine?.id as string}`)), { status: 404 });
  t.same((await stranger.get<ListPage<StoredResponseObject>>(`/organizations/${theirs.id}/responses`)).data, []);
  t.match(await refusal(stranger.delete(`/organizations/${theirs.id}/responses/${mine?.id as string}`)), {
    status: 404,
    code: 'resource_not_found',
  });
  t.match(await refusal(stranger.delete(`${LIST}/${mine?.id as string}`)), { status: 404, code: 'resource_not_found' });
});
