// Tests the size limits on upstream responses: the token limit applies to text and arguments, upstream.max_answer_bytes
// to a whole response, and http.max_answering_bytes to all responses combined. They are tested for every client and
// upstream format, streamed and complete. After each test, no memory may still be held.
import t from 'tap';
import { eventually } from '../../e2e/monolith.js';
import { startGateway, startStandIn, type Gateway, type Say } from '../../support/stand-in.js';

const CAP = 10,
  BOUND = 65_536 + 64 * CAP;

const standIn = await startStandIn(() => undefined);
const model = (api: string, more: object = {}): object => ({
  upstream: { url: standIn.url, api, ...more },
  context_window: 100_000,
  max_output_tokens: 2_000,
});
// The buffer is large because the client may read slowly: it shares an event loop with a stand-in that sends as fast as
// it can.
const http = { stream_buffer_bytes: 67_108_864 };
const settings = { upstream: { retries: 2, breaker_failures: 1_000 }, limits: { concurrency: null }, http };
const gateway = await startGateway(
  {
    chat: model('chat-completions'),
    responses: model('responses'),
    messages: model('messages'),
    completions: model('completions'),
  },
  settings,
);
t.teardown(async () => {
  await gateway.close();
  await standIn.close();
});

const user = { role: 'user', content: 'Hi' };
type Format = '/v1/chat/completions' | '/v1/messages' | '/v1/responses' | '/v1/completions';
const conversations: Format[] = ['/v1/chat/completions', '/v1/messages', '/v1/responses'];
const parameters = { type: 'object', properties: {} };

function body(format: Format, model: string, stream: boolean, cap: number | null = CAP): object {
  switch (format) {
    case '/v1/chat/completions':
      return {
        model,
        stream,
        messages: [user],
        tools: [{ type: 'function', function: { name: 'f', parameters } }],
        ...(cap === null ? {} : { max_tokens: cap }),
      };
    case '/v1/messages':
      return {
        model,
        stream,
        messages: [user],
        tools: [{ name: 'f', input_schema: parameters }],
        max_tokens: cap ?? 2_000,
      };
    case '/v1/responses':
      return {
        model,
        stream,
        input: 'Hi',
        store: false,
        tools: [{ type: 'function', name: 'f', parameters }],
        ...(cap === null ? {} : { max_output_tokens: cap }),
      };
    case '/v1/completions':
      return { model, stream, prompt: 'Hi', ...(cap === null ? {} : { max_tokens: cap }) };
  }
}

/**
 * Returns the status of a complete response, or a stream's last events, and the error's code and message if there is
 * one.
 */
async function ask(
  server: Gateway,
  format: Format,
  request: object,
): Promise<{ status: number; code: string | null; message: string; text: string }> {
  const response = await server.post(format, request);
  const text = await response.text();
  const code = /"code":"([a-z_]+)"/.exec(text)?.[1] ?? /"type":"(api_error)"/.exec(text)?.[1] ?? null;
  return { status: response.status, code, message: /"message":"((?:[^"\\]|\\.)*)"/.exec(text)?.[1] ?? '', text };
}

/** A TCP reader sees chunks of arbitrary size; these are a few kilobytes each. */
async function send(
  response: Parameters<Say>[0],
  head: string,
  unit: string,
  bytes: number,
  tail: string,
): Promise<void> {
  response.write(head);
  const block = unit.repeat(Math.max(1, Math.ceil(16_384 / unit.length)));
  for (let sent = 0; sent < bytes && !response.destroyed; sent += block.length) {
    if (!response.write(block))
      await new Promise<void>((resolve) => {
        response.once('drain', resolve).once('close', resolve);
      });
  }
  response.end(tail);
}

const sse = (...events: object[]): string => events.map((event) => `data: ${JSON.stringify(event)}\n\n`).join('');
type Kind = 'text' | 'arguments' | 'single characters';
const part = (kind: Kind): string => (kind === 'single characters' ? 'x' : 'x'.repeat(500));

/** An endless stream in an upstream's format. */
function endless(api: string, kind: Kind): { head: string; unit: string } {
  const text = part(kind),
    isCall = kind === 'arguments';
  switch (api) {
    case 'chat':
      return {
        head: isCall
          ? sse({
              choices: [
                {
                  index: 0,
                  delta: { tool_calls: [{ index: 0, id: 'a', function: { name: 'f', arguments: '{"a":"' } }] },
                },
              ],
            })
          : '',
        unit: sse({
          choices: [
            {
              index: 0,
              delta: isCall ? { tool_calls: [{ index: 0, function: { arguments: text } }] } : { content: text },
            },
          ],
        }),
      };
    case 'completions':
      return { head: '', unit: sse({ choices: [{ index: 0, text }] }) };
    case 'messages':
      return {
        head: sse({
          type: 'content_block_start',
          index: 0,
          content_block: isCall ? { type: 'tool_use', id: 'a', name: 'f', input: {} } : { type: 'text', text: '' },
        }),
        unit: sse({
          type: 'content_block_delta',
          index: 0,
          delta: isCall ? { type: 'input_json_delta', partial_json: text } : { type: 'text_delta', text },
        }),
      };
    default:
      return {
        head: sse({
          type: 'response.output_item.added',
          output_index: 0,
          item: isCall ? { type: 'function_call', id: 'a', name: 'f', arguments: '' } : { type: 'message', id: 'a' },
        }),
        unit: sse({
          type: isCall ? 'response.function_call_arguments.delta' : 'response.output_text.delta',
          output_index: 0,
          item_id: 'a',
          delta: text,
        }),
      };
  }
}

/** The start and end of a JSON body around text or arguments of any length. */
function wholeOf(api: string, kind: Kind): [string, string] {
  const cut = (value: object): [string, string] => JSON.stringify(value).split('@') as [string, string];
  const isCall = kind === 'arguments';
  switch (api) {
    case 'chat':
      return cut({
        choices: [
          {
            index: 0,
            message: isCall ? { tool_calls: [{ id: 'a', function: { name: 'f', arguments: '@' } }] } : { content: '@' },
            finish_reason: 'stop',
          },
        ],
      });
    case 'completions':
      return cut({ choices: [{ index: 0, text: '@', finish_reason: 'stop' }] });
    case 'messages':
      return cut({
        type: 'message',
        content: [isCall ? { type: 'tool_use', id: 'a', name: 'f', input: { a: '@' } } : { type: 'text', text: '@' }],
        stop_reason: 'end_turn',
      });
    default:
      return cut({
        status: 'completed',
        output: [
          isCall
            ? { type: 'function_call', id: 'a', name: 'f', arguments: '@' }
            : { type: 'message', id: 'a', content: [{ type: 'output_text', text: '@' }] },
        ],
      });
  }
}

const streamSaying =
  ({ head, unit }: { head: string; unit: string }): Say =>
  (response) => {
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    return send(response, head, unit, 100e6, '');
  };
const wholeSaying =
  ([head, tail]: [string, string], text: string, bytes: number): Say =>
  (response) => {
    response.writeHead(200, { 'content-type': 'application/json' });
    return send(response, head, text, bytes, tail);
  };

for (const api of ['chat', 'messages', 'responses', 'completions']) {
  for (const kind of ['text', 'arguments', 'single characters'] as const) {
    if ((api === 'completions' && kind === 'arguments') || (api !== 'chat' && kind === 'single characters')) continue;
    t.test(`ends a response of a ${api} upstream above the limit: ${kind}`, async (t) => {
      const formats: Format[] = api === 'completions' ? ['/v1/completions'] : conversations;
      for (const say of [
        streamSaying(endless(api, kind)),
        ...(kind === 'single characters' ? [] : [wholeSaying(wholeOf(api, kind), 'x'.repeat(1_000), 100e6)]),
      ]) {
        standIn.say = say;
        for (const format of formats) {
          for (const streamed of [false, true]) {
            const before = standIn.heard.length;
            const { status, code, message, text } = await ask(gateway, format, body(format, api, streamed));
            if (!streamed) t.equal(status, 500, format);
            t.match(code, /model_error|api_error/, `${format} ${streamed}`);
            t.match(message, /more text than|more than an answer|larger response/, `${format} ${streamed}`);
            t.ok(text.length < (kind === 'single characters' ? 400 : 20) * BOUND, `${text.length} bytes were sent`);
            t.equal(standIn.heard.length - before, 1, 'the request is not retried');
          }
        }
      }
      t.ok(
        await eventually(
          () => [...standIn.sockets].filter((socket) => !socket.destroyed && socket.writableLength > 0).length === 0,
        ),
        'the connection to the upstream was closed',
      );
    });
  }
}

/** The fields of a complete chat completion that the tests check. */
interface Whole {
  choices: [{ message: { content: string }; logprobs: { content: object[] } }];
  usage: { completion_tokens: number };
}

t.test(
  'the limit is exact: 64 KiB plus 64 bytes per token of the cap, in UTF-8, for text and arguments together',
  async (t) => {
    const answer =
      (text: string, given: string): Say =>
      (response) =>
        void response.writeHead(200, { 'content-type': 'text/event-stream' }).end(
          sse(
            { choices: [{ index: 0, delta: { reasoning_content: 'é'.repeat(100), content: text } }] },
            {
              choices: [
                {
                  index: 0,
                  delta: { tool_calls: [{ index: 0, id: 'a', function: { name: 'f', arguments: given } }] },
                  finish_reason: 'tool_calls',
                },
              ],
            },
          ),
        );
    const given = JSON.stringify({ a: 'x'.repeat(1_000) });
    for (const cap of [CAP, null]) {
      const bound = 65_536 + 64 * (cap ?? 2_000);
      const rest = bound - 200 - 1 - given.length;
      standIn.say = answer('x'.repeat(rest), given);
      const { status, text } = await ask(
        gateway,
        '/v1/chat/completions',
        body('/v1/chat/completions', 'chat', false, cap),
      );
      t.equal(status, 200, `cap ${cap}`);
      t.match(JSON.parse(text), {
        choices: [
          {
            finish_reason: 'tool_calls',
            message: { content: 'x'.repeat(rest), tool_calls: [{ function: { arguments: given } }] },
          },
        ],
      });
      standIn.say = answer('x'.repeat(rest + 1), given);
      t.match(
        await ask(gateway, '/v1/chat/completions', body('/v1/chat/completions', 'chat', false, cap)),
        { status: 500, code: 'model_error', message: new RegExp(`over ${bound} bytes`) },
        `cap ${cap}`,
      );
    }
  },
);

const logprob = {
  token: ' a',
  logprob: -0.5,
  bytes: [32, 97],
  top_logprobs: [
    { token: ' a', logprob: -0.5, bytes: [32, 97] },
    { token: ' b', logprob: -1.5, bytes: [32, 98] },
  ],
};

t.test('log probabilities do not count toward that limit: a body of 1.6 MB with 10,000 of them', async (t) => {
  const tokens = 10_000;
  const list = `[${Array.from({ length: tokens }, () => JSON.stringify(logprob)).join(',')}]`;
  t.ok(list.length > 1.5e6);
  const text = ' a'.repeat(1_000);
  // The content comes after its log probabilities, as from servers that sort member names.
  standIn.say = (response) =>
    void response
      .writeHead(200, { 'content-type': 'application/json' })
      .end(
        `{"choices":[{"finish_reason":"length","index":0,"logprobs":{"content":${list}},"message":{"content":"${text}"}}],"usage":{"prompt_tokens":3,"completion_tokens":10000}}`,
      );
  const asked = { ...body('/v1/chat/completions', 'chat', false), logprobs: true, top_logprobs: 2 };
  const {
    choices: [choice],
    usage,
  } = JSON.parse((await ask(gateway, '/v1/chat/completions', asked)).text) as Whole;
  t.equal(choice.message.content, text);
  t.equal(choice.logprobs.content.length, tokens);
  t.same(choice.logprobs.content[tokens - 1], logprob);
  t.equal(usage.completion_tokens, tokens);
  const streamed = (await ask(gateway, '/v1/chat/completions', { ...asked, stream: true })).text;
  t.equal(streamed.match(/"top_logprobs"/g)?.length, tokens, 'streamed');
  const { status, text: without } = await ask(
    gateway,
    '/v1/chat/completions',
    body('/v1/chat/completions', 'chat', false),
  );
  t.equal(status, 500, 'a body of that size is refused if log probabilities were not requested');
  t.match(without, /larger response than is allowed/);

  standIn.say = (response) =>
    void response
      .writeHead(200, { 'content-type': 'application/json' })
      .end(
        `{"status":"completed","output":[{"type":"message","content":[{"type":"output_text","text":"${text}","logprobs":${list}}]}]}`,
      );
  const { output } = JSON.parse(
    (
      await ask(gateway, '/v1/responses', {
        ...body('/v1/responses', 'responses', false),
        include: ['message.output_text.logprobs'],
        top_logprobs: 2,
      })
    ).text,
  ) as { output: [{ content: [{ logprobs: object[] }] }] };
  t.equal(output[0].content[0].logprobs.length, tokens, 'responses');
  t.same(output[0].content[0].logprobs[7], logprob);

  const lists = {
    tokens: Array.from({ length: tokens }, () => ' a'),
    token_logprobs: Array.from({ length: tokens }, () => -0.5),
    top_logprobs: Array.from({ length: tokens }, () => ({ ' a': -0.5, ' b': -1.5 })),
  };
  standIn.say = (response) =>
    void response
      .writeHead(200, { 'content-type': 'application/json' })
      .end(JSON.stringify({ choices: [{ index: 0, text, logprobs: lists, finish_reason: 'length' }] }));
  const {
    choices: [legacy],
  } = JSON.parse(
    (await ask(gateway, '/v1/completions', { ...body('/v1/completions', 'completions', false), logprobs: 2 })).text,
  ) as { choices: [object] };
  t.match(legacy, { text, logprobs: lists }, 'completions');
});

t.test('handles one event of 2 MB with log probabilities and the following events in order', async (t) => {
  const tokens = 12_000;
  standIn.say = (response) =>
    void response.writeHead(200, { 'content-type': 'text/event-stream' }).end(
      sse(
        {
          choices: [
            {
              index: 0,
              delta: { content: 'one' },
              logprobs: { content: Array.from({ length: tokens }, () => logprob) },
            },
          ],
        },
        { choices: [{ index: 0, delta: { content: ' two' }, logprobs: { content: [logprob] } }] },
        { choices: [{ index: 0, delta: {}, finish_reason: 'stop' }] },
      ) + 'data: [DONE]\n\n',
    );
  const {
    choices: [choice],
  } = JSON.parse(
    (
      await ask(gateway, '/v1/chat/completions', {
        ...body('/v1/chat/completions', 'chat', false),
        logprobs: true,
        top_logprobs: 2,
      })
    ).text,
  ) as Whole;
  t.equal(choice.message.content, 'one two');
  t.equal(choice.logprobs.content.length, tokens + 1);
});

t.test('http.max_answering_bytes limits all responses together, and all memory is freed afterwards', async (t) => {
  // Although the limit is 1,024 bytes, one organization may use 2 MiB: the minimum is twice the largest body.
  const tight = await startGateway(
    { chat: model('chat-completions') },
    { ...settings, http: { ...http, max_answering_bytes: 1_024, max_body_bytes: 1_048_576, threads: 1 } },
  );
  try {
    const list = Array.from({ length: 9_000 }, () => logprob);
    const text = 'x'.repeat(120_000);
    const waiting: (() => void)[] = [];
    const big: Say = (response) => {
      response
        .writeHead(200, { 'content-type': 'text/event-stream' })
        .write(sse({ choices: [{ index: 0, delta: { content: text } }] }));
      waiting.push(() => response.end(sse({ choices: [{ index: 0, delta: {}, finish_reason: 'stop' }] })));
    };
    for (let round = 0; round < 2; round++) {
      standIn.say = big;
      const asked = Array.from({ length: 30 }, () =>
        ask(tight, '/v1/chat/completions', body('/v1/chat/completions', 'chat', false, null)),
      );
      t.ok(await eventually(() => waiting.length === 30));
      await new Promise((resolve) => setTimeout(resolve, 200));
      for (const go of waiting.splice(0)) go();
      const answers = await Promise.all(asked);
      const full = answers.filter(({ status }) => status === 503),
        served = answers.filter(({ status }) => status === 200);
      t.equal(full.length + served.length, 30, JSON.stringify(answers.map(({ status }) => status)));
      t.ok(
        full.length >= 10 && served.length >= 10,
        `${served.length} requests were served, ${full.length} were refused`,
      );
      t.match(full[0], { code: 'capacity_exhausted', message: /too many large responses/ });
      // The buffered part of an incomplete body counts as well.
      standIn.say = (response) =>
        void response.writeHead(200, { 'content-type': 'application/json' }).end(
          JSON.stringify({
            choices: [
              {
                index: 0,
                message: { content: 'x' },
                logprobs: { content: [...list, ...list] },
                finish_reason: 'stop',
              },
            ],
          }),
        );
      t.match(
        await ask(tight, '/v1/chat/completions', {
          ...body('/v1/chat/completions', 'chat', false),
          logprobs: true,
          top_logprobs: 2,
        }),
        { status: 422, code: 'unsupported_value' },
      );
      standIn.say = (response) =>
        void response.writeHead(200, { 'content-type': 'application/json' }).end(
          JSON.stringify({
            choices: [{ index: 0, message: { content: 'x' }, logprobs: { content: list }, finish_reason: 'stop' }],
          }),
        );
      t.equal(
        (
          await ask(tight, '/v1/chat/completions', {
            ...body('/v1/chat/completions', 'chat', false),
            logprobs: true,
            top_logprobs: 2,
          })
        ).status,
        200,
        'response memory is available again',
      );
    }
  } finally {
    await tight.close();
  }
});

t.test('a body that arrives at full speed does not block other requests', async (t) => {
  const head = '{"choices":[{"index":0,"message":{"content":"x"},"logprobs":{"content":[',
    unit = `${JSON.stringify(logprob)},`;
  standIn.say = (response, heard) => {
    if (heard.body['logprobs'] !== true)
      return void response
        .writeHead(200, { 'content-type': 'text/event-stream' })
        .end(sse({ choices: [{ index: 0, delta: { content: 'x' }, finish_reason: 'stop' }] }));
    response.writeHead(200, { 'content-type': 'application/json' });
    return send(response, head, unit, 10e6, `${unit.slice(0, -1)}]},"finish_reason":"stop"}]}`);
  };
  let isOver = false;
  const large = gateway
    .post('/v1/chat/completions', { ...body('/v1/chat/completions', 'chat', false), logprobs: true, top_logprobs: 2 })
    .then(async (response) => {
      const bytes = (await response.arrayBuffer()).byteLength;
      isOver = true;
      return { status: response.status, bytes };
    });
  let served = 0;
  while (!isOver) {
    t.equal((await ask(gateway, '/v1/chat/completions', body('/v1/chat/completions', 'chat', false))).status, 200);
    served++;
  }
  t.match(await large, { status: 200 });
  t.ok(served > 10, `${served} other requests were served meanwhile`);
});
