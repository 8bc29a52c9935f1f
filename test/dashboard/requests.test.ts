// Tests the request log (…/requests): each request's outcome, who can see it, and its text, which is included only if
// the organization stores it.
import t from 'tap';
import OpenAI from 'openai';
import type { CreatedApiKey } from '../../src/shared/wire/api-keys.js';
import type { ListPage } from '../../src/shared/wire/list.js';
import type { InviteObject, OrganizationObject } from '../../src/shared/wire/organizations.js';
import type { RequestDetail, RequestObject } from '../../src/shared/wire/requests.js';
import { refusal } from '../support/dashboard-client.js';
import { openOwned } from '../support/owned-server.js';
import { eventually } from '../e2e/monolith.js';
import { requestDetail } from '../../src/dashboard/api/request-fields.js';
import type { RequestEntry } from '../../src/shared/request-entry.js';
import { entry } from '../requests/request-log.js';

t.setTimeout(300_000); // the machine may be busy

const {
  server,
  owner,
  organization,
  client: clientOf,
  close,
} = await openOwned({
  env: {
    MONOLITH_REQUESTS_TEXT_CHARACTERS: '100',
    MONOLITH_TELEMETRY_TRACES_ENDPOINT: 'http://127.0.0.1:9/v1/traces', // only the trace IDs are tested
    MONOLITH_TELEMETRY_TRACES_VIEW_URL: 'https://traces.example/{trace_id}',
  },
});
t.teardown(close);
const PATH = `/organizations/${organization.id}`;
const LIST = `${PATH}/requests`;
const { secret, id: keyId } = await owner.post<CreatedApiKey>(`${PATH}/api-keys`, { name: 'k' });
const openai = new OpenAI({ baseURL: `${server.url}/v1`, apiKey: secret, maxRetries: 0 });
const model = 'tycho-1.0';

const newest = async (query = ''): Promise<RequestObject[]> =>
  (await owner.get<ListPage<RequestObject>>(`${LIST}?limit=100${query}`)).data;
/**
 * Waits until there are `wanted` more entries than `before`, because entries are written with a short delay.
 */
async function since(before: number, wanted = 1): Promise<RequestObject[]> {
  await eventually(async () => (await newest()).length >= before + wanted);
  return (await newest()).slice(0, wanted);
}

t.test('the vision encoder has its own phase between queueing and prefill', async (t) => {
  const phases = (more: Partial<RequestEntry>) =>
    requestDetail('1', { ...entry(0, more), hasText: false }, null).phases;
  // Received 50 ms ago, started 40 ms ago, first token 30 ms ago.
  t.same(phases({ queueMs: 2, towerMs: 5 }), {
    prepare_ms: 3,
    queue_ms: 2,
    tower_ms: 5,
    prefill_ms: 10,
    decode_ms: 30,
  });
  t.same(phases({ queueMs: 2 }), { prepare_ms: 8, queue_ms: 2, tower_ms: null, prefill_ms: 10, decode_ms: 30 });
  t.same(
    phases({ queueMs: 4, towerMs: 9 }),
    { prepare_ms: 0, queue_ms: 4, tower_ms: 6, prefill_ms: 10, decode_ms: 30 },
    'the phases never add up to more than the elapsed time',
  );
  t.same(phases({ startedAt: null, firstTokenAt: null, queueMs: null }).tower_ms, null);
});

t.test('complete, streamed, cancelled, refused and background requests have one entry each', async (t) => {
  t.same(await newest(), []);
  const whole = await openai.chat.completions.create({
    model,
    messages: [{ role: 'user', content: 'A: secret words' }],
    temperature: 0.5,
    stop: ['zzz'],
  });
  const [first] = await since(0);
  t.match(first, {
    organization_id: organization.id,
    api_key_id: keyId,
    model,
    endpoint: '/v1/chat/completions',
    stream: false,
    status: 200,
    outcome: 'completed',
    code: null,
    finish_reason: 'end_of_turn',
    input_tokens: whole.usage!.prompt_tokens,
    output_tokens: whole.usage!.completion_tokens,
    has_text: false,
  });
  t.match(first!.request_id, /^req_/);
  t.ok(
    first!.queue_ms! >= 0 && first!.first_token_ms! > 0 && first!.duration_ms >= first!.first_token_ms!,
    'the durations are consistent with each other',
  );
  const detail = await owner.get<RequestDetail>(`${LIST}/${first!.id}`);
  t.match(detail, { id: first!.id, text: null });
  t.same(detail.parameters, { messages: 1, temperature: 0.5, stop: 1 }, "only the request's own parameters are listed");
  const {
    prepare_ms: prepare,
    queue_ms: queue,
    tower_ms: tower,
    prefill_ms: prefill,
    decode_ms: decode,
  } = detail.phases;
  t.equal(tower, null, 'a request without images has no vision phase');
  t.equal(prepare! + queue! + prefill! + decode!, first!.duration_ms, 'the phases add up to the total duration');
  t.notMatch(
    JSON.stringify(detail),
    /secret words|Paris|zzz/,
    'the entry contains no text from the prompt or the response',
  );

  const stream = await openai.chat.completions.create({
    model,
    messages: [{ role: 'user', content: 'L: endless' }],
    stream: true,
  });
  for await (const _chunk of stream) break;
  stream.controller.abort();
  t.match(await since(1), [{ outcome: 'cancelled', status: null, stream: true }]);

  await t.rejects(openai.chat.completions.create({ model: 'none', messages: [{ role: 'user', content: 'A' }] }), {
    status: 404,
  } as never);
  await t.rejects(openai.chat.completions.create({ model, messages: [] }), { status: 400 } as never);
  await openai.models.list();
  await openai.responses.create({ model, input: 'A: again' });
  const later = await since(2, 4);
  t.same(later.map(({ endpoint, outcome, status }) => [endpoint, outcome, status]).sort(), [
    ['/v1/chat/completions', 'refused', 400],
    ['/v1/chat/completions', 'refused', 404],
    ['/v1/models', 'completed', 200],
    ['/v1/responses', 'completed', 200],
  ]);
  const background = await openai.responses.create({ model, input: 'A: behind', background: true });
  t.ok(await eventually(async () => (await openai.responses.retrieve(background.id)).status === 'completed'));
  t.ok(
    await eventually(
      async () =>
        (await newest('&outcome=completed')).filter(({ endpoint }) => endpoint === '/v1/responses').length === 2,
    ),
    'a background response has one entry once it has ended',
  );
  await owner.post(`${PATH}/playground`, { model, messages: [{ role: 'user', content: 'A: hello' }] });
  t.ok(
    await eventually(async () => (await newest('&api_key=playground')).length === 1),
    'a playground request has one entry too',
  );
});

t.test('the list can be filtered and paginated', async (t) => {
  const all = await newest();
  t.same(
    (await newest('&outcome=refused')).map(({ id }) => id),
    all.filter(({ outcome }) => outcome === 'refused').map(({ id }) => id),
  );
  t.same(
    (await newest(`&model=${model}&api_key=${keyId}`)).map(({ id }) => id),
    all.filter((one) => one.model === model && one.api_key_id === keyId).map(({ id }) => id),
  );
  const first = await owner.get<ListPage<RequestObject>>(`${LIST}?limit=3`);
  t.same(
    first.data.map(({ id }) => id),
    all.slice(0, 3).map(({ id }) => id),
  );
  t.same(
    (await owner.get<ListPage<RequestObject>>(`${LIST}?limit=100&after=${first.next}`)).data.map(({ id }) => id),
    all.slice(3).map(({ id }) => id),
  );
  t.match(await refusal(owner.get(`${LIST}?outcome=late`)), {
    status: 400,
    code: 'invalid_query_parameter',
    param: 'outcome',
  });
  t.match(await refusal(owner.get(`${LIST}?after=x`)), { status: 400, param: 'after' });
  t.match(await refusal(owner.get(`${LIST}/1.req_x`)), { status: 404, code: 'resource_not_found' });
});

t.test(
  'prompt and response are visible to admins while the organization stores them, and erased when it stops',
  async (t) => {
    const { url } = await owner.post<InviteObject>(`${PATH}/invites`, {
      email: 'viewer@example.com',
      role: 'developer',
    });
    const member = clientOf();
    await member.signUp({
      email: 'viewer@example.com',
      invite: new URL(url as string).searchParams.get('token') as string,
    });
    t.match(await refusal(member.patch(PATH, { request_text: true })), { status: 403 });
    t.equal((await owner.patch<OrganizationObject>(PATH, { request_text: true })).request_text, true);
    const before = (await newest()).length;
    await openai.chat.completions.create({
      model,
      messages: [
        { role: 'system', content: `${'-'.repeat(80)} be brief` },
        { role: 'user', content: 'H: how much is it?' },
      ],
    });
    const [kept] = await since(before);
    t.equal(kept!.has_text, true);
    t.match(kept, { client_address: String, user_agent: String });
    const hidden = { client_address: null, user_agent: null };
    t.match((await member.get<{ data: RequestObject[] }>(LIST)).data[0], { id: kept!.id, ...hidden });
    t.match(await member.get(`${LIST}/${kept!.id}`), { ...hidden, text: null }, 'only admins see who sent it');
    t.notMatch(await (await member.fetch(`${LIST}.csv`)).text(), kept!.user_agent!);
    const { text } = await owner.get<RequestDetail>(`${LIST}/${kept!.id}`);
    t.equal(text!.prompt.map(({ text: part }) => part).join('').length, 100, 'a long prompt keeps only its end');
    t.match(text, {
      cut: true,
      prompt: [
        { role: 'system', text: /be brief$/ },
        { role: 'user', text: 'H: how much is it?' },
      ],
      answer: [
        { choice: 0, section: 'reasoning', text: /number/ },
        { section: 'content', text: 'Forty-two!' },
      ],
    });
    t.match(
      await member.get<RequestDetail>(`${LIST}/${kept!.id}`),
      { has_text: true, text: null },
      'a developer sees that a text is stored but not the text',
    );
    const operators = await owner.get<ListPage<RequestObject>>('/operator/requests?limit=1');
    t.equal(operators.data[0]!.id, kept!.id);
    t.match(
      await owner.get<RequestDetail>(`/operator/requests/${kept!.id}`),
      { text: null },
      'operators cannot read the text',
    );
    t.match(await refusal(member.get('/operator/requests')), { status: 403 });

    await owner.patch(PATH, { request_text: false });
    t.match(await owner.get<RequestDetail>(`${LIST}/${kept!.id}`), { has_text: false, text: null });
    const actions = (await owner.get<ListPage<{ action: string }>>(`${PATH}/audit-log?limit=100`)).data.map(
      ({ action }) => action,
    );
    t.ok(actions.includes('organization.request_text_kept') && actions.includes('organization.request_text_not_kept'));
  },
);

t.test('a refused request is logged with its error, its client and the requested model', async (t) => {
  const send = (path: string, key: string, body?: object): Promise<Response> =>
    fetch(`${server.url}${path}`, {
      method: body === undefined ? 'GET' : 'POST',
      headers: {
        authorization: `Bearer ${key}`,
        'user-agent': '=cmd()',
        'x-forwarded-for': '203.0.113.9',
        ...(body === undefined ? {} : { 'content-type': 'application/json' }),
      },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
  const messages = [{ role: 'user', content: 'A' }];
  const logged = async (response: Response, of = LIST): Promise<RequestObject> => {
    await response.text();
    const id = response.headers.get('x-request-id');
    let found: RequestObject[] = [];
    await eventually(async () => {
      found = (await owner.get<ListPage<RequestObject>>(`${of}?request_id=${id}`)).data;
      return found.length > 0;
    });
    t.equal(found.length, 1, `${response.status} is logged`);
    return found[0] as RequestObject;
  };
  const client = { client_address: /^(::ffff:)?127\.0\.0\.1$/, user_agent: '=cmd()' };
  const invalid = await logged(await send('/v1/chat/completions', secret, { model, messages, temperature: 9 }));
  t.match(invalid, { ...client, status: 422, param: 'temperature', message: /temperature/, asked_model: model });
  t.match(invalid.received_at, /T\d\d:\d\d:\d\d\.\d{3}Z$/);
  const unknown = await logged(await send('/v1/chat/completions', secret, { model: 'nothing', messages }));
  t.match(unknown, { status: 404, code: 'model_not_found', model: null, asked_model: 'nothing', param: 'model' });
  const path = await logged(await send('/v1/chat/completion', secret, { model, messages }));
  t.match(path, { status: 404, code: 'unknown_endpoint', endpoint: '/v1/chat/completion', api_key_id: keyId });
  const fresh = await owner.post<CreatedApiKey>(`${PATH}/api-keys`, { name: 'fresh' });
  t.match(
    await logged(await send('/v1/nothing', fresh.secret)),
    { endpoint: '/v1/nothing', api_key_id: fresh.id },
    'the first request with a key is known too',
  );
  t.match(await logged(await send('/v1/messages', secret)), { method: 'GET', code: 'method_not_allowed' });
  t.match(await logged(await send('/v1/messages', secret, { model, messages })), { param: 'max_tokens' });

  const line = server
    .log()
    .split('\n')
    .find((one) => one.includes(`"request_id":"${path.request_id}"`));
  t.match(JSON.parse(line ?? '{}'), { url: '/v1/chat/completion', code: 'unknown_endpoint', message: path.message });
  t.match(
    server.log(),
    /"param":"temperature","message":"[^"]*temperature[^"]*","address":"[^"]*127\.0\.0\.1"/,
    'the log line says what was wrong and who sent it',
  );
  const [traced] = await newest('&outcome=completed&api_key=playground');
  t.match(traced!.trace_id, /^[0-9a-f]{32}$/);
  t.equal((await owner.get<RequestDetail>(`${LIST}/${traced!.id}`)).trace_url, null, 'members get no trace link');
  t.equal(
    (await owner.get<RequestDetail>(`/operator/requests/${traced!.id}`)).trace_url,
    `https://traces.example/${traced!.trace_id}`,
  );

  const gone = await owner.post<CreatedApiKey>(`${PATH}/api-keys`, { name: 'gone' });
  await owner.delete(`${PATH}/api-keys/${gone.id}`);
  const revoked = await logged(await send('/v1/models', gone.secret));
  t.match(revoked, { status: 401, code: 'api_key_revoked', api_key_id: gone.id });

  const bad = await send('/v1/models', 'sk-wrong');
  const nobody = await logged(bad, '/operator/requests');
  t.match(nobody, { ...client, status: 401, organization_id: null, api_key_id: null, endpoint: '/v1/models' });
  t.same(await newest(`&request_id=${nobody.request_id}`), [], 'an organization does not see it');
  t.ok(
    (await owner.get<ListPage<RequestObject>>('/operator/requests?organization=none')).data.every(
      ({ organization_id: of }) => of === null,
    ),
  );

  const file = await owner.fetch(`${LIST}.csv?outcome=refused`);
  const csv = await file.text();
  const [head, ...lines] = csv.trim().split('\r\n');
  t.match(head, /^received_at,at,request_id,/);
  t.equal(lines.length, (await newest('&outcome=refused')).length);
  t.match(csv, /,'=cmd\(\),/, 'a formula is escaped');
  t.equal(file.headers.get('content-disposition'), 'attachment; filename="requests.csv"');
  t.match(await (await owner.fetch('/operator/requests.csv?organization=none')).text(), nobody.request_id);
  const { at } = invalid;
  t.same(
    await newest(`&to=${at}&from=${at.slice(0, 10)}&request_id=${invalid.request_id}`),
    [],
    'the end is exclusive',
  );
  t.equal((await newest(`&from=${at}&request_id=${invalid.request_id}`)).length, 1);
  t.match(await refusal(owner.get(`${LIST}?request_id=x`)), { status: 400, param: 'request_id' });
  t.match(await refusal(owner.get(`${LIST}?from=2026-11-02&to=2026-11-01`)), { status: 400, param: 'from' });

  for (let sent = 0; sent < 200; sent++) await (await send('/v1/models', gone.secret)).text();
  await logged(await send('/v1/nothing', secret)); // written after the others
  const repeated = (await (await owner.fetch(`${LIST}.csv?api_key=${gone.id}`)).text()).trim().split('\r\n').length - 1;
  t.ok(repeated > 60 && repeated < 190, `a repeated revoked key does not fill the log: ${repeated} of 201`);
});

t.test('another organization cannot see an entry, and deleting an organization deletes its entries', async (t) => {
  const other = clientOf();
  const {
    organization: { id },
  } = await other.signUp();
  const [mine] = await newest();
  t.same((await other.get<ListPage<RequestObject>>(`/organizations/${id}/requests`)).data, []);
  t.match(await refusal(other.get(`/organizations/${id}/requests/${mine!.id}`)), { status: 404 });
  t.match(await refusal(other.get(LIST)), { status: 404 });
  t.match(await refusal(other.get(`${LIST}.csv`)), { status: 404 });
  t.match(await refusal(other.get(`/operator/requests.csv`)), { status: 403 });
  t.same(
    (await other.get<ListPage<RequestObject>>(`/organizations/${id}/requests?request_id=${mine!.request_id}`)).data,
    [],
  );
  await other.post(`/organizations/${id}/playground`, { model, messages: [{ role: 'user', content: 'A' }] });
  const seen = async (): Promise<number> =>
    (await owner.get<ListPage<RequestObject>>(`/operator/requests?organization=${id}`)).data.length;
  t.ok(await eventually(async () => (await seen()) === 1));
  const { secret: orphan } = await other.post<CreatedApiKey>(`/organizations/${id}/api-keys`, { name: 'k' });
  await other.delete(`/organizations/${id}`);
  t.ok(await eventually(async () => (await seen()) === 0));
  const late = await fetch(`${server.url}/v1/models`, { headers: { authorization: `Bearer ${orphan}` } });
  await late.text();
  t.equal(late.status, 401);
  const of = async (): Promise<RequestObject[]> =>
    (
      await owner.get<ListPage<RequestObject>>(
        `/operator/requests?request_id=${late.headers.get('x-request-id') as string}`,
      )
    ).data;
  t.ok(await eventually(async () => (await of()).length === 1));
  t.match(await of(), [{ code: 'api_key_revoked', organization_id: null }], 'nothing more is logged for it');
});
