// Tests upstreams with the Chat Completions API over real sockets: recorded streams through all three client formats,
// the requests that the upstreams receive, errors and invalid responses, client disconnects, and timeouts.
import t from 'tap';
import { eventually } from '../../e2e/monolith.js';
import { error, startGateway, startStandIn, stream, type Say } from '../../support/stand-in.js';
import { recorded, type Recorded } from './recorded.js';

const KEY = 'sk-upstream-secret-7f3a';
const HEADER = 'another-secret-91c2';
const standIn = await startStandIn(stream());
const gateway = await startGateway(
  {
    far: {
      upstream: { url: standIn.url, model: 'theirs', key: KEY, headers: { 'x-team': HEADER } },
      max_output_tokens: 500,
    },
  },
  {
    upstream: {
      retries: 0,
      first_token_ms: 1_500,
      idle_ms: 500,
      max_event_bytes: 4_096,
      max_answer_bytes: 100_000,
      breaker_failures: 1_000,
    },
  },
);
t.teardown(async () => {
  await gateway.close();
  await standIn.close();
});

const user = { role: 'user', content: 'Weather?' };
const tool = {
  name: 'get_weather',
  description: 'Weather of a city',
  parameters: { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] },
};
const now = { name: 'now', parameters: { type: 'object', properties: {} } };
const tools = [tool, now].map((one) => ({ type: 'function', function: one }));
const chat = (more: object = {}): object => ({ model: 'far', messages: [user], ...more });

/** The parts of a response that all formats report. */
interface Told {
  reasoning: string;
  text: string;
  calls: [string, object][];
  usage: number[];
  finish: string;
}

const events = (text: string): { event: string | null; data: any }[] =>
  text
    .split('\n\n')
    .filter((one) => /^data: |\ndata: /.test(one))
    .map((one) => ({
      event: /^event: (.*)$/m.exec(one)?.[1] ?? null,
      data: one.endsWith('[DONE]') ? null : JSON.parse(/^data: (.*)$/m.exec(one)?.[1] ?? 'null'),
    }));

async function toldByChat(streamed: boolean): Promise<Told> {
  const response = await gateway.post(
    '/v1/chat/completions',
    chat({ tools, ...(streamed ? { stream: true, stream_options: { include_usage: true } } : {}) }),
  );
  const text = await response.text();
  if (!streamed) {
    const {
      choices: [{ message, finish_reason: finish }],
      usage,
    } = JSON.parse(text) as any;
    return {
      reasoning: message.reasoning_content ?? '',
      text: message.content ?? '',
      calls: (message.tool_calls ?? []).map(({ function: one }: any) => [one.name, JSON.parse(one.arguments)]),
      usage: counts(usage),
      finish,
    };
  }
  const told = { reasoning: '', text: '', finish: '', usage: [] as number[] },
    calls: [string, string][] = [];
  for (const { data } of events(text)) {
    if (data === null) continue;
    if (data.usage != null) told.usage = counts(data.usage);
    for (const { delta, finish_reason: finish } of data.choices) {
      told.reasoning += delta.reasoning_content ?? '';
      told.text += delta.content ?? '';
      for (const call of delta.tool_calls ?? [])
        (calls[call.index] ??= [call.function.name, ''])[1] += call.function.arguments;
      told.finish = finish ?? told.finish;
    }
  }
  return { ...told, calls: calls.map(([name, given]) => [name, JSON.parse(given)]) };
}

const counts = (usage: any): number[] => [
  usage.prompt_tokens,
  usage.completion_tokens,
  usage.prompt_tokens_details.cached_tokens,
  usage.completion_tokens_details.reasoning_tokens,
];

async function toldByMessages(): Promise<Told> {
  const {
    content,
    usage,
    stop_reason: stop,
  } = (await (
    await gateway.post('/v1/messages', {
      model: 'far',
      max_tokens: 400,
      messages: [user],
      tools: [tool, now].map(({ parameters, ...one }) => ({ ...one, input_schema: parameters })),
    })
  ).json()) as any;
  const of = (type: string, field: string): string =>
    content
      .filter((one: any) => one.type === type)
      .map((one: any) => one[field])
      .join('');
  return {
    reasoning: of('thinking', 'thinking'),
    text: of('text', 'text'),
    calls: content.filter((one: any) => one.type === 'tool_use').map((one: any) => [one.name, one.input]),
    usage: [
      usage.input_tokens + usage.cache_read_input_tokens,
      usage.output_tokens,
      usage.cache_read_input_tokens,
      usage.output_tokens_details.thinking_tokens,
    ],
    finish: { end_turn: 'stop', max_tokens: 'length', tool_use: 'tool_calls' }[stop as 'end_turn'],
  };
}

async function toldByResponses(): Promise<Told> {
  const { output, usage, status } = (await (
    await gateway.post('/v1/responses', {
      model: 'far',
      input: 'Weather?',
      tools: [tool, now].map((one) => ({ type: 'function', ...one })),
    })
  ).json()) as any;
  const calls = output
    .filter((one: any) => one.type === 'function_call')
    .map((one: any) => [one.name, JSON.parse(one.arguments)]);
  const parts = (type: string): string =>
    output
      .filter((one: any) => one.type === type)
      .flatMap((one: any) => one.content ?? [])
      .map((part: any) => part.text)
      .join('');
  return {
    reasoning: parts('reasoning'),
    text: parts('message'),
    calls,
    finish: status === 'incomplete' ? 'length' : calls.length > 0 ? 'tool_calls' : 'stop',
    usage: [
      usage.input_tokens,
      usage.output_tokens,
      usage.input_tokens_details.cached_tokens,
      usage.output_tokens_details.reasoning_tokens,
    ],
  };
}

const expected = ({ reasoning, text, calls, usage, finish }: Recorded): object => ({
  reasoning,
  text,
  calls,
  usage,
  finish,
});

for (const [name, one] of Object.entries(recorded)) {
  t.test(`${name}: the same response in all formats`, async (t) => {
    standIn.say = stream(...one.lines);
    t.same(await toldByChat(false), expected(one), 'a complete chat completion');
    t.same(await toldByChat(true), expected(one), 'a streamed chat completion');
    t.same(await toldByMessages(), expected(one), 'messages');
    t.same(await toldByResponses(), expected(one), 'responses');
  });
}

t.test('handles an upstream that does not stream', async (t) => {
  standIn.say = (response) => {
    response.writeHead(200, { 'content-type': 'application/json' }).end(
      JSON.stringify({
        choices: [
          {
            index: 0,
            message: {
              role: 'assistant',
              content: null,
              reasoning_content: 'Hm.',
              tool_calls: [{ id: 'a', type: 'function', function: { name: 'now', arguments: '{}' } }],
            },
            finish_reason: 'tool_calls',
          },
        ],
        usage: { prompt_tokens: 3, completion_tokens: 7 },
      }),
    );
  };
  t.same(await toldByChat(true), {
    reasoning: 'Hm.',
    text: '',
    calls: [['now', {}]],
    usage: [3, 7, 0, 3],
    finish: 'tool_calls',
  });
});

t.test('returns at most one call if parallel calls are disabled', async (t) => {
  standIn.say = stream(...recorded['vLLM: reasoning, then two calls']!.lines);
  const {
    choices: [{ message }],
  } = (await (await gateway.post('/v1/chat/completions', chat({ tools, parallel_tool_calls: false }))).json()) as any;
  t.match(message.tool_calls, [{ function: { arguments: '{"city": "Oslo"}' } }]);
  t.equal(message.tool_calls.length, 1);
  t.equal(standIn.heard.at(-1)!.body['parallel_tool_calls'], false);
});

t.test('sends the expected upstream request', async (t) => {
  standIn.say = stream(...recorded['llama-server: text']!.lines);
  await (
    await gateway.post('/v1/chat/completions', {
      model: 'far',
      temperature: 0.5,
      top_p: 0.9,
      seed: 7,
      stop: ['END'],
      max_completion_tokens: 1_000,
      reasoning_effort: 'xhigh',
      tools,
      tool_choice: { type: 'function', function: { name: 'now' } },
      messages: [
        { role: 'system', content: 'Be brief.' },
        user,
        {
          role: 'assistant',
          content: null,
          reasoning_content: 'A call.',
          tool_calls: [{ id: 'c1', type: 'function', function: { name: 'now', arguments: '{}' } }],
        },
        { role: 'tool', tool_call_id: 'c1', content: 'noon' },
      ],
    })
  ).text();
  const { path, headers, body } = standIn.heard.at(-1)!;
  t.equal(path, '/v1/chat/completions');
  t.match(headers, { authorization: `Bearer ${KEY}`, 'x-team': HEADER });
  t.match(body, {
    model: 'theirs',
    stream: true,
    stream_options: { include_usage: true },
    temperature: 0.5,
    top_p: 0.9,
    seed: 7,
    stop: ['END'],
    reasoning_effort: 'high',
    tool_choice: { type: 'function', function: { name: 'now' } },
    max_tokens: 500,
    tools: [{ type: 'function', function: { name: 'now' } }],
    messages: [
      { role: 'system', content: 'Be brief.' },
      { role: 'user', content: 'Weather?' },
      {
        role: 'assistant',
        reasoning_content: 'A call.',
        tool_calls: [{ id: 'c1', type: 'function', function: { name: 'now', arguments: '{}' } }],
      },
      { role: 'tool', tool_call_id: 'c1', content: 'noon' },
    ],
  });
  t.notOk('top_k' in body || 'min_p' in body, 'fields that the client did not set are omitted');
});

t.test('passes template variables on', async (t) => {
  const body = async (more: object): Promise<Record<string, unknown>> => {
    await (await gateway.post('/v1/chat/completions', chat(more))).text();
    return standIn.heard.at(-1)!.body as Record<string, unknown>;
  };
  t.match(await body({ reasoning_effort: 'high', chat_template_kwargs: { mode: 'x' } }), {
    reasoning_effort: 'high',
    chat_template_kwargs: { mode: 'x' },
  });
  const variable = await body({ chat_template_kwargs: { reasoning_effort: 'ultra' } });
  t.same(variable['chat_template_kwargs'], { reasoning_effort: 'ultra' });
  t.notOk('reasoning_effort' in variable);
  t.notOk('chat_template_kwargs' in (await body({ chat_template_kwargs: { enable_thinking: false } })));
});

t.test('estimates missing usage and marks it as estimated', async (t) => {
  standIn.say = stream(
    ...recorded['llama-server: text']!.lines.filter(
      (one) => typeof one === 'string' || (one as any).usage === undefined,
    ),
  );
  const { usage } = (await (await gateway.post('/v1/chat/completions', chat())).json()) as any;
  t.match(usage, { prompt_tokens: 10, completion_tokens: 3 });
  t.ok(await eventually(() => gateway.logs.some((line) => line.includes('"usage_estimated":true'))));
  const counted = await gateway.post('/v1/messages/count_tokens', { model: 'far', messages: [user] });
  t.equal(counted.headers.get('x-token-count'), 'estimate');
  t.same(await counted.json(), { input_tokens: 10 });
});

const formats = ['/v1/chat/completions', '/v1/messages', '/v1/responses'] as const;
const plain = (path: string): object =>
  path === '/v1/responses'
    ? { model: 'far', input: 'Hi', store: false }
    : { model: 'far', max_tokens: 50, messages: [user] };

for (const [upstream, body, status, code, words, headers] of [
  [
    400,
    { error: { message: `bad top_p (asked with ${KEY}, ${HEADER}, sk-ab***yz)`, type: 'BadRequestError' } },
    422,
    'invalid_value',
    /bad top_p \(asked with …, …, …\)/,
  ],
  [
    400,
    {
      error: {
        code: 400,
        message: 'request (60009 tokens) exceeds the available context size (2048 tokens), try increasing it',
        type: 'exceed_context_size_error',
      },
    },
    400,
    'context_length_exceeded',
    /60009/,
  ],
  [
    401,
    { error: { message: `Incorrect API key provided: ${KEY.slice(0, 9)}***` } },
    503,
    'model_unavailable',
    /rejected the credentials/,
  ],
  [404, { error: { message: 'no such model' } }, 503, 'model_unavailable', /rejected the credentials/],
  [429, { error: 'slow down' }, 503, 'capacity_exhausted', /busy/, { 'retry-after': '7' }],
  [500, '<html>Internal</html>', 500, 'model_error', /failed to handle this request/],
  [302, 'x', 503, 'model_unavailable', /not followed/, { location: 'http://127.0.0.1:1/' }],
] as const) {
  t.test(`handles the upstream error ${upstream}`, async (t) => {
    standIn.say = error(upstream, body as object, headers ?? {});
    for (const path of formats) {
      for (const streamed of [false, true]) {
        const response = await gateway.post(path, { ...plain(path), stream: streamed });
        const told = (await response.json()) as any;
        t.equal(response.status, status, path);
        t.match(told.error, { code, message: words, details: { upstream_status: upstream } }, path);
        if (upstream === 429) t.equal(response.headers.get('retry-after'), '7');
        t.notMatch(JSON.stringify(told), /sk-up/);
      }
    }
  });
}

const piece = (content: string): string =>
  `data: ${JSON.stringify({ choices: [{ index: 0, delta: { content }, finish_reason: null }] })}\n\n`;
const saying =
  (...texts: string[]): Say =>
  (response) =>
    void response.writeHead(200, { 'content-type': 'text/event-stream' }).end(texts.join(''));
const forever =
  (text: string): Say =>
  (response) => {
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    const more = (): void => {
      while (!response.destroyed && response.write(text));
    };
    response.on('drain', more);
    more();
  };

for (const [name, say, words] of [
  ['invalid JSON', saying(piece('a'), 'data: {"choices":[}\n\n'), /invalid JSON/],
  ['a truncated event', saying(piece('a'), 'data: {"choices":[{"index":0,"del'), /invalid JSON/],
  ['a missing end', saying(piece('a')), /without an end/],
  ['an endless line', forever('x'.repeat(1_000)), /too long/],
  ['an endless event', forever(`data: ${'x'.repeat(1_000)}\n`), /too long/],
  ['an endless response', forever(piece('a'.repeat(500))), /larger response than is allowed/],
  ['events that are not JSON objects', saying('data: [1,2]\n\n'), /not an object/],
  [
    'arguments without a call',
    saying('data: {"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{}"}}]}}]}\n\n'),
    /tool call without a name/,
  ],
  [
    'a choice that was not requested',
    saying('data: {"choices":[{"index":4,"delta":{"content":"a"}}]}\n\n'),
    /not requested/,
  ],
  [
    'an error within the stream',
    saying(piece('a'), `data: {"error":{"message":"out of memory, ${KEY}","code":500}}\n\n`),
    /failed to handle this request/,
  ],
  [
    'a connection that is lost',
    (response) => {
      response.writeHead(200, { 'content-type': 'text/event-stream' }).write(piece('a'));
      setTimeout(() => response.destroy(), 20);
    },
    /was lost/,
  ],
  [
    'no data between tokens',
    (response) => void response.writeHead(200, { 'content-type': 'text/event-stream' }).write(piece('a')),
    /stopped sending data/,
  ],
  [
    'comments instead of tokens',
    (response) => {
      response.writeHead(200, { 'content-type': 'text/event-stream' }).write(piece('a'));
      const timer = setInterval(() => response.write(': wait\n\n'), 50);
      response.on('close', () => clearInterval(timer));
    },
    /stopped sending data/,
  ],
  [
    'a very large error body',
    (response) => {
      response.writeHead(500, { 'content-type': 'application/json' });
      const more = (): void => {
        while (!response.destroyed && response.write('x'.repeat(10_000)));
      };
      response.on('drain', more);
      more();
    },
    /failed to handle this request/,
  ],
  ['bytes that are not HTTP', (response) => void response.socket!.end('SSH-2.0-x\r\n\r\n'), /invalid HTTP|was lost/],
  [
    'a compressed body',
    (response) =>
      void response.writeHead(200, { 'content-type': 'text/event-stream', 'content-encoding': 'gzip' }).end('x'),
    /encoding/,
  ],
] as [string, Say, RegExp][]) {
  t.test(`handles an invalid response: ${name}`, async (t) => {
    standIn.say = say;
    const response = await gateway.post('/v1/chat/completions', chat());
    const body = (await response.json()) as any;
    t.ok(response.status >= 500, JSON.stringify(body));
    t.match(body.error.message, words);
    standIn.say = stream(...recorded['llama-server: text']!.lines);
    t.equal((await toldByChat(false)).text, 'Hello! Hör', 'the next request is served');
  });
}

t.test('ignores impossible usage, so that a wrong number does not block an organization', async (t) => {
  for (const wrong of [2 ** 53 - 1, 2 ** 24 + 1, -1, 1.5, '7', null]) {
    standIn.say = stream(
      {
        choices: [{ index: 0, delta: { content: 'Rain.' }, finish_reason: 'stop' }],
        usage: { prompt_tokens: wrong, completion_tokens: wrong, prompt_tokens_details: { cached_tokens: wrong } },
      },
      '[DONE]',
    );
    const { usage } = (await (await gateway.post('/v1/chat/completions', chat())).json()) as {
      usage: { prompt_tokens: number; completion_tokens: number; prompt_tokens_details: { cached_tokens: number } };
    };
    t.ok(
      usage.prompt_tokens < 100 && usage.completion_tokens === 1 && usage.prompt_tokens_details.cached_tokens === 0,
      `${String(wrong)}: ${JSON.stringify(usage)}`,
    );
  }
});

t.test('refuses call arguments nested deeper than allowed, in every format', async (t) => {
  const nested = (levels: number): string => `{"a":${'['.repeat(levels)}${']'.repeat(levels)}}`;
  const say =
    (given: string): Say =>
    (response) => {
      response.writeHead(200, { 'content-type': 'application/json' }).end(
        JSON.stringify({
          choices: [
            {
              index: 0,
              message: { tool_calls: [{ index: 0, id: 'a', function: { name: 'now', arguments: given } }] },
              finish_reason: 'tool_calls',
            },
          ],
        }),
      );
    };
  const message = {
    model: 'far',
    max_tokens: 400,
    messages: [user],
    tools: [{ name: 'now', input_schema: now.parameters }],
  };
  standIn.say = say(nested(100));
  t.match(await (await gateway.post('/v1/messages', message)).json(), {
    content: [{ type: 'tool_use', input: { a: [] } }],
    stop_reason: 'tool_use',
  });
  for (const levels of [130, 40_000]) {
    standIn.say = say(nested(levels));
    const answer = await gateway.post('/v1/messages', message);
    t.equal(answer.status, 200);
    t.match(await answer.json(), { content: [{ type: 'tool_use', input: {} }], stop_reason: 'max_tokens' });
    t.equal((await gateway.post('/v1/chat/completions', chat({ tools }))).status, 200);
    t.equal(
      (
        await gateway.post('/v1/responses', {
          model: 'far',
          input: 'Weather?',
          tools: [tool, now].map((one) => ({ type: 'function', ...one })),
        })
      ).status,
      200,
    );
  }
});

t.test('refuses more calls than a response may have', async (t) => {
  standIn.say = (response) => {
    response.writeHead(200, { 'content-type': 'application/json' }).end(
      JSON.stringify({
        choices: [
          {
            index: 0,
            message: {
              tool_calls: Array.from({ length: 1_100 }, (_, i) => ({
                id: `${i}`,
                function: { name: 'now', arguments: '{}' },
              })),
            },
            finish_reason: 'tool_calls',
          },
        ],
      }),
    );
  };
  const answer = await gateway.post('/v1/chat/completions', chat({ tools }));
  t.equal(answer.status, 500);
  t.match(await answer.json(), { error: { code: 'model_error', message: /more than 1024 tool calls/ } });
});

t.test('times out an upstream that does not start to respond', async (t) => {
  standIn.say = () => undefined;
  const { left } = standIn;
  const begun = Date.now();
  const response = await gateway.post('/v1/chat/completions', chat({ stream: true }));
  t.equal(response.status, 503);
  t.match(await response.json(), { error: { code: 'model_unavailable', message: /did not respond in time/ } });
  t.ok(Date.now() - begun >= 1_400);
  t.ok(await eventually(() => standIn.left === left + 1), 'the upstream request is cancelled');
});

for (const streamed of [false, true]) {
  t.test(`a client that disconnects${streamed ? ' a stream' : ''} cancels the upstream request`, async (t) => {
    const { left } = standIn;
    const heard = standIn.heard.length;
    standIn.say = (response) => {
      response.writeHead(200, { 'content-type': 'text/event-stream' });
      const timer = setInterval(() => response.write(piece('a')), 50);
      response.on('close', () => clearInterval(timer));
    };
    const leaving = new AbortController();
    const answer = gateway
      .post('/v1/chat/completions', chat({ stream: streamed }), { signal: leaving.signal })
      .then((response) => response.text())
      .catch(() => undefined);
    t.ok(await eventually(() => standIn.heard.length > heard));
    await new Promise((resolve) => setTimeout(resolve, 200));
    leaving.abort();
    await answer;
    t.ok(await eventually(() => standIn.left === left + 1));
    const { models } = (await (await gateway.get('/readyz')).json()) as any;
    t.match(models, [{ name: 'far', state: 'ready', running: 0, waiting: 0 }]);
  });
}

t.test('supports stored responses and chains', async (t) => {
  standIn.say = stream(...recorded['SGLang: reasoning_content, usage with the last chunk, no [DONE]']!.lines);
  const first = (await (await gateway.post('/v1/responses', { model: 'far', input: 'One?' })).json()) as any;
  await (await gateway.post('/v1/responses', { model: 'far', input: 'Two?', previous_response_id: first.id })).json();
  t.match(standIn.heard.at(-1)!.body['messages'], [
    { role: 'user', content: 'One?' },
    { role: 'assistant', content: 'Yes' },
    { role: 'user', content: 'Two?' },
  ]);
  t.match(await (await gateway.get(`/v1/responses/${first.id}`)).json(), { id: first.id, status: 'completed' });
});

t.test('upstream keys are not logged', async (t) => {
  t.ok(
    gateway.logs.some((line) => line.includes('"upstream_status":401')),
    'error messages of the upstream are logged',
  );
  t.notMatch(gateway.logs.join('\n'), new RegExp(`${KEY}|${HEADER}|sk-up`));
});

t.test('a prediction is passed on, and the counts of its tokens come back', async (t) => {
  const prediction = {
    type: 'content',
    content: [
      { type: 'text', text: 'Sunny, ' },
      { type: 'text', text: 'I guess' },
    ],
  };
  const details = { reasoning_tokens: 0, accepted_prediction_tokens: 3, rejected_prediction_tokens: 2 };
  standIn.say = stream(
    { choices: [{ index: 0, delta: { role: 'assistant', content: 'Sunny' }, finish_reason: 'stop' }] },
    { choices: [], usage: { prompt_tokens: 9, completion_tokens: 4, completion_tokens_details: details } },
    '[DONE]',
  );
  const response = await gateway.post('/v1/chat/completions', chat({ prediction }));
  t.equal(response.headers.get('x-ignored-parameters'), null);
  t.match(await response.json(), { usage: { completion_tokens_details: details } });
  t.match(standIn.heard.at(-1)?.body, { prediction: { type: 'content', content: 'Sunny, I guess' } });
});
