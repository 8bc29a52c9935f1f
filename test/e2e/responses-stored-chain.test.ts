// Tests a chain of fifty responses on the embedded model: each must compute only its new tokens.
import OpenAI from 'openai';
import t from 'tap';
import { startMonolith } from './monolith.js';

t.setTimeout(300_000); // the machine may be busy

const DEPTH = 50;

t.test('a chain of fifty responses reuses the prefix cache', async (t) => {
  const server = await startMonolith();
  t.teardown(() => server.stop());
  const client = new OpenAI({ baseURL: `${server.url}/v1`, apiKey: server.key, maxRetries: 0 });
  const turn = (previous_response_id: string | null, input: string) =>
    client.responses.create({ model: 'tycho-1.0', previous_response_id, input, max_output_tokens: 4, temperature: 0 });
  let last = await turn(null, 'My name is Ada. Say hello.');
  const cached: number[] = [];
  let expected = 1; // items before the last response's output
  for (let depth = 2; depth <= DEPTH; depth++) {
    const next = await turn(last.id, `Turn ${depth}.`);
    t.ok(next.usage!.input_tokens > last.usage!.input_tokens, 'the prompt is the whole chain');
    cached.push(next.usage!.input_tokens_details.cached_tokens / last.usage!.input_tokens);
    expected += last.output.length + 1;
    last = next;
  }
  t.ok(
    cached.every((share, at) => at < 4 || share > 0.5),
    'most of the previous prompt comes from the cache',
  );
  let items = 0;
  for await (const _ of client.responses.inputItems.list(last.id, { limit: 100 })) items++;
  t.equal(items, expected);
});
