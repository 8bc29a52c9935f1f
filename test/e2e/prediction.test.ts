// Tests predicted outputs in chat completions, with the embedded model: the response is the same as without a
// prediction, and the usage counts the prediction's tokens.
import OpenAI from 'openai';
import t from 'tap';
import { embeddedModel, startMonolith, type Monolith } from './monolith.js';

t.setTimeout(300_000); // the machine may be busy

const model = 'starter';
const server = await startMonolith({ args: ['--model', `${model}=${embeddedModel}`] });
t.teardown(() => server.stop());
const clientOf = ({ url, key }: Monolith): OpenAI => new OpenAI({ baseURL: `${url}/v1`, apiKey: key, maxRetries: 0 });
const client = clientOf(server);

type Params = Partial<OpenAI.ChatCompletionCreateParamsNonStreaming>;
/** Sets `ignore_eos`, because the model would otherwise end its response early. */
const body = {
  model,
  messages: [{ role: 'user' as const, content: 'Tell me a long story about a ship.' }],
  max_completion_tokens: 60,
  temperature: 0,
  reasoning_effort: 'none' as const,
  ...{ ignore_eos: true },
};
const ask = (more: Params = {}): Promise<OpenAI.ChatCompletion> => client.chat.completions.create({ ...body, ...more });
const textOf = ({ choices }: OpenAI.ChatCompletion, at = 0): string => choices[at]!.message.content!;
const predicted = (content: string): Params => ({ prediction: { type: 'content', content } });
const countsOf = ({ usage }: OpenAI.ChatCompletion): { accepted: number; rejected: number } => ({
  accepted: usage!.completion_tokens_details!.accepted_prediction_tokens!,
  rejected: usage!.completion_tokens_details!.rejected_prediction_tokens!,
});
async function tokensOf(prompt: string): Promise<number[]> {
  const response = await fetch(`${server.url}/tokenize`, {
    method: 'POST',
    headers: { authorization: `Bearer ${server.key}`, 'content-type': 'application/json' },
    body: JSON.stringify({ model, prompt, add_special_tokens: false }),
  });
  return ((await response.json()) as { tokens: number[] }).tokens;
}

t.test('the response is the same, and a correct prediction is accepted', async (t) => {
  for (const more of [{}, { temperature: 0.8, seed: 7 }, { stop: [' and'] }, { logprobs: true, top_logprobs: 2 }]) {
    const plain = await ask(more);
    const same = await ask({ ...more, ...predicted(textOf(plain)) });
    t.same(same.choices, plain.choices, JSON.stringify(more));
    t.same(countsOf(plain), { accepted: 0, rejected: 0 });
    const { accepted, rejected } = countsOf(same);
    const { length } = await tokensOf(textOf(plain));
    t.equal(accepted + rejected, length);
    t.ok(accepted >= length - 8, `${accepted} of ${length} tokens`);
    t.equal(same.usage!.completion_tokens, plain.usage!.completion_tokens);
  }
});

t.test('a prediction that fits only in part is used where it fits', async (t) => {
  const plain = await ask();
  const text = textOf(plain);
  const words = text.split(' ');
  words[10] = 'crocodile';
  const edited = await ask(predicted(words.join(' ')));
  t.same(edited.choices, plain.choices);
  const { accepted, rejected } = countsOf(edited);
  t.ok(accepted > 30 && rejected > 0, `${accepted} accepted, ${rejected} rejected`);
  const wrong = await ask(predicted('9 8 7 6 5 4 3 2 1 0'));
  t.same(wrong.choices, plain.choices);
  t.equal(countsOf(wrong).accepted, 0);
  t.ok(countsOf(wrong).rejected > 0);
});

t.test('predictions work with several choices, tools, formats and streams', async (t) => {
  const several = { n: 3, temperature: 0.9, seed: 3 };
  const plain = await ask(several);
  const same = await ask({ ...several, ...predicted(textOf(plain, 1)) });
  t.same(same.choices, plain.choices);
  t.ok(countsOf(same).accepted >= (await tokensOf(textOf(plain, 1))).length - 8);

  const tools: OpenAI.ChatCompletionTool[] = [
    {
      type: 'function',
      function: { name: 'f', parameters: { type: 'object', properties: { a: { type: 'string' } } } },
    },
  ];
  const format: Params = { response_format: { type: 'json_object' } };
  for (const more of [{ tools } as Params, format]) {
    const before = await ask(more);
    const after = await ask({ ...more, ...predicted(textOf(before) ?? 'x') });
    t.same(after.choices.map(withoutIds), before.choices.map(withoutIds));
  }

  const { prediction } = predicted(textOf(await ask()));
  let text = '';
  let usage: OpenAI.CompletionUsage | null | undefined;
  for await (const chunk of await client.chat.completions.create({
    ...body,
    stream: true,
    stream_options: { include_usage: true },
    prediction: prediction!,
  })) {
    text += chunk.choices[0]?.delta.content ?? '';
    usage = chunk.usage ?? usage;
  }
  t.equal(text, prediction!.content);
  t.ok(usage!.completion_tokens_details!.accepted_prediction_tokens! > 40);
});

const withoutIds = ({ message, finish_reason: reason }: OpenAI.ChatCompletion.Choice): unknown => [
  message.content,
  message.tool_calls?.map((call) => (call.type === 'function' ? call.function : call.custom)),
  reason,
];

t.test('a correct prediction reduces the number of steps', async (t) => {
  const steps = async (): Promise<number> =>
    [...(await server.metrics())].find(([name]) => name.startsWith('monolith_steps_total'))?.[1] ?? NaN;
  const text = textOf(await ask());
  const before = await steps();
  await ask();
  const plain = (await steps()) - before;
  await ask(predicted(text));
  const less = (await steps()) - before - plain;
  t.ok(less < plain * 0.8, `${less} steps instead of ${plain}`);
});

t.test('a prediction longer than the context is refused', async (t) => {
  await t.rejects(ask(predicted('ship '.repeat(50_000))), {
    status: 422,
    code: 'string_too_long',
    param: 'prediction.content',
  });
});

t.test('without speculative decoding, the prediction is listed as ignored', async (t) => {
  const plain = await startMonolith({
    args: ['--model', `${model}=${embeddedModel}`, '--engine-speculation', 'off'],
  });
  t.teardown(() => plain.stop());
  const { data, response } = await clientOf(plain)
    .chat.completions.create({
      model,
      messages: [{ role: 'user', content: 'Hello' }],
      max_completion_tokens: 5,
      prediction: { type: 'content', content: 'Hello there' },
    })
    .withResponse();
  t.equal(response.headers.get('x-ignored-parameters'), 'prediction');
  t.same(countsOf(data), { accepted: 0, rejected: 0 });
});
