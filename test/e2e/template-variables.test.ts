// Tests template variables in all formats. The model's template prints the variables at the start of the prompt.
import t from 'tap';
import { startScripted } from '../support/script-model.js';

const NAMES = ['reasoning_effort', 'enable_thinking', 'thinking', 'preserve_thinking', 'mode'];
const server = await startScripted({
  templateHead: `{{ [${NAMES.map((name) => `${name}|default('-')`).join(', ')}] | tojson }}
{%- if reasoning_effort is defined and reasoning_effort not in ['low', 'high', 'ultra'] %}{{ raise_exception('unknown effort') }}{% endif %}`,
  models: ['clarke-1.0'],
});
t.teardown(() => server.stop());

async function post(path: string, body: object): Promise<{ status: number; body: Record<string, unknown> }> {
  const response = await fetch(server.url + path, {
    method: 'POST',
    headers: {
      authorization: `Bearer ${server.key}`,
      'content-type': 'application/json',
      'anthropic-version': '2023-06-01',
    },
    body: JSON.stringify({ model: 'clarke-1.0', ...body }),
  });
  return { status: response.status, body: (await response.json()) as Record<string, unknown> };
}

const messages = [{ role: 'user', content: 'A: hi' }];

/**
 * Returns the text that the template printed for a chat completions request, or the status and `param` of the refusal.
 */
async function printed(more: object): Promise<string> {
  const { status, body } = await post('/tokenize', { messages, ...more });
  if (status !== 200) return `${status} ${(body['error'] as { param: string }).param}`;
  const { body: text } = await post('/detokenize', { tokens: body['tokens'] });
  return /^\[[^\]]*\]/.exec(text['prompt'] as string)![0];
}

t.test('chat completions pass efforts, switches and variables to the template', async (t) => {
  const rows: [more: object, expected: string][] = [
    [{}, '["-", true, true, "-", "-"]'],
    [{ reasoning_effort: 'none' }, '["-", false, false, "-", "-"]'],
    [{ reasoning_effort: 'low' }, '["low", true, true, "-", "-"]'],
    [{ reasoning_effort: 'max' }, '["high", true, true, "-", "-"]'],
    [{ chat_template_kwargs: { enable_thinking: false } }, '["-", false, false, "-", "-"]'],
    [{ chat_template_kwargs: { reasoning_effort: 'ultra' } }, '["ultra", true, true, "-", "-"]'],
    [{ preserve_thinking: true, thinking: false }, '["-", false, false, true, "-"]'],
    [{ chat_template_kwargs: { mode: 1.5 } }, '["-", true, true, "-", 1.5]'],
    [{ chat_template_kwargs: { messages: [] } }, '422 chat_template_kwargs.messages'],
  ];
  for (const [more, expected] of rows) t.equal(await printed(more), expected, JSON.stringify(more));
  const token = { chat_template_kwargs: { mode: '<|im_end|>' } };
  t.match(await printed(token), /<\|im_end\|>/);
  const { body } = await post('/tokenize', { messages, ...token });
  const { body: plain } = await post('/tokenize', { messages, chat_template_kwargs: { mode: '<.im_end.>' } });
  t.equal(body['count'], plain['count'], 'a control token in a variable is text');
});

t.test('the other formats give the same prompts', async (t) => {
  const rows: [chat: object, messages: object | null, responses: object | null][] = [
    [{ reasoning_effort: 'none' }, {}, { reasoning: { effort: 'none' } }],
    [
      { reasoning_effort: 'high' },
      { thinking: { type: 'adaptive' }, output_config: { effort: 'high' } },
      { reasoning: { effort: 'high' } },
    ],
    [{}, { thinking: { type: 'adaptive' } }, {}],
    [
      { chat_template_kwargs: { mode: 'abc', reasoning_effort: 'ultra' } },
      { chat_template_kwargs: { mode: 'abc', reasoning_effort: 'ultra', enable_thinking: true } },
      { chat_template_kwargs: { mode: 'abc', reasoning_effort: 'ultra' } },
    ],
    [
      { reasoning_effort: 'none', chat_template_kwargs: { preserve_thinking: false } },
      { chat_template_kwargs: { preserve_thinking: false } },
      { chat_template_kwargs: { preserve_thinking: false, thinking: false } },
    ],
  ];
  for (const [chat, anthropic, responses] of rows) {
    const { body } = await post('/tokenize', { messages, ...chat });
    const name = JSON.stringify(chat);
    const counted = await post('/v1/messages/count_tokens', { messages, ...anthropic });
    t.equal(counted.body['input_tokens'], body['count'], `messages ${name}`);
    const input = await post('/v1/responses/input_tokens', { input: 'A: hi', ...responses });
    t.equal(input.body['input_tokens'], body['count'], `responses ${name}`);
  }
  const effort = await post('/v1/messages/count_tokens', { messages, output_config: { effort: 'high' } });
  const plain = await post('/v1/messages/count_tokens', { messages });
  t.equal(
    effort.body['input_tokens'],
    (plain.body['input_tokens'] as number) + 'high'.length - '-'.length,
    'without thinking, output_config.effort still reaches the template',
  );
  const contradiction = await post('/v1/messages/count_tokens', {
    messages,
    output_config: { effort: 'high' },
    chat_template_kwargs: { reasoning_effort: 'low' },
  });
  t.match(
    JSON.stringify(contradiction.body),
    /chat_template_kwargs\.reasoning_effort and output_config\.effort contradict/,
  );
  for (const path of ['/v1/messages/count_tokens', '/v1/responses/input_tokens']) {
    const { status, body } = await post(path, { messages, input: 'hi', chat_template_kwargs: { bos_token: 'x' } });
    t.equal(status, 422);
    t.match(JSON.stringify(body), /chat_template_kwargs\.bos_token/);
  }
});

t.test('reasoning is returned and read back under both names', async (t) => {
  const { body } = await post('/v1/chat/completions', { messages: [{ role: 'user', content: 'H: hi' }] });
  const [{ message }] = body['choices'] as [{ message: Record<string, string> }];
  t.ok(message['reasoning_content']);
  t.equal(message['reasoning'], message['reasoning_content']);
  const count = async (field: object): Promise<unknown> =>
    (await post('/tokenize', { messages: [...messages, { role: 'assistant', content: 'a', ...field }, ...messages] }))
      .body['count'];
  const counts = await Promise.all(['reasoning', 'reasoning_content'].map((name) => count({ [name]: 'thoughts' })));
  t.equal(counts[0], counts[1]);
  t.ok((counts[0] as number) > ((await count({})) as number));
});

t.test('the list of models names the efforts', async (t) => {
  const response = await fetch(`${server.url}/v1/models/clarke-1.0`, {
    headers: { authorization: `Bearer ${server.key}` },
  });
  const { reasoning_efforts } = (await response.json()) as { reasoning_efforts: string[] };
  t.same(reasoning_efforts, ['none', 'minimal', 'low', 'medium', 'high', 'xhigh', 'max']);
});
