// Tests OpenAI's deprecated function calling (`functions`, `function_call`, messages with the role "function") with the
// official client, against a model that writes scripted output.
import OpenAI from 'openai';
import t from 'tap';
import { publishedAnswers } from '../../src/protocol/openapi/document.js';
import { said, startScripted } from '../support/script-model.js';

t.setTimeout(300_000); // the machine may be busy

const server = await startScripted();
t.teardown(() => server.stop());
const client = new OpenAI({ baseURL: `${server.url}/v1`, apiKey: server.key, maxRetries: 0 });

const base = { model: 'clarke-1.0', reasoning_effort: 'none' as const };
const functions = ['get_weather', 'save_note', 'get_time', 'write_file'].map((name) => ({
  name,
  description: `The ${name} function.`,
  parameters: { type: 'object', properties: { location: { type: 'string' } } },
}));
type Message = OpenAI.ChatCompletionMessageParam;
const ask = (letter: string): Message[] => [{ role: 'user', content: `${letter}: please` }];
const [written] = said('W').calls;

t.test('returns a tool call as function_call', async (t) => {
  const answer = await client.chat.completions.create({ ...base, messages: ask('W'), functions });
  const [choice] = answer.choices;
  t.same(choice!.message.function_call, written);
  t.equal(choice!.finish_reason, 'function_call');
  t.notOk(choice!.message.tool_calls);
  t.ok(publishedAnswers.ChatCompletion.safeParse(answer).success, 'the response matches openapi.json');
});

t.test('streams a tool call as function_call', async (t) => {
  const stream = client.chat.completions.stream({ ...base, messages: ask('W'), functions, stream: true });
  const problems: string[] = [];
  stream.on('chunk', (chunk) => {
    const result = publishedAnswers.ChatCompletionChunk.safeParse(chunk);
    if (!result.success) problems.push(result.error.message);
  });
  const [choice] = (await stream.finalChatCompletion()).choices;
  t.same(choice!.message.function_call, written);
  t.equal(choice!.finish_reason, 'function_call');
  t.same(problems, []);
});

t.test('a response has at most one call', async (t) => {
  t.equal(said('P').calls.length, 2, 'the script makes two calls');
  const { choices } = await client.chat.completions.create({ ...base, messages: ask('P'), functions });
  t.same(choices[0]!.message.function_call, said('P').calls[0]);
  t.notOk(choices[0]!.message.tool_calls);
});

t.test('function_call forces or prevents a call', async (t) => {
  const forced = await client.chat.completions.create({
    ...base,
    messages: ask('W'),
    functions,
    function_call: { name: 'get_time' },
  });
  t.equal(forced.choices[0]!.message.function_call?.name, 'get_time', 'the script would call get_weather');
  t.equal(forced.choices[0]!.finish_reason, 'function_call');
  const none = await client.chat.completions.create({
    ...base,
    messages: ask('W'),
    functions,
    function_call: 'none',
  });
  t.notOk(none.choices[0]!.message.function_call);
});

const call: Message = { role: 'assistant', content: null, function_call: { name: 'f', arguments: '{"a":1}' } };
const result: Message = { role: 'function', name: 'f', content: 'sunny' };

t.test('the model sees the same prompt as with tools', async (t) => {
  const render = async (messages: unknown[]): Promise<unknown> => {
    const response = await fetch(`${server.url}/apply-template`, {
      method: 'POST',
      body: JSON.stringify({ model: base.model, messages }),
      headers: { 'content-type': 'application/json', authorization: `Bearer ${server.key}` },
    });
    t.equal(response.status, 200);
    return response.json();
  };
  const toolCall = { id: 'call_1', type: 'function', function: { name: 'f', arguments: '{"a":1}' } };
  t.same(
    await render([...ask('A'), call, result, ...ask('B')]),
    await render([
      ...ask('A'),
      { role: 'assistant', content: null, tool_calls: [toolCall] },
      { role: 'tool', tool_call_id: 'call_1', content: 'sunny' },
      ...ask('B'),
    ]),
  );
  const { choices } = await client.chat.completions.create({
    ...base,
    messages: [...ask('W'), call, result, ...ask('A')],
    functions,
  });
  t.equal(choices[0]!.message.content, said('A').content);
});

t.test('names the message that is wrong', async (t) => {
  const cases: [messages: Message[], status: number, code: string, param: string][] = [
    [[...ask('A'), result], 422, 'tool_call_not_found', 'messages[1].name'],
    [[...ask('A'), call, { ...result, name: 'g' }], 422, 'tool_call_not_found', 'messages[2].name'],
    [[...ask('A'), call, result, result], 422, 'tool_call_not_found', 'messages[3].name'],
    [[...ask('A'), call, ...ask('A')], 422, 'missing_tool_output', 'messages[1].function_call'],
    [[...ask('A'), call], 422, 'missing_tool_output', 'messages[1].function_call'],
    [
      [
        ...ask('A'),
        {
          ...call,
          tool_calls: [{ id: 'a', type: 'function', function: { name: 'f', arguments: '{}' } }],
        },
        result,
      ],
      422,
      'conflicting_parameters',
      'messages[1].function_call',
    ],
    [
      [...ask('A'), { ...result, name: undefined } as unknown as Message],
      400,
      'missing_required_parameter',
      'messages[1].name',
    ],
  ];
  for (const [messages, status, code, param] of cases) {
    const error = await client.chat.completions.create({ ...base, messages, functions }).then(
      () => null,
      (thrown: unknown) => thrown as InstanceType<typeof OpenAI.APIError>,
    );
    t.match(error, { status, code, param }, `${code} for ${param}`);
  }
});
