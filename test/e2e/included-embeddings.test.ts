// Tests the included embedding model through a server in its default configuration: it is loaded on the first request,
// and its vectors find the passage that answers a question.

import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import OpenAI from 'openai';
import t from 'tap';
import { configWith } from '../../src/config/load.js';
import { startServer } from '../../src/server/server.js';
import { createTelemetry } from '../../src/telemetry/telemetry.js';

t.setTimeout(300_000); // the machine may be busy

const MODEL = 'discovery-embed-1.0';
const PASSAGES = [
  'The lighthouse was built in 1871. Its lamp is lit at dusk by the keeper, who lives in the tower with his daughter.',
  'Bread dough needs flour, water, salt and yeast. Knead it for ten minutes and let it rise until it has doubled.',
  'Photosynthesis takes place in the leaves of plants. Sunlight, water and carbon dioxide become sugar and oxygen.',
  'The company was founded in Boston and sells office chairs. Delivery takes three days, and returns are free.',
  'Saturn has rings of ice and rock. It is the sixth planet from the Sun and the second largest.',
  'A wolf met a little girl in the forest and asked her where she was going with her basket.',
];
const QUESTIONS = [
  'Who lights the lamp in the lighthouse?',
  'How long do I knead the dough?',
  'What do plants make from sunlight?',
  'Where was the company founded?',
  'Which planet has rings?',
  'What did the wolf ask the girl?',
];

const dataDir = mkdtempSync(join(tmpdir(), 'monolith-embeddings-'));
const telemetry = createTelemetry({ format: 'json', level: 'silent' });
const server = await startServer(configWith({ port: 0, data_dir: dataDir }), { telemetry });
const key = server.createdKey as string;
const client = new OpenAI({ baseURL: `${server.url}/v1`, apiKey: key, maxRetries: 0 });
t.teardown(async () => {
  await server.close();
  rmSync(dataDir, { recursive: true, force: true });
});

const embed = async (input: string[]): Promise<number[][]> =>
  (await client.embeddings.create({ model: MODEL, input })).data.map(({ embedding }) => embedding);
const dot = (a: readonly number[], b: readonly number[]): number =>
  a.reduce((sum, value, at) => sum + value * b[at]!, 0);

t.test('the model is listed as an embedding model before it is loaded', async (t) => {
  t.match(await client.models.retrieve(MODEL), { task: 'embedding', context_window: 512, demonstration: true });
  t.equal(server.pool.get(MODEL)?.status.state, 'idle');
});

t.test('the first request loads the model, and each question is closest to its passage', async (t) => {
  const [questions, passages] = await Promise.all([embed(QUESTIONS), embed(PASSAGES)]);
  t.equal(server.pool.get(MODEL)?.status.state, 'ready');
  questions.forEach((question, at) => {
    t.equal(question.length, 256);
    t.ok(Math.abs(dot(question, question) - 1) < 1e-5, 'the vector has length 1');
    const scores = passages.map((passage) => dot(question, passage));
    t.equal(scores.indexOf(Math.max(...scores)), at, QUESTIONS[at]!);
  });
});

t.test('the model refuses to chat', async (t) => {
  const refused = await client.chat.completions
    .create({ model: MODEL, messages: [{ role: 'user', content: 'Hello' }] })
    .then(
      () => null,
      (error: unknown) => error,
    );
  t.match(refused, { status: 422, message: /embedding/ });
});
