// Uses a second server process as an upstream, called in each API format. The official clients must get the same
// responses through the first server as directly from the second, in every format, complete and streamed.
import Anthropic from '@anthropic-ai/sdk';
import OpenAI from 'openai';
import t from 'tap';
import { startGateway } from '../support/stand-in.js';
import { root, startMonolith } from './monolith.js';

const model = `hal=${root}/models/hal-1.0-q8_0.gguf`;
const second = await startMonolith({ args: ['--model', model] });
const apis = ['chat-completions', 'messages', 'responses', 'completions'] as const;
const gateway = await startGateway(
  Object.fromEntries(
    apis.map((api) => [api, { upstream: { url: `${second.url}/v1`, api, model: 'hal', key: second.key } }]),
  ),
);
t.teardown(async () => {
  await gateway.close();
  await second.stop();
});

const weather = { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] } as const;
const question = { role: 'user', content: 'What is the weather in Oslo?' } as const;
const fixed = { temperature: 0, top_k: 1 };

type Api = (typeof apis)[number];
const openai = (at: { url: string; key: string }): OpenAI =>
  new OpenAI({ baseURL: `${at.url}/v1`, apiKey: at.key, maxRetries: 0 });
const anthropic = (at: { url: string; key: string }): Anthropic =>
  new Anthropic({ baseURL: at.url, apiKey: at.key, maxRetries: 0 });

/**
 * Requests by test title. `of` sends the request and returns the part of the response that must be the same from both
 * servers.
 */
const asks: Record<
  string,
  { apis: readonly Api[]; of(at: { url: string; key: string }, model: string): Promise<unknown> }
> = {
  'a streamed chat completion is the same through the gateway': {
    apis: ['chat-completions', 'messages', 'responses'],
    of: async (at, name) => {
      const stream = openai(at).chat.completions.stream({
        model: name,
        ...fixed,
        max_tokens: 40,
        reasoning_effort: 'none',
        messages: [{ role: 'user', content: 'Hello' }],
      } as never);
      const {
        choices: [choice],
      } = await stream.finalChatCompletion();
      return [choice!.message.content, choice!.finish_reason];
    },
  },
  'a streamed tool call in a chat completion is the same through the gateway': {
    apis: ['chat-completions', 'messages', 'responses'],
    of: async (at, name) => {
      const stream = openai(at).chat.completions.stream({
        model: name,
        ...fixed,
        max_tokens: 200,
        reasoning_effort: 'none',
        messages: [question],
        tools: [{ type: 'function', function: { name: 'get_weather', parameters: weather } }],
        tool_choice: 'required',
      } as never);
      const {
        choices: [choice],
      } = await stream.finalChatCompletion();
      return [
        choice!.message.tool_calls?.map((call) =>
          'function' in call ? [call.function.name, JSON.parse(call.function.arguments)] : [],
        ),
        choice!.finish_reason,
      ];
    },
  },
  'a streamed message with thinking is the same through the gateway': {
    apis: ['chat-completions'],
    of: async (at, name) => {
      const {
        content,
        stop_reason: reason,
        usage,
      } = await anthropic(at)
        .messages.stream({
          model: name,
          ...fixed,
          max_tokens: 1_500,
          thinking: { type: 'enabled', budget_tokens: 1_024 },
          messages: [question],
        } as never)
        .finalMessage();
      return [
        content.map((block) => [block.type, 'text' in block ? block.text : 'thinking' in block ? block.thinking : '']),
        reason,
        usage.output_tokens,
      ];
    },
  },
  'a tool call and its result in messages are the same through the gateway': {
    apis: ['chat-completions', 'messages', 'responses'],
    of: async (at, name) => {
      const tools = [{ name: 'get_weather', input_schema: weather }];
      const first = (await anthropic(at).messages.create({
        model: name,
        ...fixed,
        max_tokens: 200,
        messages: [question],
        tools,
        tool_choice: { type: 'any' },
      } as never)) as Anthropic.Message;
      const call = first.content.find((block) => block.type === 'tool_use')!;
      const { content, stop_reason: reason } = (await anthropic(at).messages.create({
        model: name,
        ...fixed,
        max_tokens: 60,
        tools,
        messages: [
          question,
          { role: 'assistant', content: first.content },
          { role: 'user', content: [{ type: 'tool_result', tool_use_id: call.id, content: 'Rain, 4 degrees.' }] },
        ],
      } as never)) as Anthropic.Message;
      return [call.name, call.input, content.map((block) => ('text' in block ? block.text : block.type)), reason];
    },
  },
  'a response chain is the same through the gateway': {
    apis: ['chat-completions', 'responses'],
    of: async (at, name) => {
      const client = openai(at);
      const more = { model: name, temperature: 0, max_output_tokens: 40, reasoning: { effort: 'none' as const } };
      const first = (await client.responses.create({
        ...more,
        input: 'My name is Liam.',
      } as never)) as OpenAI.Responses.Response;
      const texts: string[] = [];
      for await (const event of client.responses.stream({
        ...more,
        input: 'What is my name?',
        previous_response_id: first.id,
      } as never))
        if (event.type === 'response.output_text.delta') texts.push(event.delta);
      return [first.output_text, texts.join('')];
    },
  },
  'a response with a JSON schema is the same through the gateway': {
    apis: ['chat-completions', 'messages', 'responses'],
    of: async (at, name) => {
      const format = {
        type: 'json_schema',
        name: 'city',
        strict: true,
        schema: {
          type: 'object',
          properties: { city: { type: 'string', enum: ['Oslo', 'Rome'] } },
          required: ['city'],
          additionalProperties: false,
        },
      };
      const { output_text: text } = (await openai(at).responses.create({
        model: name,
        temperature: 0,
        max_output_tokens: 60,
        reasoning: { effort: 'none' },
        input: 'Which city?',
        text: { format },
      } as never)) as OpenAI.Responses.Response;
      return JSON.parse(text);
    },
  },
  'completions of several prompts with log probabilities are the same through the gateway': {
    apis: ['chat-completions', 'completions'],
    of: async (at, name) => {
      const { choices, usage } = await openai(at).completions.create({
        model: name,
        temperature: 0,
        prompt: ['Once upon', 'The sun'],
        max_tokens: 8,
        logprobs: 1,
      });
      return [choices.map(({ text, finish_reason: reason, logprobs }) => [text, reason, logprobs?.tokens]), usage];
    },
  },
};

for (const [name, { apis: names, of }] of Object.entries(asks)) {
  t.test(name, async (t) => {
    const direct = await of(second, 'hal');
    for (const api of names) t.same(await of(gateway, api), direct, `upstream API ${api}`);
  });
}

t.test('tokenization endpoints refuse upstream models', async (t) => {
  const said = async (at: { url: string; key: string }, path: string, body?: object): Promise<unknown> => {
    const response = await fetch(at.url + path, {
      headers: { authorization: `Bearer ${at.key}`, 'content-type': 'application/json' },
      ...(body === undefined ? {} : { method: 'POST', body: JSON.stringify(body) }),
    });
    return [response.status, ((await response.json()) as { error?: { code: string; param: string } }).error ?? null];
  };
  for (const [path, body] of [
    ['/tokenize', { prompt: 'Hello' }],
    ['/detokenize', { tokens: [1] }],
    ['/tokenizer_info', undefined],
  ] as const) {
    const asked = (at: { url: string; key: string }, name: string): Promise<unknown> =>
      said(
        at,
        body === undefined ? `${path}?model=${name}` : path,
        body === undefined ? undefined : { model: name, ...body },
      );
    t.match(await asked(gateway, 'completions'), [422, { code: 'unsupported_feature', param: 'model' }], path);
    t.same(await asked(second, 'hal'), [200, null], path);
  }
});
