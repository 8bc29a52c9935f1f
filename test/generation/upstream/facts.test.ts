// Tests the metadata of upstream models (context length and prompt token counts) and trace propagation to upstreams.
import t from 'tap';
import { eventually } from '../../e2e/monolith.js';
import { startGateway, startStandIn, stream, type Heard, type Say, type StandIn } from '../../support/stand-in.js';

const answer = stream(
  { choices: [{ index: 0, delta: { content: 'Yes' }, finish_reason: 'stop' }] },
  { choices: [], usage: { prompt_tokens: 5, completion_tokens: 1 } },
  '[DONE]',
);
/** Responds by path. A generation request gets the stream above. */
const says =
  (answers: Readonly<Record<string, (heard: Heard) => object>>): Say =>
  (response, heard) => {
    const found = answers[heard.path];
    if (found === undefined && heard.path.endsWith('/chat/completions')) return answer(response, heard);
    response
      .writeHead(found === undefined ? 404 : 200, { 'content-type': 'application/json' })
      .end(JSON.stringify(found?.(heard) ?? { error: { message: 'no such path' } }));
  };

const words = (text: unknown): number[] =>
  String(text)
    .split(' ')
    .map((_, index) => index);
const vllm = await startStandIn(
  says({
    '/tokenize': ({ body }) =>
      body['prompt'] === undefined
        ? { count: 12 + (body['tools'] === undefined ? 0 : 30), max_model_len: 40_960 }
        : { count: words(body['prompt']).length },
  }),
);
vllm.facts = {
  '/v1/models': {
    data: [
      { id: 'other', max_model_len: 99 },
      { id: 'theirs', max_model_len: 40_960 },
    ],
  },
};
const llama = await startStandIn(
  says({
    '/tokenize': ({ body }) => ({ tokens: body['content'] === undefined ? [] : words(body['content']) }),
    '/apply-template': () => ({ prompt: 'one two three' }),
  }),
);
llama.facts = {
  '/v1/models': { data: [{ id: 'gguf', meta: { n_ctx_train: 1_000_000 } }] },
  '/props': { default_generation_settings: { n_ctx: 8_192 } },
};
const claude = await startStandIn(says({ '/v1/messages/count_tokens': () => ({ input_tokens: 21 }) }));
const silent = await startStandIn(says({ '/tokenize': () => ({ count: -1, tokens: 'many' }) }));
silent.facts = {
  '/v1/models': { data: [{ id: 'quiet', max_model_len: 'long' }] },
  '/props': { default_generation_settings: 'none' },
};

const gateway = await startGateway(
  {
    vllm: { upstream: { url: vllm.url, model: 'theirs' } },
    llama: { upstream: { url: llama.url } },
    both: { upstream: { servers: [{ url: vllm.url, model: 'theirs' }, { url: llama.url }] } },
    claude: { upstream: { url: claude.url, api: 'messages' } },
    quiet: { upstream: { url: silent.url } },
    set: { upstream: { url: vllm.url, model: 'theirs' }, context_window: 2_048 },
    along: { upstream: { url: vllm.url, model: 'theirs', structured_outputs: 'vllm' }, context_window: 2_048 },
  },
  { telemetry: { traces: { endpoint: 'http://127.0.0.1:9/v1/traces' } } },
);
t.teardown(async () => {
  await gateway.close();
  await Promise.all([vllm, llama, claude, silent].map((server) => server.close()));
});

t.test("publishes the context length that upstreams report; an operator's setting takes precedence", async (t) => {
  const windows = async (): Promise<Record<string, number>> => {
    const { data } = (await (await gateway.get('/v1/models')).json()) as {
      data: { id: string; max_model_len: number }[];
    };
    return Object.fromEntries(data.map(({ id, max_model_len: tokens }) => [id, tokens]));
  };
  t.ok(await eventually(async () => (await windows())['llama'] === 8_192 && (await windows())['both'] === 8_192));
  t.same(await windows(), {
    vllm: 40_960,
    llama: 8_192,
    both: 8_192,
    claude: 131_072,
    quiet: 131_072,
    set: 2_048,
    along: 2_048,
  });
});

t.test('distinguishes a full context from a reached token limit', async (t) => {
  const { say } = vllm;
  t.teardown(() => {
    vllm.say = say;
  });
  const endOf = async (model: string, cap: number, prompt: number, completion: number): Promise<unknown> => {
    vllm.say = stream(
      { choices: [{ index: 0, delta: { content: 'Yes' }, finish_reason: 'length' }] },
      { choices: [], usage: { prompt_tokens: prompt, completion_tokens: completion } },
      '[DONE]',
    );
    return (
      (await (
        await gateway.post('/v1/messages', { model, max_tokens: cap, messages: [{ role: 'user', content: 'Go on.' }] })
      ).json()) as { stop_reason: unknown }
    ).stop_reason;
  };
  t.equal(await endOf('set', 1_000, 1_948, 100), 'model_context_window_exceeded');
  t.equal(await endOf('set', 100, 1_948, 100), 'max_tokens');
  t.equal(await endOf('set', 1_000, 1_900, 100), 'max_tokens', 'the response was truncated for another reason');
});

t.test(
  'an upstream with continuous usage reports the prompt tokens in its first event, and a response without final usage still has its tokens',
  async (t) => {
    const { say } = vllm;
    t.teardown(() => {
      vllm.say = say;
    });
    const piece = (delta: object, completion: number, finish: string | null = null): object => ({
      choices: [{ index: 0, delta, finish_reason: finish }],
      usage: { prompt_tokens: 7, completion_tokens: completion },
    });
    vllm.say = stream(
      piece({ role: 'assistant', content: '' }, 0),
      piece({ content: 'Yes' }, 3),
      piece({}, 3, 'stop'),
      '[DONE]',
    );
    const usages = async (model: string): Promise<unknown[]> => {
      const text = await (
        await gateway.post('/v1/messages', {
          model,
          stream: true,
          max_tokens: 20,
          messages: [{ role: 'user', content: 'Go on.' }],
        })
      ).text();
      const events = [...text.matchAll(/^data: (.*)$/gm)].map(
        ([, data = '']) => JSON.parse(data) as { type: string; message?: { usage: unknown }; usage?: unknown },
      );
      return events.flatMap(({ message, usage }) => message?.usage ?? usage ?? []);
    };
    t.match(await usages('along'), [{ input_tokens: 7 }, { output_tokens: 3 }]);
    t.same(vllm.heard.at(-1)?.body['stream_options'], { include_usage: true, continuous_usage_stats: true });
    await usages('set');
    t.same(
      vllm.heard.at(-1)?.body['stream_options'],
      { include_usage: true },
      'other upstreams do not get this option because they may not support it',
    );
  },
);

const tools = [{ name: 'get', description: 'Gets it.', input_schema: { type: 'object', properties: {} } }];
async function counted(model: string, more: object = {}): Promise<[tokens: number, estimate: string | null]> {
  const response = await gateway.post('/v1/messages/count_tokens', {
    model,
    messages: [{ role: 'user', content: 'How many are these?' }],
    ...more,
  });
  return [((await response.json()) as { input_tokens: number }).input_tokens, response.headers.get('x-token-count')];
}

t.test('the upstream counts tokens if it can', async (t) => {
  t.same(await counted('vllm'), [12, null]);
  t.same(await counted('vllm', { tools }), [42, null], 'tools are counted');
  t.match(vllm.heard.at(-1), {
    path: '/tokenize',
    body: {
      model: 'theirs',
      messages: [{ role: 'user', content: 'How many are these?' }],
      add_generation_prompt: true,
      stream: undefined,
    },
  });
  t.same(await counted('llama'), [3, null]);
  t.same(await counted('claude'), [21, null]);
  t.match(claude.heard.at(-1), {
    path: '/v1/messages/count_tokens',
    body: { model: 'claude', stream: undefined, max_tokens: undefined },
  });
  for (const model of ['quiet', 'claude']) {
    claude.say = (response) => void response.destroy();
    const [tokens, estimate] = await counted(model);
    t.equal(estimate, 'estimate', model);
    t.ok(tokens > 3, model);
  }
  const picture = {
    type: 'image',
    source: {
      type: 'base64',
      media_type: 'image/png',
      data: 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==',
    },
  };
  t.equal(
    (
      await gateway.post('/v1/messages/count_tokens', {
        model: 'vllm',
        messages: [{ role: 'user', content: [picture] }],
      })
    ).status,
    400,
    'the upstream does not accept images for counting',
  );
});

t.test('token counting does not bypass limits: few count requests run concurrently, others wait', async (t) => {
  const waiting: (() => void)[] = [];
  const { say } = vllm;
  let most = 0,
    now = 0;
  vllm.say = (response, heard) => {
    most = Math.max(most, ++now);
    waiting.push(() => {
      now--;
      void say(response, heard);
    });
  };
  const all = Array.from({ length: 60 }, () => counted('vllm'));
  t.ok(await eventually(() => waiting.length === 24));
  const zero = gateway.post('/v1/messages', {
    model: 'vllm',
    max_tokens: 0,
    messages: [{ role: 'user', content: 'Hi' }],
  });
  let done = false;
  void Promise.all(all).then(() => {
    done = true;
  });
  t.ok(
    await eventually(() => {
      waiting.shift()?.();
      return done;
    }),
  );
  t.same(
    await Promise.all(all),
    Array.from({ length: 60 }, () => [12, null]),
  );
  t.ok(
    await eventually(() => {
      waiting.shift()?.();
      return waiting.length === 0;
    }),
  );
  vllm.say = say;
  t.match(
    await (await zero).json(),
    { usage: { input_tokens: 12, output_tokens: 0 } },
    'the limit also applies to a request with max_tokens 0',
  );
  t.equal(most, 24);
});

t.test('propagates the trace of a sampled request', async (t) => {
  const ask = async (server: StandIn, headers: Record<string, string>): Promise<Heard['headers']> => {
    await (
      await gateway.post(
        '/v1/chat/completions',
        { model: 'vllm', messages: [{ role: 'user', content: 'Hi' }] },
        { headers },
      )
    ).text();
    return server.heard.at(-1)!.headers;
  };
  const parent = '4bf92f3577b34da6a3ce929d0e0e4736';
  const told = await ask(vllm, { traceparent: `00-${parent}-00f067aa0ba902b7-01`, tracestate: 'congo=t61rcWkgMzE' });
  t.match(
    told['traceparent'],
    new RegExp(`^00-${parent}-(?!00f067aa0ba902b7)[0-9a-f]{16}-01$`),
    'the parent is a span of this server',
  );
  t.equal(told['tracestate'], 'congo=t61rcWkgMzE');
  t.match(
    (await ask(vllm, {}))['traceparent'],
    /^00-[0-9a-f]{32}-[0-9a-f]{16}-01$/,
    'a request without a trace starts a new one',
  );
  t.equal(
    (await ask(vllm, { traceparent: `00-${parent}-00f067aa0ba902b7-00` }))['traceparent'],
    undefined,
    'an unsampled request is not traced',
  );
});
