// Tests embeddings with a real model through the official clients. Details that the clients do not expose are tested
// with plain HTTP requests.
import { join } from 'node:path';
import OpenAI from 'openai';
import OpenAI7 from 'openai-7';
import { Ollama } from 'ollama';
import type { EmbeddingCreateParams } from 'openai-7/resources/embeddings';
import t from 'tap';
import { publishedAnswers } from '../../src/protocol/openapi/document.js';
import { embeddingModel } from '../support/pooling-model.js';
import { ask, get, post } from '../support/wire.js';
import { embeddedModel, eventually, root, startMonolith } from './monolith.js';

t.setTimeout(300_000); // the machine may be busy

const file = embeddingModel('qwen3', 'last');
t.teardown(() => file.remove());

const off = { MONOLITH_LIMITS_RPM: 'off', MONOLITH_LIMITS_TPM: 'off', MONOLITH_LIMITS_CONCURRENCY: 'off' };
const models = {
  embed: { embedding_dimensions: [16, 32], embedding_prompts: { query: 'query: ', document: 'passage: ' } },
  raw: { normalize: false, context_window: 64 },
  prompted: { embedding_prompts: { default: 'passage: ' } },
};
const files = join(root, 'test', 'data');
/** Model files that no other test model uses, because models with the same file share one loaded copy. */
const unloaded = {
  'unloaded-embed': join(files, 'vectors2', 'models', 'bert-mean.q8_0.gguf'),
  'unloaded-rank': join(files, 'vectors2', 'models', 'bert-rank.q8_0.gguf'),
  'unloaded-chat': join(files, 'vectors', 'models', 'llama.q8_0.gguf'),
};
const onDemand = Object.fromEntries(Object.keys(unloaded).map((name) => [name, { load: 'demand' }]));
const server = await startMonolith({
  args: Object.keys(models)
    .flatMap((name) => ['--model', `${name}=${file.path}`])
    .concat(['--model', `chat=${embeddedModel}`])
    .concat(Object.entries(unloaded).flatMap(([name, path]) => ['--model', `${name}=${path}`]))
    .concat(['--models', JSON.stringify({ ...models, ...onDemand })]),
  env: off,
});
t.teardown(() => server.stop());
const connection = { apiKey: server.key, baseURL: `${server.url}/v1`, maxRetries: 0 };
const clients = { openai: new OpenAI(connection), 'openai-7': new OpenAI7(connection) };
const ollama = new Ollama({ host: server.url, headers: { authorization: `Bearer ${server.key}` } });

interface Embeddings {
  object: string;
  model: string;
  data: { object: string; index: number; embedding: number[] }[];
  usage: { prompt_tokens: number; total_tokens: number };
}
const embed = async (body: object): Promise<Embeddings> => {
  const answer = await ask(server, '/v1/embeddings', { model: 'embed', ...body });
  if (answer.status !== 200) throw new Error(answer.text);
  return answer.body as Embeddings;
};
const vectorOf = async (body: object): Promise<number[]> => (await embed(body)).data[0]!.embedding;
const lengthOf = (vector: readonly number[]): number => Math.hypot(...vector);
const near = (one: readonly number[], other: readonly number[]): boolean =>
  one.length === other.length && one.every((value, at) => Math.abs(value - other[at]!) < 1e-6);
const tokensOf = async (prompt: string): Promise<number[]> =>
  ((await ask(server, '/tokenize', { model: 'embed', prompt })).body as { tokens: number[] }).tokens;

for (const [name, { embeddings }] of Object.entries(clients))
  t.test(`${name} gets vectors of length 1, as floats and in base64`, async (t) => {
    const input = ['The harbour master counted the boats.', 'A completely different text.'];
    const packed = await embeddings.create({ model: 'embed', input });
    const plain = await embeddings.create({ model: 'embed', input, encoding_format: 'float' });
    t.match(packed, { object: 'list', model: 'embed' });
    t.same(
      packed.data.map(({ index, object }) => ({ index, object })),
      [0, 1].map((index) => ({ index, object: 'embedding' })),
    );
    for (const [index, { embedding }] of packed.data.entries()) {
      t.ok(Math.abs(lengthOf(embedding) - 1) < 1e-5, 'normalized');
      t.same(Array.from(Float32Array.from(plain.data[index]!.embedding)), Array.from(embedding), 'the same bits');
    }
    t.notOk(near(packed.data[0]!.embedding, packed.data[1]!.embedding));
    const counts = await Promise.all(input.map(tokensOf));
    const tokens = counts.reduce((sum, { length }) => sum + length, 0);
    t.same(plain.usage, { prompt_tokens: tokens, total_tokens: tokens });
  });

t.test('a text and its token IDs give the same vector, alone and in a list', async (t) => {
  const text = 'The second number was the one he trusted.';
  const tokens = await tokensOf(text);
  const vector = await vectorOf({ input: text });
  t.same(await vectorOf({ input: tokens }), vector);
  const list = await embed({ input: [tokens, tokens.slice(0, 3)] });
  t.same(list.data[0]!.embedding, vector);
  t.same((await embed({ input: [text] })).data[0]!.embedding, vector);
});

t.test('2,048 inputs are answered in order', async (t) => {
  const input = Array.from({ length: 2_048 }, (_, index) => `text ${index}`);
  const { data } = await embed({ input });
  t.same(
    data.map(({ index }) => index),
    input.map((_, index) => index),
  );
  for (const index of [0, 1_000, 2_047])
    t.same(data[index]!.embedding, await vectorOf({ input: input[index] }), `input ${index}`);
});

t.test('dimensions cuts and scales the vector', async (t) => {
  const whole = await vectorOf({ input: 'boats' });
  const cut = await vectorOf({ input: 'boats', dimensions: 16 });
  t.equal(cut.length, 16);
  const scale = lengthOf(whole.slice(0, 16));
  t.ok(
    near(
      cut,
      whole.slice(0, 16).map((value) => value / scale),
    ),
  );
  t.same(await vectorOf({ input: 'boats', dimensions: whole.length }), whole);
});

t.test('models.<id>.normalize and embedding_prompts change the vector as documented', async (t) => {
  const raw = await vectorOf({ model: 'raw', input: 'boats' });
  t.ok(Math.abs(lengthOf(raw) - 1) > 0.01, 'not scaled');
  const scaled = await vectorOf({ input: 'boats' });
  t.ok(
    near(
      scaled,
      raw.map((value) => value / lengthOf(raw)),
    ),
  );
  t.same(
    await vectorOf({ input: 'boats', prompt_name: 'query' }),
    await vectorOf({ input: 'query: boats' }),
    'the named prompt precedes the text',
  );
  t.same(await vectorOf({ model: 'prompted', input: 'boats' }), await vectorOf({ input: 'passage: boats' }));
});

t.test('an input that is too long is refused, or cut if the request asks for it', async (t) => {
  const input = ['short', 'and so on and so forth '.repeat(40)];
  const answer = await ask(server, '/v1/embeddings', { model: 'raw', input });
  t.equal(answer.status, 400);
  t.match(answer.body, { error: { code: 'context_length_exceeded', param: 'input[1]', message: /at most 64/ } });
  const tokens = await tokensOf(input[1]!);
  for (const [fields, kept] of [
    [{ truncate_prompt_tokens: 5 }, tokens.slice(0, 5)],
    [{ truncate_prompt_tokens: -1 }, tokens.slice(0, 64)],
    [{ truncate: true }, tokens.slice(0, 64)],
    [{ truncate: 'START' }, tokens.slice(-64)],
  ] as const) {
    const cut = await ask(server, '/v1/embeddings', { model: 'raw', input: input[1], ...fields });
    t.equal(cut.headers.get('x-truncated-inputs'), 'input', JSON.stringify(fields));
    t.same((cut.body as Embeddings).data[0]!.embedding, await vectorOf({ model: 'raw', input: kept }));
  }
  const both = await ask(server, '/v1/embeddings', { model: 'raw', input, truncate: true });
  t.equal(both.headers.get('x-truncated-inputs'), 'input[1]');
});

t.test('invalid requests are refused with an error that names the parameter', async (t) => {
  const refusals: [body: object, expected: string][] = [
    [{}, '400 missing_required_parameter input'],
    [{ input: 7 }, '400 invalid_type input'],
    [{ input: [] }, '400 missing_required_parameter input'],
    [{ input: [[]] }, '400 missing_required_parameter input[0]'],
    [{ input: ['x', 3] }, '400 invalid_type input[1]'],
    [{ input: '' }, '422 invalid_value input'],
    [{ input: ['x', ''] }, '422 invalid_value input[1]'],
    [{ input: Array(2_049).fill('x') }, '422 array_too_long input'],
    [{ input: [1, 10_000_000] }, '422 invalid_value input[1]'],
    [{ input: [[1], [10_000_000]] }, '422 invalid_value input[1][0]'],
    [{ input: 'x', dimensions: 17 }, '422 unsupported_value dimensions'],
    [{ input: 'x', dimensions: 0 }, '422 value_out_of_range dimensions'],
    [{ input: 'x', encoding_format: 'hex' }, '422 invalid_value encoding_format'],
    [{ input: 'x', prompt_name: 'none' }, '422 unsupported_value prompt_name'],
    [{ input: [1], prompt_name: 'query' }, '422 conflicting_parameters prompt_name'],
    [{ input: 'x', truncate_prompt_tokens: 0 }, '422 value_out_of_range truncate_prompt_tokens'],
    [{ input: 'x', truncate: false, truncate_prompt_tokens: 3 }, '422 conflicting_parameters truncate'],
    [{ model: 'none', input: 'x' }, '404 model_not_found model'],
    [{ model: 'chat', input: 'x' }, '422 model_not_embedding model'],
  ];
  for (const [body, expected] of refusals) {
    const { status, body: answer } = await ask(server, '/v1/embeddings', { model: 'embed', ...body });
    const { code, param } = (answer as { error: { code: string; param: string } }).error;
    t.equal(`${status} ${code} ${param}`, expected, JSON.stringify(body).slice(0, 80));
  }
});

t.test("every field of the official client's type is accepted", async (t) => {
  // If a new version of the client adds a field to the type, this does not compile until the field is added here.
  const fields: Required<EmbeddingCreateParams> = {
    model: 'embed',
    input: 'boats',
    dimensions: 16,
    encoding_format: 'base64',
    user: 'somebody',
  };
  const answer = await ask(server, '/v1/embeddings', fields);
  t.equal(answer.status, 200);
  t.equal(answer.headers.get('x-ignored-parameters'), null);
});

t.test('fields without effect are listed', async (t) => {
  const answer = await ask(server, '/v1/embeddings', { model: 'embed', input: 'x', priority: 3, user: 'somebody' });
  t.equal(answer.headers.get('x-ignored-parameters'), 'priority');
});

t.test('requests for text are refused by name in every format', async (t) => {
  const messages = [{ role: 'user', content: 'hello' }];
  for (const [path, body] of [
    ['/v1/chat/completions', { messages }],
    ['/v1/completions', { prompt: 'hello' }],
    ['/v1/responses', { input: 'hello' }],
    ['/v1/messages', { messages, max_tokens: 5 }],
    ['/v1/messages/count_tokens', { messages }],
    ['/api/chat', { messages }],
    ['/api/generate', { prompt: 'hello' }],
  ] as const) {
    const { status, text } = await ask(server, path, { model: 'embed', ...body });
    t.equal(status, 422, path);
    t.match(text, /embed does not generate text: it is an embedding model. Use POST \/v1\/embeddings/);
  }
  const rank = await ask(server, '/v1/rerank', { model: 'embed', query: 'x', documents: ['y'] });
  t.match(rank, { status: 422, body: { error: { code: 'model_not_ranking', param: 'model' } } });
});

t.test('the model lists show what a model produces', async (t) => {
  const { body } = await get(server, '/v1/models/embed');
  const { length } = await vectorOf({ input: 'x' });
  t.match(body, { task: 'embedding', embedding_dimensions: [length, 32, 16] });
  t.match((await get(server, '/v1/models/chat')).body, { task: 'generation', embedding_dimensions: null });
  t.same((await ollama.show({ model: 'embed' })).capabilities, ['embedding']);
  for (const [name, capabilities] of [
    ['unloaded-embed', ['embedding']],
    ['unloaded-rank', []],
    ['unloaded-chat', ['completion', 'tools']],
  ] as const) {
    t.same((await ollama.show({ model: name })).capabilities, capabilities);
    t.match((await get(server, `/v1/models/${name}`)).body, { task: null }, 'not loaded');
  }
});

t.test("Ollama's client embeds one text and several", async (t) => {
  const expected = await vectorOf({ input: 'boats' });
  const one = await ollama.embed({ model: 'embed', input: 'boats' });
  t.match(one, { model: 'embed' });
  t.same(one.embeddings, [expected]);
  t.equal(one.prompt_eval_count, (await tokensOf('boats')).length);
  const several = await ollama.embed({ model: 'embed:latest', input: ['boats', 'fog'], dimensions: 16 });
  t.same(
    several.embeddings.map(({ length }) => length),
    [16, 16],
  );
  t.same((await ollama.embeddings({ model: 'embed', prompt: 'boats' })).embedding, expected);
  t.same((await ollama.embed({ model: 'embed', input: '' })).embeddings, [], 'only loads the model');
});

t.test("Ollama's API cuts long texts unless `truncate` is false", async (t) => {
  const input = 'and so on and so forth '.repeat(40);
  const cut = await ask(server, '/api/embed', { model: 'raw', input });
  t.match(cut, { status: 200 });
  t.equal(cut.headers.get('x-truncated-inputs'), 'input');
  const refused = await ask(server, '/api/embed', { model: 'raw', input, truncate: false });
  t.match(refused, { status: 400, body: { error: /at most 64/ } });
  t.match(await ask(server, '/api/embed', { model: 'embed', input: ['x', 7] }), {
    status: 400,
    body: { error: /input\[1\]/ },
  });
  t.match(await ask(server, '/api/embed', { model: 'chat', input: 'x' }), {
    status: 422,
    body: { error: /does not produce embeddings/ },
  });
});

t.test('responses have the published form', async (t) => {
  for (const encoding_format of ['float', 'base64'])
    publishedAnswers.Embeddings.parse(
      (await ask(server, '/v1/embeddings', { model: 'embed', input: 'x', encoding_format })).body,
    );
  publishedAnswers.OllamaEmbedResponse.parse((await ask(server, '/api/embed', { model: 'embed', input: 'x' })).body);
  publishedAnswers.OllamaEmbeddingsResponse.parse(
    (await ask(server, '/api/embeddings', { model: 'embed', prompt: 'x' })).body,
  );
  const { components } = (await get(server, '/openapi.json')).body as { components: { schemas: object } };
  t.ok('EmbeddingsRequest' in components.schemas);
  t.end();
});

t.test('a client that disconnects cancels its inputs', async (t) => {
  const leaving = new AbortController();
  const input = Array.from({ length: 2_048 }, (_, index) => `text ${index} `.repeat(20));
  const cancelled = async (): Promise<number> =>
    [...(await server.metrics())]
      .filter(([name]) => name.startsWith('monolith_engine_cancelled_total{') && name.includes('"embed"'))
      .reduce((sum, [, value]) => sum + value, 0);
  const before = await cancelled();
  const answer = post(server, '/v1/embeddings', { model: 'embed', input }, {}, leaving.signal);
  t.ok(
    await eventually(async () => ((await server.metrics()).get('monolith_sequences_running{model="embed"}') ?? 0) > 0),
    'it runs',
  );
  leaving.abort();
  await t.rejects(answer);
  t.ok(await eventually(async () => (await cancelled()) > before), 'the engine has cancelled its inputs');
});
