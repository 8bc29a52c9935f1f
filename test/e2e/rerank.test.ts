// Tests reranking and scores on a real cross-encoder, and the vectors of an encoder against golden values, with plain
// HTTP and with Cohere's official client.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { CohereClient, CohereClientV2, CohereError } from 'cohere-ai';
import t from 'tap';
import { publishedAnswers } from '../../src/protocol/openapi/document.js';
import { ask, get } from '../support/wire.js';
import { root, startMonolith } from './monolith.js';

t.setTimeout(300_000); // the machine may be busy

interface Golden {
  prompts: {
    text: string;
    add_special: boolean;
    tokens: number[];
    embedding?: { exact: string };
    scores?: { exact: string };
  }[];
}
const folder = join(root, 'test', 'data', 'vectors2', 'models');
const golden = (name: string): Golden => JSON.parse(readFileSync(join(folder, `${name}.json`), 'utf8')) as Golden;
const floats = (text: string): number[] => {
  const bytes = Buffer.from(text, 'base64');
  return Array.from({ length: bytes.length / 4 }, (_, at) => bytes.readFloatLE(4 * at));
};

const server = await startMonolith({
  args: [
    '--model',
    `rank=${join(folder, 'bert-rank.q8_0.gguf')}`,
    '--model',
    `bert=${join(folder, 'bert-mean.q8_0.gguf')}`,
    '--model',
    `qwen=${join(folder, 'qwen3-rank.q8_0.gguf')}`,
  ],
  env: { MONOLITH_LIMITS_RPM: 'off', MONOLITH_LIMITS_TPM: 'off', MONOLITH_LIMITS_CONCURRENCY: 'off' },
});
t.teardown(() => server.stop());

interface Ranking {
  results: { index: number; relevance_score: number; document?: { text: string } }[];
  usage: { prompt_tokens: number };
  meta: { api_version: { version: string } };
}
interface Scores {
  data: { index: number; score: number }[];
  usage: { prompt_tokens: number };
}
const query = 'Where are the boats?';
const documents = ['A boat in the fog.', 'A red car.', 'The harbour master counted seventeen boats.'];
const rerank = async (body: object, path = '/v1/rerank'): Promise<Ranking> => {
  const answer = await ask(server, path, { model: 'rank', query, documents, ...body });
  if (answer.status !== 200) throw new Error(answer.text);
  return answer.body as Ranking;
};
const score = async (body: object, path = '/v1/score'): Promise<Scores> => {
  const answer = await ask(server, path, { model: 'rank', ...body });
  if (answer.status !== 200) throw new Error(answer.text);
  return answer.body as Scores;
};

t.test('embeddings of an encoder match the golden vectors', async (t) => {
  for (const { text, add_special, tokens, embedding } of golden('bert-mean.q8_0').prompts) {
    const exact = floats(embedding!.exact);
    const length = Math.hypot(...exact);
    for (const input of [text, tokens]) {
      const { body } = await ask(server, '/v1/embeddings', { model: 'bert', input, add_special_tokens: add_special });
      const { data, usage } = body as { data: [{ embedding: number[] }]; usage: { prompt_tokens: number } };
      t.equal(usage.prompt_tokens, tokens.length);
      const worst = Math.max(...data[0].embedding.map((value, at) => Math.abs(value - exact[at]! / length)));
      t.ok(worst < 0.01, `${text.slice(0, 20)}: ${worst}`);
    }
  }
});

t.test('documents are ranked by the score of the query with each document', async (t) => {
  const { results, usage } = await rerank({});
  const scores = await score({ text_1: query, text_2: documents });
  t.same(
    results.map(({ index }) => index),
    [...scores.data].sort((a, b) => b.score - a.score).map(({ index }) => index),
  );
  for (const { index, relevance_score } of results) t.equal(relevance_score, scores.data[index]!.score);
  t.equal(usage.prompt_tokens, scores.usage.prompt_tokens);
  const { tokens: asked } = (await ask(server, '/tokenize', { model: 'rank', prompt: query })).body as {
    tokens: number[];
  };
  const { tokens: said } = (
    await ask(server, '/tokenize', { model: 'rank', prompt: documents[0], add_special_tokens: false })
  ).body as { tokens: number[] };
  const one = await score({ text_1: query, text_2: documents[0] });
  t.equal(one.usage.prompt_tokens, asked.length + said.length + 1, '[CLS] query [SEP] document [SEP]');
});

t.test('all paths serve the same ranking, with the version of their API', async (t) => {
  const first = await rerank({});
  for (const [path, version] of [
    ['/v1/rerank', '1'],
    ['/v2/rerank', '2'],
    ['/rerank', '1'],
  ] as const) {
    const answer = await rerank({}, path);
    t.same(answer.results, first.results, path);
    t.equal(answer.meta.api_version.version, version);
    publishedAnswers.Ranking.parse(answer);
  }
  const asked = { text_1: [query, 'cars'], text_2: documents.slice(0, 2) };
  const pairs = await score(asked);
  t.same((await score(asked, '/score')).data, pairs.data);
  publishedAnswers.Scores.parse(pairs);
});

t.test("Cohere's client ranks documents at /v2/rerank and /v1/rerank", async (t) => {
  const options = { token: server.key, environment: server.url, maxRetries: 0 };
  const client = new CohereClientV2(options);
  const { results: expected, usage } = await rerank({});
  const scores = expected.map(({ index, relevance_score: relevanceScore }) => ({ index, relevanceScore }));
  const asked = { model: 'rank', query, documents };
  const { data: ranking, rawResponse } = await client.rerank({ ...asked, priority: 5 }).withRawResponse();
  t.same(
    ranking.results.map(({ index, relevanceScore }) => ({ index, relevanceScore })),
    scores,
  );
  t.match(ranking, {
    id: String,
    meta: { apiVersion: { version: '2' }, tokens: { inputTokens: usage.prompt_tokens } },
  });
  t.match(rawResponse.headers.get('x-ignored-parameters'), /priority/, 'a parameter without effect is named');
  const top = await client.rerank({ ...asked, topN: 1, maxTokensPerDoc: 100 });
  t.same(
    top.results.map(({ index, relevanceScore }) => ({ index, relevanceScore })),
    scores.slice(0, 1),
  );
  const first = await new CohereClient(options).rerank({
    ...asked,
    documents: documents.map((text) => ({ text })),
    returnDocuments: true,
  });
  t.same(
    first.results.map(({ index, document }) => ({ index, text: document?.text })),
    scores.map(({ index }) => ({ index, text: documents[index] })),
  );
  for (const [change, status] of [
    [{ model: 'none' }, 404],
    [{ model: 'bert' }, 422],
    [{ topN: 0 }, 422],
  ] as const) {
    const error: unknown = await client.rerank({ ...asked, ...change }).catch((error: unknown) => error);
    t.ok(error instanceof CohereError && error.statusCode === status, `${status}: ${String(error)}`);
  }
  const stranger = new CohereClientV2({ ...options, token: 'sk-wrong' });
  const refused: unknown = await stranger.rerank(asked).catch((error: unknown) => error);
  t.ok(refused instanceof CohereError && refused.statusCode === 401);
});

t.test('top_n, return_documents and documents as objects', async (t) => {
  const all = await rerank({});
  const top = await rerank({ top_n: 2, return_documents: true, documents: documents.map((text) => ({ text })) });
  t.same(
    top.results,
    all.results.slice(0, 2).map((result) => ({ ...result, document: { text: documents[result.index] } })),
  );
  t.equal((await rerank({ top_n: 99 })).results.length, documents.length);
});

t.test('long documents are cut, and refused if the request turns that off', async (t) => {
  const long = `${documents[0]} `.repeat(500);
  const cut = await ask(server, '/v2/rerank', { model: 'rank', query, documents: ['short', long] });
  t.equal(cut.headers.get('x-truncated-inputs'), 'documents[1]');
  const bounded = await rerank({ documents: [long], max_tokens_per_doc: 3 });
  const whole = await rerank({ documents: ['A'] });
  t.ok(bounded.usage.prompt_tokens - whole.usage.prompt_tokens <= 2, 'three tokens of the document');
  for (const [path, body, param] of [
    ['/v1/rerank', { query, documents: ['short', long], truncate: false }, 'documents[1]'],
    ['/v1/rerank', { query: long, documents: ['short'] }, 'query'],
    ['/v1/score', { text_1: [long], text_2: ['short'], truncate: true }, 'text_1'],
    ['/v1/score', { text_1: [query, long], text_2: ['a', 'b'] }, 'text_1[1]'],
    ['/v1/score', { text_1: query, text_2: long }, 'text_2'],
  ] as const) {
    const refused = await ask(server, path, { model: 'rank', ...body });
    t.match(refused, { status: 400, body: { error: { code: 'context_length_exceeded', param } } });
  }
  const scored = await ask(server, '/v1/score', {
    model: 'rank',
    text_1: query,
    text_2: long,
    truncate_prompt_tokens: 20,
  });
  t.equal(scored.headers.get('x-truncated-inputs'), 'text_2');
  t.equal((scored.body as Scores).usage.prompt_tokens, 20);
  const narrow = { model: 'rank', text_1: query, text_2: long, truncate_prompt_tokens: 5 };
  t.match(await ask(server, '/v1/score', narrow), {
    status: 422,
    body: { error: { code: 'value_out_of_range', param: 'truncate_prompt_tokens', message: /includ.* text_1/ } },
  });
});

t.test('truncate: START keeps the end of a document', async (t) => {
  const last = documents[2]!;
  const text_2 = `${'A red car. '.repeat(50)}${last}`;
  const alone = await score({ text_1: query, text_2: last });
  const room = { truncate_prompt_tokens: alone.usage.prompt_tokens };
  t.same((await score({ text_1: query, text_2, truncate: 'START', ...room })).data, alone.data);
  t.notSame((await score({ text_1: query, text_2, truncate: 'END', ...room })).data, alone.data);
  const { body } = await ask(server, '/tokenize', { model: 'rank', prompt: last, add_special_tokens: false });
  const max_tokens_per_doc = (body as { tokens: number[] }).tokens.length;
  const ranked = await rerank({ documents: [text_2], truncate: 'START', max_tokens_per_doc });
  t.equal(ranked.results[0]!.relevance_score, alone.data[0]!.score);
});

t.test('special tokens in texts are plain text', async (t) => {
  const hidden = await score({ text_1: query, text_2: '[SEP]' });
  const none = await score({ text_1: query, text_2: 'x' });
  t.ok(hidden.usage.prompt_tokens > none.usage.prompt_tokens, 'more than one token');
});

t.test('a Qwen3 reranker reads its own prompt, and returns the probability of "yes"', async (t) => {
  const { results, usage } = await rerank({ model: 'qwen' });
  t.equal(results.length, documents.length);
  for (const { relevance_score } of results) t.ok(relevance_score > 0 && relevance_score < 1);
  const plain = (await rerank({})).usage.prompt_tokens;
  t.ok(usage.prompt_tokens > plain + documents.length * 50, 'the prompt surrounds each pair');
});

t.test('invalid requests are refused with an error that names the parameter', async (t) => {
  const refusals: [path: string, body: object, expected: string][] = [
    ['/v1/rerank', { documents }, '400 missing_required_parameter query'],
    ['/v1/rerank', { query }, '400 missing_required_parameter documents'],
    ['/v1/rerank', { query, documents: 'x' }, '400 invalid_type documents'],
    ['/v1/rerank', { query, documents: ['x', 7] }, '400 invalid_type documents[1]'],
    ['/v1/rerank', { query, documents: Array(2_049).fill('x') }, '422 array_too_long documents'],
    ['/v1/rerank', { query, documents, top_n: 0 }, '422 value_out_of_range top_n'],
    ['/v1/rerank', { query, documents, model: 'bert' }, '422 model_not_ranking model'],
    ['/v1/rerank', { query, documents, model: 'none' }, '404 model_not_found model'],
    ['/v1/score', { text_1: 'x' }, '400 missing_required_parameter text_2'],
    ['/v1/score', { text_1: ['x', 'y'], text_2: ['x', 'y', 'z'] }, '422 conflicting_parameters text_1'],
    ['/v1/embeddings', { model: 'rank', input: 'x' }, '422 model_not_embedding model'],
    ['/v1/chat/completions', { messages: [{ role: 'user', content: 'x' }] }, '422 model_not_generative model'],
  ];
  for (const [path, body, expected] of refusals) {
    const { status, body: answer } = await ask(server, path, { model: 'rank', ...body });
    const { code, param } = (answer as { error: { code: string; param: string } }).error;
    t.equal(`${status} ${code} ${param}`, expected, JSON.stringify(body).slice(0, 80));
  }
});

t.test('the model list reports the task', async (t) => {
  t.match((await get(server, '/v1/models/rank')).body, { task: 'ranking', embedding_dimensions: null });
});

t.test('endpoints that this server does not have name what there is', async (t) => {
  for (const [path, says] of [
    ['/v1/audio/speech', /does not process audio.*\/v1\/chat\/completions/],
    ['/v1/images/generations', /does not generate images/],
    ['/v1/fine_tuning/jobs', /does not train models/],
    ['/v1/assistants', /has no assistants.*\/v1\/responses/],
    ['/v1/moderations', /no moderation models/],
    ['/classify', /\/v1\/embeddings, \/v1\/rerank and \/v1\/score/],
    ['/pooling', /\/v1\/embeddings, \/v1\/rerank and \/v1\/score/],
    ['/v1/realtime/sessions', /no realtime sessions/],
  ] as const)
    t.match(await ask(server, path, {}), { status: 404, body: { error: { code: 'unknown_endpoint', message: says } } });
});
