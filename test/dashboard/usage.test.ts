// Tests the usage routes (…/usage and …/usage.csv): query parameters and their bounds, pagination, and the CSV table.
import t from 'tap';
import type { CreatedApiKey } from '../../src/shared/wire/api-keys.js';
import type { UsageHistory, UsagePage } from '../../src/shared/wire/usage.js';
import { csvField } from '../../src/dashboard/api/csv.js';
import { HOUR_MS } from '../../src/usage/sums.js';
import { dataFolder, inside } from '../e2e/stored-server.js';
import { refusal } from '../support/dashboard-client.js';
import { openOwned } from '../support/owned-server.js';

t.setTimeout(300_000); // the machine may be busy

const folder = dataFolder();
const { owner, organization, client, close } = await openOwned({ env: { MONOLITH_DATA_DIR: folder.path } });
t.teardown(async () => {
  await close();
  folder.remove();
});
const PATH = `/organizations/${organization.id}/usage`;

// Usage by two keys on two days in 2026 and one day in 2024.
const at = (text: string): number => Math.floor(Date.parse(text) / HOUR_MS);
await inside(folder.path, (store) =>
  store.transaction(() => {
    const hours = store.table<number[]>('usage-hours'); // rows in the format of an earlier version
    for (const hour of [at('2024-05-01T07:00:00Z'), at('2026-03-01T23:00:00Z'), at('2026-03-02T00:00:00Z')]) {
      for (const [keyId, requests] of [
        ['key_a', 1],
        ['key_b', 10],
      ] as const) {
        void hours.put(
          [organization.id, hour, 'hal-1.0', keyId, '/v1/messages'],
          [requests, 0, 0, requests * 100, requests * 50, requests * 7, 0, 0],
        );
      }
    }
    void hours.put(
      [organization.id, at('2026-03-02T05:00:00Z'), '', 'key_a', '/v1/messages'],
      [0, 3, 0, 0, 0, 0, 0, 0],
    );
  }),
);

const march = 'from=2026-03-01&to=2026-03-03T00:00:00Z';
const get = (query: string): Promise<UsagePage> => owner.get(`${PATH}?${query}`);

t.test('usage can be bucketed by day or hour, grouped and filtered', async (t) => {
  t.match(await get(march), {
    object: 'list',
    has_more: false,
    next_page: null,
    data: [
      {
        bucket_start: '2026-03-01T00:00:00.000Z',
        model: null,
        api_key_id: null,
        endpoint: null,
        requests: 11,
        errors: 0,
        input_tokens: 1_100,
        cached_tokens: 550,
        output_tokens: 77,
      },
      { bucket_start: '2026-03-02T00:00:00.000Z', requests: 11, errors: 3 },
    ],
  });
  t.equal((await get(`${march}&bucket=hour`)).data.length, 3);
  t.match(
    (await get(`${march}&group_by=model,api_key`)).data.map(({ model, api_key_id, requests }) => [
      model,
      api_key_id,
      requests,
    ]),
    [
      ['hal-1.0', 'key_a', 1],
      ['hal-1.0', 'key_b', 10],
      [null, 'key_a', 0],
      ['hal-1.0', 'key_a', 1],
      ['hal-1.0', 'key_b', 10],
    ],
  );
  t.match((await get(`${march}&group_by[]=endpoint&api_keys=key_b&models=hal-1.0,clarke-1.0`)).data, [
    { endpoint: '/v1/messages', requests: 10 },
    { requests: 10 },
  ]);
  t.same((await get(`${march}&models=clarke-1.0`)).data, []);
  t.same((await get('')).data, [], 'the default range is the last few days');
  t.equal(
    (await get(`from=${Date.parse('2026-03-01T12:00:00Z') / 1000}&to=2026-03-02T00:00:00%2B01:00&bucket=hour`)).data
      .length,
    0,
    'the end of the range is exclusive',
  );
  t.equal((await get('from=2024-01-01&to=2026-12-31')).data.length, 3);
});

t.test('the usage list is paginated', async (t) => {
  const first = await get(`${march}&group_by=api_key&limit=2`);
  t.match(first, { has_more: true, data: [{ api_key_id: 'key_a' }, { api_key_id: 'key_b' }] });
  const second = await get(`${march}&group_by=api_key&limit=2&after=${first.next_page}`);
  t.match(second, {
    has_more: false,
    next_page: null,
    data: [{ bucket_start: '2026-03-02T00:00:00.000Z', api_key_id: 'key_a', errors: 3 }, { api_key_id: 'key_b' }],
  });
});

t.test('an invalid query parameter is named in the error', async (t) => {
  for (const [query, param] of [
    ['from=yesterday', 'from'],
    ['from=2026-02-31T99:00:00Z', 'from'],
    ['to=-1', 'to'],
    ['from=2026-03-02&to=2026-03-01', 'from'],
    ['from=2024-01-01&to=2026-01-01&bucket=hour', 'from'],
    ['bucket=week', 'bucket'],
    ['group_by=model,color', 'group_by'],
    ['limit=0', 'limit'],
    ['limit=1e3', 'limit'],
    ['limit=99999', 'limit'],
    ['after=x', 'after'],
    [`models=${Array.from({ length: 101 }, (_, i) => i).join()}`, 'models'],
    [`api_keys=${'k'.repeat(200)}`, 'api_keys'],
  ] as const) {
    t.match(
      await refusal(owner.get(`${PATH}?${query}`)),
      { status: 400, code: 'invalid_query_parameter', param },
      query.slice(0, 60),
    );
  }
  t.match(await refusal(owner.get(`${PATH}.csv?bucket=week`)), { status: 400, param: 'bucket' });
});

t.test('the CSV table has a header line and escapes formulas', async (t) => {
  const response = await owner.fetch(`${PATH}.csv?${march}&group_by=model`);
  t.equal(response.headers.get('content-type'), 'text/csv; charset=utf-8');
  t.match(response.headers.get('content-disposition'), /^attachment; filename="usage\.csv"$/);
  t.same((await response.text()).split('\r\n'), [
    'bucket_start,model,api_key_id,endpoint,requests,errors,rate_limited,input_tokens,cached_tokens,output_tokens,reasoning_tokens,images,answered,first_token_ms,duration_ms,decode_ms,cost',
    '2026-03-01T00:00:00.000Z,hal-1.0,,,11,0,0,1100,550,77,0,0,0,0,0,0,',
    '2026-03-02T00:00:00.000Z,,,,0,3,0,0,0,0,0,0,0,0,0,0,',
    '2026-03-02T00:00:00.000Z,hal-1.0,,,11,0,0,1100,550,77,0,0,0,0,0,0,',
    '',
  ]);
  t.same(['=1+1', '@x', '-2', '+3', '\tx', 'a,b', 'say "hi"', 'a\nb', 'plain', 5, -5, null].map(csvField), [
    "'=1+1",
    "'@x",
    "'-2",
    "'+3",
    "'\tx",
    '"a,b"',
    '"say ""hi"""',
    '"a\nb"',
    'plain',
    '5',
    '-5',
    '',
  ]);
});

t.test('usage is reported per member who created the key', async (t) => {
  const { id, created_by: user } = await owner.post<CreatedApiKey>(`/organizations/${organization.id}/api-keys`, {
    name: 'mine',
  });
  await inside(folder.path, (store) =>
    store.transaction(() => {
      const hour = at('2026-03-05T05:00:00Z');
      for (const [key, requests] of [
        [id, 7],
        ['playground', 2],
        ['key_gone', 1],
      ] as const)
        void store
          .table<number[]>('usage-hours')
          .put([organization.id, hour, 'hal-1.0', key, '/v1/messages'], [requests, 0, 0, 0, 0, 0, 0, 0]);
    }),
  );
  const days = 'from=2026-03-05&to=2026-03-06T00:00:00Z';
  t.same(
    (await get(`${days}&group_by=member`)).data.map(({ member_id, requests }) => [member_id, requests]).sort(),
    [
      [user, 7],
      ['none', 1],
      ['playground', 2],
    ].sort(),
  );
  const csv = await (await owner.fetch(`${PATH}.csv?${days}&group_by=member`)).text();
  t.match(csv, /,cost,member_id,member_email,member_name\r\n/);
  t.match(csv, `,${user},owner@example.com,User 1\r\n`);
});

t.test("operators see all organizations' usage over time, and download it", async (t) => {
  const other = client();
  const { organization: second } = await other.signUp();
  await inside(folder.path, (store) =>
    store.transaction(() => {
      const hour = at('2026-03-01T05:00:00Z');
      void store
        .table<number[]>('usage-hours')
        .put([second.id, hour, 'hal-1.0', 'key_x', '/v1/messages'], [5, 0, 0, 50, 0, 5, 0, 0]);
    }),
  );
  const history = async (query: string): Promise<unknown[]> =>
    (await owner.get<UsageHistory>(`/operator/usage/history?${march}${query}`)).data.map(
      ({ bucket_start: start, organization_id: of, model, requests }) => [start.slice(0, 10), of, model, requests],
    );
  t.same(await history(''), [
    ['2026-03-01', null, 'hal-1.0', 16],
    ['2026-03-02', null, null, 0],
    ['2026-03-02', null, 'hal-1.0', 11],
  ]);
  t.same(
    (await history('&group_by=organization')).sort(),
    [
      ['2026-03-01', organization.id, null, 11],
      ['2026-03-01', second.id, null, 5],
      ['2026-03-02', organization.id, null, 11],
    ].sort(),
  );
  t.same(await history(`&organization=${second.id}`), [['2026-03-01', null, 'hal-1.0', 5]]);
  t.match(await refusal(owner.get('/operator/usage/history?group_by=key')), { status: 400, param: 'group_by' });
  const lines = (await (await owner.fetch(`/operator/usage.csv?${march}`)).text()).trim().split('\r\n');
  t.equal(lines.length, 5);
  t.match(lines[0], /^bucket_start,organization_id,organization,model,requests,/);
  t.ok(lines.some((line) => line.includes(`,${second.id},${second.name},hal-1.0,5,`)));
  for (const path of ['/operator/usage/history', '/operator/usage.csv'])
    t.match(await refusal(other.get(path)), { status: 403 });
});

t.test('requests without a session get 401 and other users get 404', async (t) => {
  const stranger = client();
  t.match(await refusal(stranger.get(PATH)), { status: 401 });
  await stranger.signUp();
  t.match(await refusal(stranger.get(PATH)), { status: 404 });
  t.equal((await stranger.fetch(`${PATH}.csv`)).status, 404);
});
