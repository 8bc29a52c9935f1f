// Runs the whole server with a model on an emulated GPU, which executes the CUDA backend's own kernels and host code,
// but very slowly. Clients must see the same behavior as on the CPU. Part of npm run test:slow.
import { join } from 'node:path';
import OpenAI from 'openai';
import t from 'tap';
import { embeddedModel, eventually, root, startMonolith } from './monolith.js';

t.setTimeout(300_000); // the machine may be busy

const emulated = join(root, 'build', 'native', 'monolith_emulated.node');
const server = await startMonolith({
  args: [
    '--model',
    `starter=${embeddedModel}`,
    '--device',
    'cuda',
    '--max-context',
    '256',
    '--engine-max-batch-tokens',
    '64',
    '--engine-max-sequences',
    '8',
  ],
  env: { MONOLITH_ADDON: emulated },
});
t.teardown(() => server.stop());
const client = new OpenAI({ baseURL: `${server.url}/v1`, apiKey: server.key, maxRetries: 0 });
const messages = [{ role: 'user' as const, content: 'Name three colours.' }];

t.test('the log names the device', (t) => {
  t.match(server.log(), /emulated GPU/);
  t.end();
});

t.test('concurrent streamed responses equal the complete response', async (t) => {
  const ask = { model: 'starter', messages, max_tokens: 8, temperature: 0 };
  const whole = await client.chat.completions.create(ask);
  const text = whole.choices[0]?.message.content ?? '';
  t.ok(text.length > 0);
  const streamed = async (): Promise<string> => {
    let out = '';
    for await (const chunk of await client.chat.completions.create({ ...ask, stream: true }))
      out += chunk.choices[0]?.delta.content ?? '';
    return out;
  };
  t.same(await Promise.all([streamed(), streamed(), streamed()]), [text, text, text]);
});

t.test('seeds, several choices, logprobs and stop strings work', async (t) => {
  const ask = {
    model: 'starter',
    messages,
    max_tokens: 6,
    temperature: 1,
    seed: 5,
    n: 2,
    logprobs: true,
    top_logprobs: 2,
  };
  const [one, two] = await Promise.all([client.chat.completions.create(ask), client.chat.completions.create(ask)]);
  t.same(one.choices, two.choices);
  t.equal(one.choices.length, 2);
  for (const choice of one.choices)
    for (const token of choice.logprobs?.content ?? []) t.ok(token.logprob <= 0 && token.top_logprobs.length === 2);
  const first = one.choices[0]?.logprobs?.content?.[0]?.token ?? '';
  const stopped = await client.chat.completions.create({ ...ask, n: 1, stop: [first] });
  t.match(stopped.choices[0], { message: { content: '' }, finish_reason: 'stop' });
});

t.test('output matches a JSON schema', async (t) => {
  const schema = {
    type: 'object',
    properties: { sure: { type: 'boolean' } },
    required: ['sure'],
    additionalProperties: false,
  };
  const response = await client.chat.completions.create({
    model: 'starter',
    messages,
    max_tokens: 96,
    response_format: { type: 'json_schema', json_schema: { name: 'answer', strict: true, schema } },
  });
  t.type((JSON.parse(response.choices[0]?.message.content ?? '') as { sure: boolean }).sure, 'boolean');
});

t.test('a client that disconnects frees its sequence slot', async (t) => {
  const stream = await client.chat.completions.create({
    model: 'starter',
    messages,
    max_tokens: 200,
    logit_bias: { 1527: -100 },
    stream: true,
  });
  // leaving the loop closes the connection
  for await (const chunk of stream) if ((chunk.choices[0]?.delta.content ?? '') !== '') break;
  t.ok(
    await eventually(async () => (await server.metrics()).get('monolith_sequences_running{model="starter"}') === 0),
    'the sequence slot is free again',
  );
});
