// Tests custom tools through the unmodified official client, with an embedded model, in chat completions and responses.
// The input matches the tool's grammar, streamed or not, and later requests can contain earlier calls and their
// outputs.
import OpenAI from 'openai';
import type { Response, ResponseStreamEvent, Tool } from 'openai/resources/responses/responses';
import t from 'tap';
import { mismatch } from '../support/open-api.js';
import { ask } from '../support/wire.js';
import { checkStream, type Event } from '../protocol/responses-stream.js';
import { startMonolith } from './monolith.js';

t.setTimeout(300_000); // the machine may be busy

const server = await startMonolith({
  env: { MONOLITH_LIMITS_RPM: 'off', MONOLITH_LIMITS_TPM: 'off', MONOLITH_LIMITS_CONCURRENCY: 'off' },
});
t.teardown(() => server.stop());
const client = new OpenAI({ baseURL: `${server.url}/v1`, apiKey: server.key, maxRetries: 0 });

/** A made-up patch format. */
const definition = `start: "*** Begin" LF change~1..2 "*** End" LF
change: "add " NAME LF "+" TEXT LF -> added | "delete " NAME LF -> deleted
NAME: /[a-z]{1,6}/
TEXT: /[ -~]{0,12}/
%import common.LF
`;
const isPatch = /^\*\*\* Begin\n(?:add [a-z]{1,6}\n\+[ -~]{0,12}\n|delete [a-z]{1,6}\n){1,2}\*\*\* End\n$/;
const responsesTool: Tool = {
  type: 'custom',
  name: 'edit',
  description: 'Edits files.',
  format: { type: 'grammar', syntax: 'lark', definition },
};
const chatTool: OpenAI.ChatCompletionTool = {
  type: 'custom',
  custom: {
    name: 'edit',
    description: 'Edits files.',
    format: { type: 'grammar', grammar: { syntax: 'lark', definition } },
  },
};
const model = 'tycho-1.0';
const messages: OpenAI.ChatCompletionMessageParam[] = [{ role: 'user', content: 'Delete the file notes.' }];

t.test('chat completions', async (t) => {
  const base = {
    model,
    messages,
    tools: [chatTool],
    tool_choice: { type: 'custom' as const, custom: { name: 'edit' } },
  };
  const answer = await client.chat.completions.create({ ...base, max_completion_tokens: 300, temperature: 0 });
  t.equal(mismatch('openai', 'CreateChatCompletionResponse', answer), null);
  const [choice] = answer.choices;
  const [call] = choice!.message.tool_calls ?? [];
  if (call?.type !== 'custom') throw new Error(JSON.stringify(choice));
  t.match(call.custom.input, isPatch);
  t.match(call, { id: /^call_/, custom: { name: 'edit' } });
  t.equal(choice!.finish_reason, 'tool_calls');

  const streamed = await client.chat.completions.create({
    ...base,
    max_completion_tokens: 300,
    temperature: 0,
    stream: true,
  });
  let input = '';
  const heads: unknown[] = [];
  for await (const chunk of streamed) {
    for (const piece of chunk.choices[0]?.delta.tool_calls ?? []) {
      const { type, custom } = piece as { type?: string; custom?: { name?: string; input: string } };
      if (type !== undefined) heads.push({ type, name: custom?.name });
      input += custom?.input ?? '';
    }
  }
  t.same(heads, [{ type: 'custom', name: 'edit' }]);
  t.equal(input, call.custom.input, 'the stream has the same input');

  const next = await client.chat.completions.create({
    model,
    tools: [chatTool],
    max_completion_tokens: 8,
    messages: [...messages, choice!.message, { role: 'tool', tool_call_id: call.id, content: 'Done.' }],
  });
  t.equal(next.choices.length, 1, 'the call and its output are read back');
});

t.test('responses', async (t) => {
  const base = {
    model,
    input: 'Delete the file notes.',
    tools: [responsesTool],
    tool_choice: { type: 'custom' as const, name: 'edit' },
    max_output_tokens: 300,
    temperature: 0,
  };
  const answer: Response = await client.responses.create(base);
  const call = answer.output.find((item) => item.type === 'custom_tool_call');
  if (call === undefined) throw new Error(JSON.stringify(answer.output));
  t.match(call.input, isPatch);
  t.match(call, { id: /^ctc_/, call_id: /^call_/, name: 'edit' });
  t.same(answer.tools, [responsesTool], 'the resource repeats the tool');
  t.same(answer.tool_choice, { type: 'custom', name: 'edit' });

  const events: ResponseStreamEvent[] = [];
  for await (const event of await client.responses.create({ ...base, stream: true })) events.push(event);
  checkStream(events as unknown as Event[], { reasoning: 'response.reasoning_text' });
  const deltas = events.flatMap((event) =>
    event.type === 'response.custom_tool_call_input.delta' ? [event.delta] : [],
  );
  const done = events.find((event) => event.type === 'response.custom_tool_call_input.done');
  t.ok(deltas.length > 1, 'the input is streamed in pieces');
  t.equal(deltas.join(''), call.input);
  t.equal(done?.type === 'response.custom_tool_call_input.done' ? done.input : null, call.input);

  const output = { type: 'custom_tool_call_output' as const, call_id: call.call_id, output: 'Done.' };
  const next = await client.responses.create({
    model,
    previous_response_id: answer.id,
    input: [output],
    tools: [responsesTool],
    max_output_tokens: 8,
  });
  t.equal(next.error, null, 'the stored call can be continued');
  const listed = await client.responses.inputItems.list(next.id, { order: 'asc' });
  t.same(
    listed.data.map(({ type }) => type),
    ['message', 'custom_tool_call', 'custom_tool_call_output'],
    'items are listed unchanged',
  );
  const replayed: string[] = [];
  for await (const event of await client.responses.retrieve(answer.id, { stream: true })) replayed.push(event.type);
  t.ok(replayed.includes('response.custom_tool_call_input.delta'), 'a stored call is replayed');

  const again = await client.responses.create({
    model,
    input: [{ role: 'user', content: 'Delete the file notes.' }, { ...call, id: 'ctc_other' }, output],
    store: false,
    tools: [responsesTool],
    max_output_tokens: 8,
  });
  t.equal(again.error, null, 'the client sends the call back');
});

t.test('a custom tool in a namespace, one without a format, and one with a regular expression', async (t) => {
  const inner: Tool[] = [
    { type: 'custom', name: 'say' },
    { type: 'custom', name: 'stamp', format: { type: 'grammar', syntax: 'regex', definition: '\\d{2}:[0-5]\\d' } },
  ];
  const tools = [{ type: 'namespace' as const, name: 'ui', description: 'Output.', tools: inner }] as Tool[];
  const { output } = await client.responses.create({
    model,
    input: 'What time is it?',
    tools,
    tool_choice: { type: 'custom', name: 'stamp', namespace: 'ui' } as never,
    store: false,
  });
  t.match(output.at(-1), { type: 'custom_tool_call', name: 'stamp', namespace: 'ui', input: /^\d{2}:[0-5]\d$/ });
  const said = await client.responses.create({
    model,
    input: 'Say hello.',
    tools: inner,
    tool_choice: { type: 'custom', name: 'say' },
    max_output_tokens: 60,
    store: false,
  });
  t.match(said.output.at(-1), { type: 'custom_tool_call', name: 'say', input: String });
});

t.test('errors name the tool and the position in the grammar', async (t) => {
  const bad = 'start: A\nA: /a(?=b)/';
  const chat = await ask(server, '/v1/chat/completions', {
    model,
    messages,
    tools: [
      {
        type: 'custom',
        custom: { name: 'x', format: { type: 'grammar', grammar: { syntax: 'lark', definition: bad } } },
      },
    ],
  });
  t.equal(chat.status, 422);
  t.match(chat.body, {
    error: {
      code: 'invalid_value',
      param: 'tools[0].custom.format.grammar.definition',
      message:
        'tools[0].custom.format.grammar.definition: the grammar is invalid: line 2, column 4: the regular expression contains an anchor or a lookahead.',
    },
  });
  const responses = await ask(server, '/v1/responses', {
    model,
    input: 'Hi',
    tools: [{ type: 'custom', name: 'x', format: { type: 'grammar', syntax: 'lark', definition: bad } }],
  });
  t.match(responses.body, { error: { param: 'tools[0].format.definition' } });
  const unknown = await ask(server, '/v1/responses', {
    model,
    input: 'Hi',
    tools: [{ type: 'custom', name: 'x', format: { type: 'grammar', syntax: 'ebnf', definition: 'a' } }],
  });
  t.equal(unknown.status, 400);
  t.match(unknown.body, { error: { param: 'tools[0].format.syntax' } });
  const other = await ask(server, '/v1/responses', {
    model,
    input: 'Hi',
    tools: [responsesTool],
    tool_choice: { type: 'function', name: 'edit' },
  });
  t.match(other.body, { error: { code: 'tool_not_found' } });
});
