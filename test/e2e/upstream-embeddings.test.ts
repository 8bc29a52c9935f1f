// Tests embeddings from upstream servers: a second Monolith server with an embedding model, and a server with invalid
// responses.
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import t from 'tap';
import { embeddingModel } from '../support/pooling-model.js';
import { ask, get, post } from '../support/wire.js';
import { eventually, startMonolith, type Monolith } from './monolith.js';

t.setTimeout(300_000); // the machine may be busy

const file = embeddingModel();
t.teardown(() => file.remove());
const off = { MONOLITH_LIMITS_RPM: 'off', MONOLITH_LIMITS_TPM: 'off', MONOLITH_LIMITS_CONCURRENCY: 'off' };
const engine = await startMonolith({
  args: ['--model', `embed=${file.path}`, '--models', '{"embed":{"embedding_dimensions":[16],"context_window":64}}'],
  env: off,
});
t.teardown(() => engine.stop());

/** The JSON body with which the invalid upstream responds to the next request. Undefined: it does not respond. */
let invalid: unknown;
/** The body of the last request to the invalid upstream. */
let received = '';
let disconnects = 0;
const broken = createServer((request, response) => {
  received = '';
  request.setEncoding('utf8').on('data', (text: string) => (received += text));
  request.on('end', () => {
    if (invalid !== undefined) response.setHeader('content-type', 'application/json').end(JSON.stringify(invalid));
  });
  response.on('close', () => {
    if (!response.writableFinished) disconnects++;
  });
}).listen(0, '127.0.0.1');
t.teardown(() => broken.close());
await new Promise((resolve) => broken.once('listening', resolve));

const upstream = {
  url: `${engine.url}/v1`,
  api: 'embeddings',
  model: 'embed',
  key: engine.key,
  structured_outputs: 'monolith',
};
const server = await startMonolith({
  args: [
    '--models',
    JSON.stringify({
      far: { upstream, embedding_dimensions: [16], embedding_prompts: { query: 'query: ' } },
      broken: {
        upstream: { url: `http://127.0.0.1:${(broken.address() as AddressInfo).port}/v1`, api: 'embeddings' },
        embedding_dimensions: [3],
      },
    }),
  ],
  // Disables retries, and keeps the failing upstream in rotation.
  env: { ...off, MONOLITH_UPSTREAM_RETRIES: '0', MONOLITH_UPSTREAM_BREAKER_FAILURES: '1000' },
});
t.teardown(() => server.stop());

interface Embeddings {
  data: { index: number; embedding: number[] }[];
  usage: object;
}
const embed = async (at: Monolith, body: object): Promise<Embeddings> => {
  const answer = await ask(at, '/v1/embeddings', body);
  if (answer.status !== 200) throw new Error(answer.text);
  return answer.body as Embeddings;
};

t.test('vectors and usage are those of the upstream', async (t) => {
  const input = ['The harbour master counted the boats.', 'Fog.'];
  for (const fields of [{ input }, { input: [1, 2, 3] }, { input, dimensions: 16 }]) {
    const here = await embed(engine, { model: 'embed', ...fields });
    const there = await embed(server, { model: 'far', ...fields });
    t.same(there.data, here.data);
    t.same(there.usage, here.usage);
  }
  t.same(
    (await embed(server, { model: 'far', input: 'boats', prompt_name: 'query' })).data,
    (await embed(engine, { model: 'embed', input: 'query: boats' })).data,
  );
  const packed = await ask(server, '/v1/embeddings', { model: 'far', input: 'Fog.', encoding_format: 'base64' });
  t.type((packed.body as { data: [{ embedding: unknown }] }).data[0].embedding, 'string');
  const ollama = await ask(server, '/api/embed', { model: 'far', input: 'Fog.' });
  t.same(
    (ollama.body as { embeddings: number[][] }).embeddings[0],
    (await embed(engine, { model: 'embed', input: 'Fog.' })).data[0]!.embedding,
  );
});

t.test('errors are reported with the codes of this server', async (t) => {
  const long = 'and so on and so forth '.repeat(40);
  for (const [body, expected] of [
    [{ input: [10_000_000] }, '422 invalid_value'],
    [{ input: long }, '400 context_length_exceeded'],
    [{ input: 'x', dimensions: 17 }, '422 unsupported_value'],
    [{ input: long, truncate: 'START' }, '422 unsupported_value'],
  ] as const) {
    const { status, body: answer } = await ask(server, '/v1/embeddings', { model: 'far', ...body });
    t.equal(
      `${status} ${(answer as { error: { code: string } }).error.code}`,
      expected,
      JSON.stringify(body).slice(0, 60),
    );
  }
  t.equal((await embed(server, { model: 'far', input: long, truncate_prompt_tokens: 5 })).data.length, 1);
});

t.test('the model serves embeddings only', async (t) => {
  const messages = [{ role: 'user', content: 'x' }];
  t.match(await ask(server, '/v1/chat/completions', { model: 'far', messages }), {
    status: 422,
    body: { error: { code: 'model_not_generative', param: 'model' } },
  });
  t.match((await get(server, '/v1/models/far')).body, { task: 'embedding', embedding_dimensions: [16] });
});

t.test('an invalid response of the upstream is an error', async (t) => {
  const entry = (index: number, embedding: unknown) => ({ object: 'embedding', index, embedding });
  for (const body of [
    {},
    { data: [] },
    { data: [entry(0, [1, 2])] },
    { data: [entry(0, [1, 2]), entry(0, [1, 2])] },
    { data: [entry(0, [1, 2]), entry(2, [1, 2])] },
    { data: [entry(0, [1, 2]), entry(1, [1])] },
    { data: [entry(0, [1, 2]), entry(1, [1, 'x'])] },
    { data: [entry(0, [1, 2]), entry(1, 'AAA')] },
    { data: [entry(0, []), entry(1, [])] },
  ]) {
    invalid = body;
    const answer = await ask(server, '/v1/embeddings', { model: 'broken', input: ['x', 'y'] });
    t.match(answer, { status: 500, body: { error: { code: 'model_error' } } }, JSON.stringify(body));
  }
  invalid = { data: [entry(0, [1, 2])] };
  const shorter = { model: 'broken', input: 'x', dimensions: 3 };
  t.match(await ask(server, '/v1/embeddings', shorter), { status: 500, body: { error: { message: /requested dim/ } } });
  invalid = { data: [entry(0, [1, 2, 3])] };
  t.equal((await ask(server, '/v1/embeddings', shorter)).status, 200);
});

t.test('a response with lists of numbers, out of order and without usage', async (t) => {
  invalid = {
    data: [
      { index: 1, embedding: [0, 1] },
      { index: 0, embedding: [1, 0] },
    ],
  };
  const { data } = await embed(server, { model: 'broken', input: ['x', 'y'] });
  t.same(
    data.map(({ embedding }) => embedding),
    [
      [1, 0],
      [0, 1],
    ],
  );
});

t.test('an upstream that may not cut inputs gets no field for it', async (t) => {
  invalid = { data: [{ index: 0, embedding: [0, 1] }] };
  for (const [path, field] of [
    ['/api/embed', 'input'],
    ['/api/embeddings', 'prompt'],
    ['/v1/embeddings', 'input'],
  ] as const) {
    t.equal((await ask(server, path, { model: 'broken', [field]: 'x' })).status, 200, path);
    t.same(JSON.parse(received), { model: 'broken', input: ['x'], encoding_format: 'base64' });
  }
  for (const [path, fields, param] of [
    ['/api/embed', { truncate: true }, 'truncate'],
    ['/v1/embeddings', { truncate: 'END' }, 'truncate'],
    ['/v1/embeddings', { truncate_prompt_tokens: 5 }, 'truncate_prompt_tokens'],
    ['/v1/embeddings', { truncate: true, truncate_prompt_tokens: -1 }, 'truncate_prompt_tokens'],
  ] as const) {
    const refused = await ask(server, path, { model: 'broken', input: 'x', ...fields });
    t.equal(refused.status, 422);
    t.match(refused.text, new RegExp(`${param} is not supported for broken`), JSON.stringify(fields));
  }
});

t.test('an upstream that cuts inputs does so by default in the format of Ollama', async (t) => {
  const input = 'and so on and so forth '.repeat(40);
  t.equal((await ask(server, '/api/embed', { model: 'far', input })).status, 200);
  t.equal((await ask(server, '/api/embed', { model: 'far', input, truncate: true })).status, 200);
  t.equal((await ask(server, '/api/embed', { model: 'far', input, truncate: false })).status, 400);
});

t.test('a client that disconnects cancels the request to the upstream', async (t) => {
  invalid = undefined;
  received = '';
  const before = disconnects;
  const leaving = new AbortController();
  const answer = post(server, '/v1/embeddings', { model: 'broken', input: 'x' }, {}, leaving.signal);
  t.ok(await eventually(() => received !== ''), 'the upstream has the request');
  t.equal(disconnects, before);
  leaving.abort();
  await t.rejects(answer);
  t.ok(await eventually(() => disconnects > before), 'its connection is closed');
});
