// Tests token counting: for the same request body, each count endpoint must return the actual prompt length, regardless
// of the output token limit.

import t from 'tap';
import { startMonolith } from './monolith.js';

const server = await startMonolith({});
t.teardown(() => server.stop());

const model = 'hal-1.0';

async function post(
  path: string,
  body: object,
): Promise<{
  status: number;
  body: Record<string, unknown> & { usage?: Record<string, number>; input_tokens?: number; count?: number };
}> {
  const response = await fetch(`${server.url}${path}`, {
    method: 'POST',
    body: JSON.stringify({ model, ...body }),
    headers: {
      authorization: `Bearer ${server.key}`,
      'content-type': 'application/json',
      'anthropic-version': '2023-06-01',
    },
  });
  return { status: response.status, body: (await response.json()) as never };
}

const messages = [{ role: 'user', content: 'hello' }];

t.test('/v1/messages/count_tokens counts the prompt tokens that a message reports', async (t) => {
  const count = async (body: object): Promise<number> =>
    (await post('/v1/messages/count_tokens', { messages, ...body })).body.input_tokens ?? 0;
  const called = async (body: object): Promise<number> => {
    const { usage } = (await post('/v1/messages', { messages, ...body })).body;
    return usage!['input_tokens']! + usage!['cache_read_input_tokens']!;
  };
  for (const thinking of [{ type: 'adaptive' }, { type: 'disabled' }]) {
    for (const max_tokens of [1, 2, 3, 60])
      t.equal(
        await count({ thinking, max_tokens }),
        await called({ thinking, max_tokens }),
        `${thinking.type}, max_tokens ${max_tokens}`,
      );
  }
  const thinking = { type: 'adaptive' };
  t.not(
    await count({ thinking, max_tokens: 1 }),
    await count({ thinking, max_tokens: 60 }),
    'a limit of 1 leaves no room for reasoning, so the prompt differs',
  );
  t.equal(
    await count({ thinking }),
    await count({ thinking, max_tokens: 60 }),
    'without a limit, the count assumes room for reasoning',
  );
  t.ok(
    (await count({ thinking: { type: 'enabled', budget_tokens: 1_024 }, max_tokens: 1 })) > 0,
    'only the call itself refuses a thinking budget above the limit',
  );
  t.match(await post('/v1/messages/count_tokens', { messages, max_tokens: 'many' }), {
    status: 400,
    body: { error: { param: 'max_tokens' } },
  });
});

t.test('/v1/responses/input_tokens counts the prompt tokens that a response reports', async (t) => {
  const count = async (body: object): Promise<number> =>
    (await post('/v1/responses/input_tokens', body)).body.input_tokens ?? 0;
  const called = async (body: object): Promise<number> =>
    (await post('/v1/responses', { store: false, ...body })).body.usage!['input_tokens']!;
  const thinking = { input: 'hello', reasoning: { effort: 'medium' } };
  for (const max_output_tokens of [1, 2, 3, 60])
    t.equal(
      await count({ ...thinking, max_output_tokens }),
      await called({ ...thinking, max_output_tokens }),
      `max_output_tokens ${max_output_tokens}`,
    );
  t.not(
    await count({ ...thinking, max_output_tokens: 1 }),
    await count(thinking),
    'a limit of 1 leaves no room for reasoning, so the prompt differs',
  );
  const input = Array.from({ length: 61 }, (_, i) => ({
    role: i % 2 === 0 ? 'user' : 'assistant',
    content: `${i} ${'word '.repeat(100)}`,
  }));
  const counts = [];
  for (const max_output_tokens of [1, 400]) {
    const body = { input, truncation: 'auto', max_output_tokens };
    counts.push(await count(body));
    t.equal(counts.at(-1), await called(body), `truncation, max_output_tokens ${max_output_tokens}`);
  }
  t.ok(counts[0]! > counts[1]!, 'a larger limit leaves less room for the conversation');
});

t.test('/tokenize counts the prompt tokens that a chat completion reports', async (t) => {
  const thinking = { messages, reasoning_effort: 'medium' };
  for (const max_tokens of [1, 60]) {
    t.equal(
      (await post('/tokenize', { ...thinking, max_tokens })).body.count,
      (await post('/v1/chat/completions', { ...thinking, max_tokens })).body.usage!['prompt_tokens'],
      `max_tokens ${max_tokens}`,
    );
  }
});
