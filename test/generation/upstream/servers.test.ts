// Tests several upstream servers for one model: selection, removal from rotation, retries and fallback models.
import t from 'tap';
import { eventually } from '../../e2e/monolith.js';
import { error, startGateway, startStandIn, stream, type Say, type StandIn } from '../../support/stand-in.js';

const delta = (content: string, finish: string | null = null): object => ({
  choices: [{ index: 0, delta: { content }, finish_reason: finish }],
});
const answers = (text: string): Say =>
  stream(delta(text), delta('', 'stop'), { choices: [], usage: { prompt_tokens: 5, completion_tokens: 1 } }, '[DONE]');
const busy = error(503, { error: { message: 'overloaded' } });

const one = await startStandIn(answers('one')),
  two = await startStandIn(answers('two')),
  spare = await startStandIn(answers('spare'));
const gone = 'http://127.0.0.1:9/v1';
const gateway = await startGateway(
  {
    pair: { upstream: { servers: [{ url: one.url, weight: 3 }, { url: two.url }] } },
    half: { upstream: { servers: [{ url: gone }, { url: two.url }] } },
    last: { upstream: { url: gone, fallback: 'other' } },
    other: { upstream: { url: spare.url } },
    lone: { upstream: { url: one.url } },
    tight: { upstream: { url: one.url } },
  },
  {
    upstream: { retries: 2, breaker_failures: 3, breaker_ms: 400, concurrency: 40, connect_ms: 1_000 },
    limits: { concurrency: null, rpm: null },
    engine: { queue_wait_ms: 1_000, queue_max: 60 },
  },
);
t.teardown(async () => {
  await gateway.close();
  await Promise.all([one, two, spare].map((server) => server.close()));
});

const ask = (model: string, more: object = {}): Promise<Response> =>
  gateway.post('/v1/chat/completions', { model, messages: [{ role: 'user', content: 'Hi' }], ...more });
async function said(model: string): Promise<string> {
  const body = (await (await ask(model)).json()) as any;
  return body.choices?.[0].message.content ?? `${body.error.code}`;
}
/** Sends requests concurrently; the upstreams respond only after all have arrived. */
async function held(servers: readonly StandIn[], requests: () => Promise<unknown>[], count: number): Promise<number[]> {
  const before = servers.map(({ heard }) => heard.length);
  const release: (() => void)[] = [];
  const says = servers.map(({ say }) => say);
  for (const [at, server] of servers.entries())
    server.say = (response, heard) => void release.push(() => void says[at]!(response, heard));
  const sent = requests();
  await eventually(() => release.length === count);
  const counts = servers.map(({ heard }, at) => heard.length - before[at]!);
  for (const go of release) go();
  for (const [at, server] of servers.entries()) server.say = says[at]!;
  await Promise.all(sent);
  return counts;
}

t.test('chooses by weight and requests in flight', async (t) => {
  t.same(await held([one, two], () => Array.from({ length: 16 }, () => said('pair')), 16), [12, 4]);
});

t.test(
  'retries on the next upstream if one is unreachable, and takes it out of rotation after some failures',
  async (t) => {
    for (let i = 0; i < 8; i++) t.equal(await said('half'), 'two');
    t.equal(gateway.logs.filter((line) => line.includes('"kind":"connect"')).length, 3, 'three attempts failed');
    t.equal(gateway.logs.filter((line) => line.includes('taken out of rotation')).length, 1);
    await new Promise((resolve) => setTimeout(resolve, 500));
    for (let i = 0; i < 4; i++) t.equal(await said('half'), 'two');
    t.equal(
      gateway.logs.filter((line) => line.includes('"kind":"connect"')).length,
      4,
      'one request is tried after the pause',
    );
  },
);

t.test('does not retry after the first token', async (t) => {
  const before = one.heard.length + two.heard.length;
  const broken: Say = (response) => {
    response.writeHead(200, { 'content-type': 'text/event-stream' }).write(`data: ${JSON.stringify(delta('a'))}\n\n`);
    setTimeout(() => response.destroy(), 20);
  };
  one.say = two.say = broken;
  t.equal(await said('pair'), 'model_error');
  t.equal(one.heard.length + two.heard.length - before, 1);
  one.say = answers('one');
  two.say = answers('two');
});

t.test('does not retry a client error or count it as an upstream failure', async (t) => {
  const before = one.heard.length + two.heard.length;
  one.say = two.say = error(400, { error: { message: 'no' } });
  for (let i = 0; i < 5; i++) t.equal(await said('pair'), 'invalid_value');
  t.equal(one.heard.length + two.heard.length - before, 5);
  one.say = answers('one');
  two.say = answers('two');
  t.match(await said('pair'), /one|two/, 'both upstreams stay in rotation');
});

t.test('a single upstream is retried, taken out of rotation, and used again when it responds', async (t) => {
  const before = one.heard.length;
  let failures = 2;
  one.say = (response, heard) => (failures-- > 0 ? busy : answers('one'))(response, heard);
  t.equal(await said('lone'), 'one');
  t.equal(one.heard.length - before, 3);
  one.say = busy;
  t.equal(await said('lone'), 'capacity_exhausted', 'the request fails after three attempts');
  const shut = one.heard.length;
  const response = await ask('lone');
  t.equal(response.status, 503);
  t.match(await response.json(), { error: { code: 'model_unavailable', message: /unavailable at the moment/ } });
  t.equal(one.heard.length, shut, 'the upstream receives no requests while it is out of rotation');
  const { models } = (await (await gateway.get('/readyz')).json()) as any;
  t.match(
    models.find(({ name }: any) => name === 'lone'),
    { state: 'ready', error: 'all of its upstream servers are out of rotation' },
  );
  one.say = answers('one');
  await new Promise((resolve) => setTimeout(resolve, 450));
  t.equal(await said('lone'), 'one');
  t.ok(gateway.logs.some((line) => line.includes('back in rotation')));
});

t.test(
  'requests that make an upstream fail do not take it out of rotation for others once it has responded',
  async (t) => {
    const fails: Say[] = [
      error(500, { error: { message: 'the template failed' } }),
      error(403, 'a firewall'),
      stream('not JSON'),
    ];
    for (const fail of fails) {
      one.say = (response, heard) =>
        (JSON.stringify(heard.body).includes('poison') ? fail : answers('one'))(response, heard);
      for (let i = 0; i < 5; i++) await ask('lone', { messages: [{ role: 'user', content: 'poison' }] });
      t.equal(await said('lone'), 'one');
    }
    one.say = answers('one');
  },
);

t.test(
  'an upstream that fails on requests that another one serves is taken out of rotation, even if no other client uses it',
  async (t) => {
    one.say = error(500, { error: { message: 'out of memory' } });
    for (let i = 0; i < 10; i++) t.equal(await said('pair'), 'two');
    const shut = one.heard.length;
    for (let i = 0; i < 6; i++) t.equal(await said('pair'), 'two');
    t.equal(one.heard.length, shut, 'the upstream receives no requests while it is out of rotation');
    one.say = answers('one');
    await new Promise((resolve) => setTimeout(resolve, 900));
    for (let i = 0; i < 4; i++) await said('pair');
    t.ok(one.heard.length > shut, 'the upstream is tried again later');
  },
);

t.test('uses the configured fallback model', async (t) => {
  const before = spare.heard.length;
  t.equal(await said('last'), 'spare');
  const streamed = await (await ask('last', { stream: true })).text();
  t.match(streamed, /"model":"last"/);
  t.match(streamed, /spare[^]*\[DONE\]/);
  t.equal(spare.heard.length - before, 2);
  t.ok(gateway.logs.some((line) => line.includes('using its fallback model')));
  spare.say = error(400, { error: { message: 'no' } });
  t.equal(await said('last'), 'invalid_value', 'errors of the fallback model are returned');
  spare.say = answers('spare');
});

t.test('limits requests in flight, and a request that waits too long gets an error', async (t) => {
  const statuses: number[] = [];
  const going = async (): Promise<void> => {
    const response = await ask('tight');
    await response.text();
    statuses.push(response.status);
  };
  const before = one.heard.length;
  const waiting: (() => void)[] = [];
  one.say = (response, heard) => void waiting.push(() => void answers('one')(response, heard));
  const all = Array.from({ length: 45 }, going);
  t.ok(await eventually(() => statuses.length === 5), 'five requests have timed out');
  t.same(statuses, [503, 503, 503, 503, 503]);
  t.equal(one.heard.length - before, 40);
  one.say = answers('one');
  for (const go of waiting) go();
  await Promise.all(all);
  t.equal(statuses.filter((status) => status === 200).length, 40);
});

t.test(
  'an upstream that keeps the connection open after a complete response, or resets it there, has succeeded',
  async (t) => {
    const shut = (): number => gateway.logs.filter((line) => line.includes('taken out of rotation')).length;
    const before = shut();
    for (const breaks of [false, true]) {
      one.say = (response) => {
        response.writeHead(200, { 'content-type': 'text/event-stream' });
        response.write(
          [delta('one'), delta('', 'stop'), '[DONE]']
            .map((line) => `data: ${typeof line === 'string' ? line : JSON.stringify(line)}\n\n`)
            .join(''),
        );
        if (breaks) setTimeout(() => response.destroy(), 10);
      };
      for (let i = 0; i < 3; i++)
        t.same(
          await Promise.all(Array.from({ length: 40 }, () => said('tight'))),
          Array.from({ length: 40 }, () => 'one'),
          'slots are free again',
        );
    }
    one.say = answers('one');
    t.ok(
      await eventually(async () =>
        /monolith_upstream_outstanding\{model="tight",server="[^"]+"\} 0/.test(
          await (await gateway.get('/metrics')).text(),
        ),
      ),
    );
    t.match(
      await (await gateway.get('/metrics')).text(),
      /monolith_upstream_requests_total\{model="tight",server="[^"]+",outcome="answered"\} 280/,
    );
    t.equal(shut(), before, 'the response is not counted as a failure');
  },
);

t.test('shows the models in the dashboard and the metrics', async (t) => {
  const { data } = (await (await gateway.get('/v1/models')).json()) as any;
  t.same(
    data.map(({ id }: any) => id),
    ['pair', 'half', 'last', 'other', 'lone', 'tight'],
  );
  const metrics = await (await gateway.get('/metrics')).text();
  t.match(
    metrics,
    new RegExp(`monolith_upstream_requests_total\\{model="half",server="127.0.0.1:9",outcome="failed"\\} [4-9]`),
  );
  t.match(metrics, /monolith_upstream_outstanding\{model="pair",server="[^"]+"\} 0/);
});
