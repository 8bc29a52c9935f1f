// Replays the requests of benchmark and evaluation tools, byte for byte as their sources build them, and checks the
// parts of the responses that the tools read. The tools are Python programs and do not run here. Each test is named
// after its tool and the function that it replays.
import t from 'tap';
import { publishedAnswers } from '../../src/protocol/openapi/document.js';
import { startScripted } from '../support/script-model.js';
import { root } from './monolith.js';

t.setTimeout(300_000); // the machine may be busy

const server = await startScripted({
  models: ['hal-1.0'],
  env: { MONOLITH_ENGINE_MAX_SEQUENCES: '4', MONOLITH_METRICS_TOKEN: 'metrics-token-0123456789' },
});
t.teardown(() => server.stop());

const bearer = { authorization: `Bearer ${server.key}` };
const get = async <T>(path: string, headers: Record<string, string> = bearer): Promise<{ status: number; body: T }> => {
  const response = await fetch(server.url + path, { headers });
  return { status: response.status, body: (await response.json()) as T };
};
const post = (path: string, body: object, headers: Record<string, string> = {}): Promise<Response> =>
  fetch(server.url + path, {
    method: 'POST',
    body: JSON.stringify(body),
    headers: { 'content-type': 'application/json', ...bearer, ...headers },
  });
const json = async <T>(path: string, body: object): Promise<T> => {
  const response = await post(path, body);
  if (response.status !== 200) throw new Error(await response.text());
  return (await response.json()) as T;
};

interface Usage {
  prompt_tokens: number;
  completion_tokens: number;
}
interface Chunk {
  id: string;
  object: string;
  choices?: { text?: string | null; delta?: { content?: string; role?: string } }[];
  usage?: Usage | null;
}

/** Parses a stream as clients do that split it at empty lines and strip "data: ". */
async function chunksOf(response: Response): Promise<Chunk[]> {
  if (response.status !== 200) throw new Error(await response.text());
  const messages = (await response.text())
    .split('\n\n')
    .map((one) => one.trim())
    .filter((one) => one !== '' && !one.startsWith(':'));
  const data = messages.map((one) => {
    if (!one.startsWith('data: ')) throw new Error(`not a data line: ${one}`);
    return one.slice(6);
  });
  if (data.pop() !== '[DONE]') throw new Error('the stream does not end with [DONE]');
  return data.map((one) => JSON.parse(one) as Chunk);
}

/**
 * Reads a stream as vLLM and guidellm do: each chunk with choices counts as a token, and the chunk without choices has
 * the usage.
 */
function read(chunks: readonly Chunk[]): { text: string; tokens: number; usage: Usage | null } {
  let text = '',
    tokens = 0,
    usage: Usage | null = null;
  for (const chunk of chunks) {
    if (chunk.choices !== undefined && chunk.choices.length > 0) {
      tokens++;
      const [first] = chunk.choices;
      text += (first!.delta === undefined ? first!.text : first!.delta.content) ?? '';
    } else if (chunk.usage) usage = chunk.usage;
  }
  return { text, tokens, usage };
}

t.test('vllm bench serve finds the model (get_first_model_from_server)', async (t) => {
  const {
    body: { data },
  } = await get<{ data: { id: string; root: string; max_model_len: number }[] }>('/v1/models');
  t.match([data[0]!.id, data[0]!.root], ['hal-1.0', 'hal-1.0']);
  t.ok(data[0]!.max_model_len > 0);
});

t.test(
  'vllm bench serve --backend openai can read a completions stream (async_request_openai_completions)',
  async (t) => {
    const response = await post(
      '/v1/completions',
      {
        model: 'hal-1.0',
        prompt: 'Every word of it counts',
        repetition_penalty: 1.0,
        max_tokens: 24,
        logprobs: null,
        stream: true,
        stream_options: { include_usage: true },
        ignore_eos: true,
      },
      { 'x-request-id': 'bench-0' },
    );
    const seen = read(await chunksOf(response));
    t.equal(
      seen.usage?.completion_tokens,
      24,
      'the response has the requested number of tokens, whatever the model would write otherwise',
    );
    t.ok(seen.tokens > 1 && seen.usage!.prompt_tokens > 5);
    const ids = read(
      await chunksOf(
        await post('/v1/completions', {
          model: 'hal-1.0',
          prompt: [80, 81, 82, 83],
          repetition_penalty: 1.0,
          max_tokens: 3,
          logprobs: null,
          stream: true,
          stream_options: { include_usage: true },
          ignore_eos: true,
        }),
      ),
    );
    t.match(ids.usage, { prompt_tokens: 4, completion_tokens: 3 });
  },
);

t.test(
  'vllm bench serve --backend openai-chat can read a chat stream (async_request_openai_chat_completions)',
  async (t) => {
    const response = await post(
      '/v1/chat/completions',
      {
        model: 'hal-1.0',
        messages: [{ role: 'user', content: [{ type: 'text', text: 'A: hello' }] }],
        max_completion_tokens: 30,
        stream: true,
        stream_options: { include_usage: true },
        ignore_eos: true,
      },
      { 'x-request-id': 'bench-1' },
    );
    const seen = read(await chunksOf(response));
    t.match(seen.text, /^Paris is the capital of France\./);
    t.equal(seen.usage?.completion_tokens, 30);
  },
);

t.test(
  'SGLang bench_serving --backend vllm can read a completions stream (async_request_openai_completions)',
  async (t) => {
    t.equal(
      (await get<{ data: { id: string }[] }>('/v1/models')).body.data[0]!.id,
      'hal-1.0',
      'this is the model to use if none is named',
    );
    const body = {
      model: 'hal-1.0',
      prompt: 'Every word',
      temperature: 0.0,
      best_of: 1,
      max_tokens: 16,
      stream: true,
      ignore_eos: true,
    };
    // This client reads choices[0] of every event, so every event must have a choice.
    const chunks = await chunksOf(await post('/v1/completions', body));
    t.ok(chunks.every(({ choices }) => typeof choices?.[0]?.text === 'string'));
    const whole = await json<{ choices: { text: string }[]; usage: Usage }>('/v1/completions', {
      ...body,
      stream: false,
    });
    t.equal(whole.usage.completion_tokens, 16);
    t.equal(chunks.map(({ choices }) => choices![0]!.text).join(''), whole.choices[0]!.text);
    const chat = await chunksOf(
      await post('/v1/chat/completions', {
        model: 'hal-1.0',
        messages: [{ role: 'user', content: 'A: hello' }],
        temperature: 0.0,
        max_tokens: 16,
        stream: true,
      }),
    );
    t.ok(chat.every(({ choices }) => choices?.[0]?.delta !== undefined));
  },
);

t.test('guidellm can read completions and chat streams (OpenAIHTTPBackend, its request handlers)', async (t) => {
  t.equal((await fetch(`${server.url}/health`, { headers: bearer })).status, 200, 'guidellm checks /health first');
  t.equal((await get<{ data: { id: string }[] }>('/v1/models')).body.data[0]!.id, 'hal-1.0');
  const stream = { stream: true, stream_options: { include_usage: true, continuous_usage_stats: true } };
  for (const [path, body] of [
    [
      '/v1/completions',
      { model: 'hal-1.0', ...stream, max_tokens: 12, stop: null, ignore_eos: true, prompt: 'Every word' },
    ],
    [
      '/v1/chat/completions',
      {
        model: 'hal-1.0',
        ...stream,
        max_completion_tokens: 12,
        stop: null,
        ignore_eos: true,
        messages: [
          { role: 'system', content: 'Be brief.' },
          { role: 'user', content: [{ type: 'text', text: 'A: hello' }] },
        ],
      },
    ],
  ] as const) {
    const chunks = await chunksOf(await post(path, body));
    t.match(chunks[0], { id: String });
    const counts = chunks.map(({ usage }) => usage?.completion_tokens ?? -1);
    t.same(
      counts,
      [...counts].sort((a, b) => a - b),
      'every chunk has its usage, and the count never decreases',
    );
    t.equal(counts.at(-1), 12, path);
    t.ok(counts.every((count) => count >= 0));
  }
});

interface Scored {
  choices: {
    index: number;
    text: string;
    logprobs: { token_logprobs: (number | null)[]; top_logprobs: (Record<string, number> | null)[] };
  }[];
}

t.test(
  'lm-eval --model local-completions can use the tokenizer of the server (check_remote_tokenizer_support, RemoteTokenizer)',
  async (t) => {
    const { status, body } = await get<{
      eos_token: string;
      bos_token: string | null;
      pad_token: string | null;
      chat_template: string;
    }>('/tokenizer_info');
    t.equal(status, 200);
    t.same(publishedAnswers.TokenizerInfo.safeParse(body).error?.issues, undefined);
    t.type(body.eos_token, 'string');
    t.match(body.chat_template, /messages/);
    const { tokens } = await json<{ tokens: number[] }>('/tokenize', {
      prompt: body.eos_token,
      add_special_tokens: false,
    });
    t.equal(tokens.length, 1, 'lm-eval uses the first of these tokens as eos_token_id');
    const { prompt } = await json<{ prompt: string }>('/detokenize', { tokens: [80, 81, 82] });
    t.same((await json<{ tokens: number[] }>('/tokenize', { prompt, add_special_tokens: false })).tokens, [80, 81, 82]);
  },
);

t.test(
  'lm-eval --model local-completions can read the log-likelihoods of a batch (_create_payload, parse_logprobs)',
  async (t) => {
    const contexts = [
      [80, 81, 82, 83, 84],
      [80, 81, 85],
    ];
    const ctxlens = [3, 1];
    const answer = await json<Scored>('/v1/completions', {
      model: 'hal-1.0',
      prompt: contexts,
      temperature: 0,
      max_tokens: 1,
      logprobs: 1,
      seed: 1234,
      echo: true,
    });
    const choices = [...answer.choices].sort((a, b) => a.index - b.index);
    t.equal(choices.length, 2);
    for (const [at, { logprobs }] of choices.entries()) {
      const told = logprobs.token_logprobs.slice(ctxlens[at], -1);
      t.equal(
        told.length,
        contexts[at]!.length - ctxlens[at]!,
        'the log-probabilities of the continuation, without the generated token',
      );
      t.ok(told.every((one) => typeof one === 'number' && one <= 0));
      const tops = logprobs.top_logprobs.slice(ctxlens[at], -1);
      // lm-eval compares the token's log probability with the largest one in its row. If the token is the most likely
      // token, the row must therefore contain it.
      for (const [place, top] of tops.entries()) t.ok(Math.max(...Object.values(top!)) >= told[place]! - 1e-9);
    }
    const generated = await json<Scored>('/v1/completions', {
      prompt: contexts,
      model: 'hal-1.0',
      max_tokens: 4,
      temperature: 0,
      stop: ['\n\n', 'Question:'],
      seed: 1234,
    });
    t.same(generated.choices.map(({ index }) => index).sort(), [0, 1]);
  },
);

t.test('AIPerf can read completions and chat completions (CompletionsEndpoint, ChatEndpoint)', async (t) => {
  const completions = await chunksOf(
    await post('/v1/completions', {
      prompt: ['Every word'],
      model: 'hal-1.0',
      stream: true,
      max_tokens: 8,
      ignore_eos: true,
      stream_options: { include_usage: true },
    }),
  );
  t.ok(completions.every(({ object }) => object === 'text_completion'));
  t.equal(read(completions).usage?.completion_tokens, 8);
  const chat = await chunksOf(
    await post('/v1/chat/completions', {
      messages: [{ role: 'user', content: 'A: hello' }],
      model: 'hal-1.0',
      stream: true,
      max_completion_tokens: 8,
      stream_options: { include_usage: true },
    }),
  );
  t.ok(chat.every(({ object }) => object === 'chat.completion.chunk'));
  t.match(read(chat), { text: /^Paris/, usage: { completion_tokens: Number } });
  const whole = await json<{ object: string; choices: { message: { content: string } }[]; usage: Usage }>(
    '/v1/chat/completions',
    { messages: [{ role: 'user', content: 'A: hello' }], model: 'hal-1.0', stream: false },
  );
  t.match(whole, {
    object: 'chat.completion',
    choices: [{ message: { content: /^Paris/ } }],
    usage: { completion_tokens: Number },
  });
});

t.test('inference-perf can read completions and the metrics (CompletionAPIData, vLLMModelServerClient)', async (t) => {
  const body = { model: 'hal-1.0', prompt: 'Every word', max_tokens: 8, ignore_eos: true };
  const chunks = await chunksOf(
    await post('/v1/completions', { ...body, stream: true, stream_options: { include_usage: true } }),
  );
  t.equal(read(chunks).usage?.completion_tokens, 8);
  t.match(await json('/v1/completions', { ...body, stream: false }), {
    choices: [{ text: String }],
    usage: { prompt_tokens: Number, completion_tokens: 8 },
  });
  // The metric names that inference-perf uses in its reports, as they appear in the text scraped by Prometheus.
  const scraped = await (
    await fetch(`${server.url}/metrics`, { headers: { authorization: 'Bearer metrics-token-0123456789' } })
  ).text();
  for (const name of [
    'prompt_tokens_total',
    'generation_tokens_total',
    'request_success_total',
    'e2e_request_latency_seconds_bucket',
    'num_requests_waiting',
    'num_requests_running',
    'request_time_per_output_token_seconds_bucket',
    'time_to_first_token_seconds_bucket',
    'inter_token_latency_seconds_bucket',
    'kv_cache_usage_perc',
    'num_preemptions_total',
    'prefix_cache_hits_total',
    'prefix_cache_queries_total',
    'request_queue_time_seconds_sum',
    'request_prefill_time_seconds_sum',
    'request_decode_time_seconds_sum',
    'request_prompt_tokens_sum',
    'request_generation_tokens_sum',
    'request_max_num_generation_tokens_sum',
  ]) {
    t.match(scraped, new RegExp(`^vllm:${name}\\{model_name="hal-1\\.0"`, 'm'), name);
  }
});

interface Slot {
  id: number;
  n_ctx: number;
  is_processing: boolean;
  params: { temperature: number };
}
interface Props {
  total_slots: number;
  default_generation_settings: { n_ctx: number; params: { temperature: number } };
  model_alias: string;
  model_path: string;
  chat_template: string;
  modalities: { vision: boolean };
  build_info: string;
  is_sleeping: boolean;
}

t.test('clients of llama-server can read /props and /slots, but only with a key or the metrics token', async (t) => {
  t.equal((await get('/props', {})).status, 401);
  t.equal((await get('/slots', { authorization: 'Bearer metrics-token-0123456789' })).status, 200);
  const { body: props } = await get<Props>('/props');
  t.match(props, {
    total_slots: 4,
    model_alias: 'hal-1.0',
    modalities: { vision: false },
    is_sleeping: false,
    build_info: /^monolith-/,
    model_path: /script\.gguf$/,
    chat_template: /messages/,
  });
  t.equal(
    props.default_generation_settings.n_ctx,
    (await get<{ max_model_len: number }>('/v1/models/hal-1.0')).body.max_model_len,
  );
  t.notOk(props.model_path.includes(root));
  t.same(publishedAnswers.ModelProperties.safeParse(props).error?.issues, undefined);
  t.same(publishedAnswers.ModelSlots.safeParse((await get('/slots')).body).error?.issues, undefined);
  const slots = async (query = ''): Promise<{ status: number; body: Slot[] }> => get<Slot[]>(`/slots${query}`);
  t.same(
    (await slots()).body.map(({ id, is_processing: busy }) => [id, busy]),
    [
      [0, false],
      [1, false],
      [2, false],
      [3, false],
    ],
  );
  t.equal((await slots('?model=nobody')).status, 404);
  const controller = new AbortController();
  const running = Array.from({ length: 4 }, () =>
    fetch(`${server.url}/v1/chat/completions`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', ...bearer },
      signal: controller.signal,
      body: JSON.stringify({ model: 'hal-1.0', stream: true, messages: [{ role: 'user', content: 'L: on' }] }),
    }).then((response) => response.body!.getReader().read()),
  );
  await Promise.all(running);
  t.equal((await slots()).body.filter(({ is_processing: busy }) => busy).length, 4);
  t.equal((await slots('?fail_on_no_slot=1')).status, 503);
  controller.abort();
});
