// Tests that the engine computes requests of batches in the background: an interactive request takes the only sequence
// slot from a batch of the same organization, and the batch still gets complete responses.
import OpenAI, { toFile } from 'openai';
import t from 'tap';
import { startScripted } from '../support/script-model.js';
import { eventually } from './monolith.js';

t.setTimeout(600_000); // the machine may be busy

const model = 'clarke-1.0';
const TOKENS = 12_000;
const server = await startScripted({ args: ['--engine-max-sequences', '1', '--batches-concurrency', '1'] });
t.teardown(() => server.stop());
const openai = new OpenAI({ baseURL: `${server.url}/v1`, apiKey: server.key, maxRetries: 0 });

const body = (content: string, max_completion_tokens: number) => ({
  model,
  reasoning_effort: 'none' as const,
  max_completion_tokens,
  messages: [{ role: 'user' as const, content }],
});

t.test('an interactive request does not wait for the requests of a batch', async (t) => {
  const line = { custom_id: 'a', method: 'POST', url: '/v1/chat/completions', body: body('L: x', TOKENS) };
  const file = await openai.files.create({
    file: await toFile(Buffer.from(JSON.stringify(line)), 'input.jsonl'),
    purpose: 'batch',
  });
  const { id } = await openai.batches.create({
    input_file_id: file.id,
    endpoint: '/v1/chat/completions',
    completion_window: '24h',
  });
  t.ok(await eventually(isRunning, 60_000));
  for (let i = 0; i < 3; i++) {
    const { choices } = await openai.chat.completions.create(body('A: x', 20));
    t.match(choices[0]!.message.content, /^Paris/);
    t.equal((await openai.batches.retrieve(id)).request_counts!.completed, 0, 'the batch is still running');
  }
  t.ok(await eventually(async () => (await openai.batches.retrieve(id)).status === 'completed', 300_000));
  const { output_file_id } = await openai.batches.retrieve(id);
  const output = JSON.parse(await (await openai.files.content(output_file_id!)).text()) as {
    response: { body: OpenAI.ChatCompletion };
  };
  t.equal(output.response.body.usage!.completion_tokens, TOKENS);
});

const isRunning = async (): Promise<boolean> =>
  [...(await server.metrics())].some(([name, value]) => name.startsWith('monolith_sequences_running') && value > 0);
