// Tests POST /v1/completions on golden models, as benchmark and evaluation tools use it. Covers prompt log
// probabilities compared with the golden logits, every form of prompt, streams, and multiple choice as scored by
// lm-eval.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import OpenAI from 'openai';
import t from 'tap';
import { Connection } from '../support/web-socket.js';
import { eventually, root, startMonolith } from './monolith.js';

t.setTimeout(300_000); // the machine may be busy

interface Position {
  position: number;
  exact: string;
}
interface Golden {
  n_vocab: number;
  prompts: { id: string; text: string; tokens: number[]; positions: Position[] }[];
}
const vectors = join(root, 'test', 'data', 'vectors', 'models');
const golden = JSON.parse(readFileSync(join(vectors, 'qwen3.f16.json'), 'utf8')) as Golden;

const off = { MONOLITH_LIMITS_RPM: 'off', MONOLITH_LIMITS_TPM: 'off', MONOLITH_LIMITS_CONCURRENCY: 'off' };
const server = await startMonolith({
  args: ['--model', `qwen=${join(vectors, 'qwen3.f16.gguf')}`, '--arithmetic', 'exact', '--kv-type', 'f32'],
  env: off,
});
t.teardown(() => server.stop());
const client = new OpenAI({ apiKey: server.key, baseURL: `${server.url}/v1`, maxRetries: 0 });

interface Logprobs {
  tokens: string[];
  token_logprobs: (number | null)[];
  top_logprobs: (Record<string, number> | null)[];
  text_offset: number[];
}
interface Told {
  logprob: number;
  rank: number | null;
  decoded_token: string;
}
interface Choice {
  index: number;
  text: string;
  finish_reason: string | null;
  stop_reason: string | null;
  logprobs: Logprobs | null;
  prompt_logprobs?: (Record<string, Told> | null)[];
  token_ids?: number[];
  prompt_token_ids?: number[];
}
interface Answer {
  id: string;
  object: string;
  choices: Choice[];
  usage: { prompt_tokens: number; completion_tokens: number; prompt_tokens_details: { cached_tokens: number } };
}
interface Refused {
  error: { code: string; param: string | null; message: string };
}

async function post<T = Answer>(body: object, path = '/v1/completions'): Promise<{ status: number; body: T }> {
  const response = await fetch(`${server.url}${path}`, {
    method: 'POST',
    body: JSON.stringify({ model: 'qwen', ...body }),
    headers: { 'content-type': 'application/json', authorization: `Bearer ${server.key}` },
  });
  return { status: response.status, body: (await response.json()) as T };
}
const complete = async (body: object): Promise<Answer> => {
  const { status, body: answer } = await post(body);
  if (status !== 200) throw new Error(JSON.stringify(answer));
  return answer;
};

const floats = (text: string): Float32Array => {
  const bytes = Buffer.from(text, 'base64');
  return new Float32Array(bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.length));
};
const sum = (values: readonly number[]): number => values.reduce((total, value) => total + value, 0);

t.test('prompt log-probabilities match the golden logits', async (t) => {
  for (const { id, tokens, positions } of golden.prompts.filter(({ tokens: { length } }) => length > 1)) {
    // The request that lm-eval sends: the prompt as token ids, echoed, and one generated token, which lm-eval discards.
    const answer = await complete({ prompt: tokens, echo: true, logprobs: 1, max_tokens: 1, temperature: 0 });
    const { logprobs } = answer.choices[0]!;
    t.equal(logprobs!.tokens.length, tokens.length + 1, id);
    t.equal(logprobs!.token_logprobs[0], null);
    const prompted = await complete({ prompt: tokens, max_tokens: 0, prompt_logprobs: 3 });
    const told = prompted.choices[0]!.prompt_logprobs!;
    t.equal(told.length, tokens.length);
    t.match(prompted, {
      choices: [{ text: '', finish_reason: 'length' }],
      usage: { completion_tokens: 0, prompt_tokens: tokens.length },
    });
    for (const { position, exact } of positions) {
      const next = tokens[position + 1];
      if (next === undefined) continue;
      const logits = floats(exact);
      const logsumexp = Math.log(sum(Array.from(logits, Math.exp)));
      const expected = logits[next]! - logsumexp;
      t.ok(
        Math.abs(logprobs!.token_logprobs[position + 1]! - expected) < 1e-3,
        `${id} at ${position}: ${logprobs!.token_logprobs[position + 1]}, expected ${expected}`,
      );
      const best = logits.indexOf(Math.max(...logits));
      const entry = told[position + 1]!;
      t.ok(Math.abs(entry[next]!.logprob - expected) < 1e-3);
      t.equal(entry[best]!.rank, 1);
      t.ok(Math.abs(entry[best]!.logprob - (logits[best]! - logsumexp)) < 1e-3);
      t.ok(Object.keys(entry).length === 3 || (Object.keys(entry).length === 4 && entry[next]!.rank === null));
    }
  }
});

t.test('prompt log-probabilities do not disable the prefix cache and do not depend on the batch', async (t) => {
  const { tokens } = golden.prompts.find(({ id }) => id === 'long')!;
  const ask = (): Promise<Answer> =>
    complete({ prompt: tokens, echo: true, logprobs: 2, max_tokens: 4, temperature: 0 });
  const alone = await ask();
  const [crowd] = await Promise.all([
    Promise.all(Array.from({ length: 6 }, ask)),
    complete({ prompt: tokens.slice(0, 300), max_tokens: 60, ignore_eos: true, temperature: 0 }),
  ]);
  for (const one of crowd) t.same(one.choices, alone.choices);
  const after = await complete({ prompt: tokens, max_tokens: 4, temperature: 0 });
  t.ok(
    after.usage.prompt_tokens_details.cached_tokens >= tokens.length - 17,
    'the pages of the prompt are cached for other requests',
  );
  t.equal(alone.choices[0]!.text.endsWith(after.choices[0]!.text), true);
});

t.test('accepts a prompt as text, as token ids, or as a list of either', async (t) => {
  const { text, tokens } = golden.prompts.find(({ id }) => id === 'short')!;
  const more = { max_tokens: 6, temperature: 0, ignore_eos: true };
  const one = await complete({ prompt: text, add_special_tokens: false, return_token_ids: true, ...more });
  t.match(one, {
    object: 'text_completion',
    id: /^cmpl-/,
    choices: [{ index: 0, finish_reason: 'length', logprobs: null, prompt_token_ids: tokens }],
    usage: { prompt_tokens: tokens.length, completion_tokens: 6 },
  });
  t.equal(one.choices[0]!.token_ids!.length, 6);
  const ofTokens = await complete({ prompt: tokens, ...more });
  t.equal(ofTokens.choices[0]!.text, one.choices[0]!.text);
  const several = await complete({ prompt: [tokens, golden.prompts[4]!.tokens, tokens], n: 2, ...more });
  t.same(
    several.choices.map(({ index }) => index),
    [0, 1, 2, 3, 4, 5],
  );
  for (const index of [0, 1, 4, 5]) t.equal(several.choices[index]!.text, one.choices[0]!.text);
  t.equal(several.usage.completion_tokens, 36);
  t.same(
    (await complete({ prompt: [text, text], add_special_tokens: false, echo: true, ...more })).choices.map(
      (choice) => choice.text,
    ),
    Array(2).fill(text + one.choices[0]!.text),
  );
  const thirty = await complete({
    prompt: Array.from({ length: 30 }, (_, at) => tokens.slice(0, 2 + (at % 5))),
    max_tokens: 2,
  });
  t.equal(thirty.choices.length, 30);
});

t.test('a request with more prompts than concurrency slots runs them one after another', async (t) => {
  const few = await startMonolith({
    args: ['--model', `qwen=${join(vectors, 'qwen3.f16.gguf')}`],
    env: { ...off, MONOLITH_LIMITS_CONCURRENCY: '2' },
  });
  t.teardown(() => few.stop());
  const prompts = Array.from({ length: 7 }, (_, index) => golden.prompts[0]!.tokens.slice(0, 3 + index));
  const ask = async (body: object): Promise<Response> =>
    fetch(`${few.url}/v1/completions`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', authorization: `Bearer ${few.key}` },
      body: JSON.stringify({
        model: 'qwen',
        prompt: prompts,
        max_tokens: 40,
        temperature: 0,
        ignore_eos: true,
        ...body,
      }),
    });
  const whole = (await (await ask({})).json()) as Answer;
  t.same(
    whole.choices.map(({ index }) => index),
    [0, 1, 2, 3, 4, 5, 6],
  );
  t.equal(whole.usage.completion_tokens, 280);
  const streamed = (await (await ask({ stream: true })).text())
    .split('\n\n')
    .filter((line) => line.startsWith('data: {'))
    .map((line) => JSON.parse(line.slice(6)) as Answer);
  const texts = Array<string>(7).fill('');
  for (const {
    choices: [choice],
  } of streamed)
    texts[choice!.index] += choice!.text;
  t.same(
    texts,
    whole.choices.map((choice) => choice.text),
  );
  // All concurrency slots are free again.
  t.equal((await ask({ prompt: prompts[0] })).status, 200);
});

t.test('best_of returns the completions with the highest mean log-probability', async (t) => {
  const { tokens } = golden.prompts.find(({ id }) => id === 'short')!;
  const more = { prompt: tokens, max_tokens: 8, temperature: 1, seed: 5, ignore_eos: true };
  const all = await complete({ ...more, n: 5, logprobs: 0 });
  const means = all.choices
    .map(({ logprobs, text }) => ({ text, mean: sum(logprobs!.token_logprobs as number[]) / 8 }))
    .sort((a, b) => b.mean - a.mean);
  const best = await complete({ ...more, n: 2, best_of: 5 });
  t.same(
    best.choices.map(({ text }) => text),
    means.slice(0, 2).map(({ text }) => text),
  );
  t.equal(best.choices[0]!.logprobs, null);
  t.equal(best.usage.completion_tokens, 40, 'usage counts all generated tokens');
});

t.test('a stream has the same content as the complete response', async (t) => {
  const { tokens, text } = golden.prompts.find(({ id }) => id === 'short')!;
  const request = { model: 'qwen', prompt: tokens, max_tokens: 12, temperature: 0, echo: true, logprobs: 2, n: 2 };
  const whole = await client.completions.create(request);
  const texts = ['', ''];
  const logprobs = [[], []] as (number | null)[][];
  let usage = null;
  const stream = await client.completions.create({ ...request, stream: true, stream_options: { include_usage: true } });
  for await (const { choices, usage: told } of stream) {
    for (const choice of choices) {
      texts[choice.index] += choice.text;
      logprobs[choice.index]!.push(...(choice.logprobs?.token_logprobs ?? []));
    }
    usage = told ?? usage;
  }
  t.same(
    texts,
    whole.choices.map((choice) => choice.text),
  );
  t.same(
    logprobs,
    whole.choices.map((choice) => choice.logprobs!.token_logprobs),
  );
  t.same(usage, whole.usage);
  t.ok(whole.choices[0]!.text.startsWith(text.slice(0, 3)) || text.length < 3);
  const { tokens: spelled, text_offset: offsets } = whole.choices[0]!.logprobs!;
  let at = 0;
  for (const [index, one] of spelled!.entries()) {
    t.equal(offsets![index], at);
    // A token that is not a complete character appears in the text as U+FFFD.
    at += one.startsWith('bytes:') ? 1 : one.length;
  }

  const response = await fetch(`${server.url}/v1/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', authorization: `Bearer ${server.key}` },
    body: JSON.stringify({
      ...request,
      n: 1,
      echo: false,
      stream: true,
      return_token_ids: true,
      ignore_eos: true,
      stream_options: { continuous_usage_stats: true },
    }),
  });
  const chunks = (await response.text())
    .split('\n\n')
    .filter((line) => line.startsWith('data: {'))
    .map((line) => JSON.parse(line.slice(6)) as Answer);
  const counts = chunks.map((chunk) => chunk.usage.completion_tokens);
  t.same(
    counts,
    [...counts].sort((a, b) => a - b),
  );
  t.equal(counts.at(-1), 12);
  t.equal(chunks.flatMap((chunk) => chunk.choices[0]!.token_ids ?? []).length, 12);
});

t.test('ranks multiple-choice endings as token-by-token scoring does', async (t) => {
  // Generated items, each with a context and four endings as token ids. An ending's score is the sum over its tokens.
  const { tokens } = golden.prompts.find(({ id }) => id === 'long')!;
  const items = Array.from({ length: 6 }, (_, item) => ({
    context: tokens.slice(item * 40, item * 40 + 30),
    ends: Array.from({ length: 4 }, (_, end) =>
      Array.from({ length: 1 + ((item + end) % 4) }, (_, at) => (item * 97 + end * 31 + at * 13) % golden.n_vocab),
    ),
  }));
  for (const { context, ends } of items) {
    const scored = await complete({
      prompt: ends.map((end) => [...context, ...end]),
      echo: true,
      logprobs: 1,
      max_tokens: 1,
      temperature: 0,
    });
    const api = scored.choices.map(({ logprobs }) =>
      sum(logprobs!.token_logprobs.slice(context.length, -1) as number[]),
    );
    // The reference: each token's log probability given all tokens before it, from one request per token.
    const direct: number[] = [];
    for (const end of ends) {
      let total = 0;
      for (const [at, token] of end.entries()) {
        const probe = await complete({
          prompt: [...context, ...end.slice(0, at), token],
          max_tokens: 0,
          prompt_logprobs: 0,
        });
        total += probe.choices[0]!.prompt_logprobs!.at(-1)![token]!.logprob;
      }
      direct.push(total);
    }
    const order = (values: readonly number[]): number[] =>
      values.map((_, at) => at).sort((a, b) => values[b]! - values[a]!);
    t.same(order(api), order(direct));
    for (const [at, value] of api.entries()) t.ok(Math.abs(value - direct[at]!) < 1e-3);
  }
});

t.test('chat completions return prompt log-probabilities and token ids too', async (t) => {
  const body = {
    messages: [{ role: 'user', content: 'Hi' }],
    max_tokens: 4,
    ignore_eos: true,
    return_token_ids: true,
    prompt_logprobs: 1,
    reasoning_effort: 'none',
  };
  const { body: answer } = await post<{
    prompt_logprobs: (object | null)[];
    prompt_token_ids: number[];
    choices: [{ token_ids: number[] }];
    usage: { prompt_tokens: number };
  }>(body, '/v1/chat/completions');
  t.equal(answer.prompt_token_ids.length, answer.usage.prompt_tokens);
  t.equal(answer.prompt_logprobs.length, answer.usage.prompt_tokens);
  t.equal(answer.prompt_logprobs[0], null);
  t.ok(
    answer.prompt_logprobs
      .slice(1)
      .every((entry, at) => entry !== null && String(answer.prompt_token_ids[at + 1]) in entry),
  );
  t.equal(answer.choices[0].token_ids.length, 4);
});

t.test('applies min_tokens and stop_token_ids', async (t) => {
  const { tokens } = golden.prompts.find(({ id }) => id === 'short')!;
  const base = { prompt: tokens, max_tokens: 20, temperature: 0, ignore_eos: true, return_token_ids: true };
  const free = (await complete(base)).choices[0]!;
  const end = free.token_ids![1]!;
  t.match((await complete({ ...base, stop_token_ids: [end] })).choices[0], {
    finish_reason: 'stop',
    token_ids: free.token_ids!.slice(0, free.token_ids!.indexOf(end) + 1),
  });
  const held = (await complete({ ...base, stop_token_ids: [end], min_tokens: 7 })).choices[0]!;
  t.ok(held.token_ids!.length >= 7 && !held.token_ids!.slice(0, 7).includes(end));
});

t.test('an error names the invalid parameter', async (t) => {
  const refused = async (
    body: object,
    status: number,
    code: string,
    param: string | null,
    path?: string,
  ): Promise<void> => {
    const {
      status: got,
      body: { error },
    } = await post<Refused>(body, path);
    t.match(
      { got, code: error.code, param: error.param },
      { got: status, code, param },
      `${JSON.stringify(body).slice(0, 90)}: ${error.message}`,
    );
  };
  await refused({}, 400, 'missing_required_parameter', 'prompt');
  await refused({ prompt: 5 }, 400, 'invalid_type', 'prompt');
  await refused({ prompt: [] }, 400, 'missing_required_parameter', 'prompt');
  await refused({ prompt: [1, 'a'] }, 400, 'invalid_type', 'prompt[1]');
  await refused({ prompt: ['a', 1] }, 400, 'invalid_type', 'prompt[1]');
  await refused({ prompt: [[1], [2.5]] }, 400, 'invalid_type', 'prompt[1][0]');
  await refused({ prompt: [1, -1] }, 422, 'value_out_of_range', 'prompt[1]');
  await refused({ prompt: [1, 2 ** 30] }, 422, 'invalid_value', 'prompt[1]');
  await refused({ prompt: Array(513).fill('a') }, 422, 'array_too_long', 'prompt');
  await refused({ prompt: 'a', logprobs: 21 }, 422, 'value_out_of_range', 'logprobs');
  await refused({ prompt: 'a', n: 2, best_of: 1 }, 422, 'conflicting_parameters', 'best_of');
  await refused({ prompt: 'a', best_of: 2, stream: true }, 422, 'conflicting_parameters', 'best_of');
  await refused({ prompt: 'a', prompt_logprobs: 1, stream: true }, 422, 'conflicting_parameters', 'prompt_logprobs');
  await refused({ prompt: 'a', min_tokens: 17 }, 422, 'conflicting_parameters', 'min_tokens');
  await refused({ prompt: 'a', stop_token_ids: [2 ** 30] }, 422, 'invalid_value', 'stop_token_ids');
  await refused({ prompt: 'def f(', suffix: 'return 1' }, 422, 'unsupported_value', 'suffix');
  await refused({ prompt: 'a', suffix: 'b', echo: true }, 422, 'conflicting_parameters', 'echo');
  await refused({ prompt: 'a', model: 'none' }, 404, 'model_not_found', 'model');
  await refused({ prompt: Array(60_000).fill(1) }, 400, 'context_length_exceeded', 'prompt');
  await refused(
    { messages: [{ role: 'user', content: 'x' }], prompt_logprobs: 1, stream: true },
    422,
    'conflicting_parameters',
    'prompt_logprobs',
    '/v1/chat/completions',
  );
  await refused({ tokens: [1, 'x'] }, 400, 'invalid_type', 'tokens[1]', '/detokenize');
  await refused({ tokens: [2 ** 30] }, 422, 'invalid_value', 'tokens[0]', '/detokenize');
  await refused({}, 400, 'missing_required_parameter', 'prompt', '/tokenize');
});

t.test('/detokenize reverses /tokenize; /health and /version respond', async (t) => {
  const tokenized = async (prompt: string) =>
    (
      await post<{ count: number; max_model_len: number; tokens: number[]; token_strs: string[] }>(
        { prompt, add_special_tokens: false, return_token_strs: true },
        '/tokenize',
      )
    ).body;
  for (const { id, text, tokens } of golden.prompts.filter((one) => one.text === one.text.normalize('NFC')))
    t.same((await tokenized(text)).tokens, tokens, id);
  // llama.cpp does not normalize decomposed Unicode text. Qwen's own tokenizer and this server compose it first.
  const { text, tokens } = golden.prompts.find(({ id }) => id === 'unicode')!;
  const composed = text.normalize('NFC');
  t.not(text, composed);
  const told = await tokenized(text);
  t.same(told.tokens, (await tokenized(composed)).tokens);
  t.equal(told.count, told.tokens.length);
  t.equal(told.token_strs.length, told.tokens.length);
  t.same((await post({ tokens: told.tokens }, '/detokenize')).body, { prompt: composed });
  t.same((await post({ tokens }, '/detokenize')).body, { prompt: text });
  const conversation = { messages: [{ role: 'user', content: 'Hi' }] };
  const chat = (await post<{ count: number }>(conversation, '/tokenize')).body;
  const { body: answer } = await post<Answer>({ ...conversation, max_tokens: 1 }, '/v1/chat/completions');
  t.equal(chat.count, answer.usage.prompt_tokens);
  const applied = await post<{ prompt: string }>({ ...conversation, add_generation_prompt: true }, '/apply-template');
  t.equal(applied.status, 200);
  t.match(applied.body.prompt, /Hi/);
  const { body: completed } = await post<Answer>({ ...applied.body, max_tokens: 1 }, '/v1/completions');
  t.equal(completed.usage.prompt_tokens, chat.count, 'the prompt of /apply-template has the same tokens');
  t.equal((await fetch(`${server.url}/health`)).status, 200);
  t.match(await (await fetch(`${server.url}/version`)).json(), { version: String });
});

t.test(
  'a response whose log-probabilities exceed the size limit is rejected in every API and leaves no memory reserved',
  async (t) => {
    const small = await startMonolith({
      args: [
        '--model',
        `qwen=${join(vectors, 'qwen3.f16.gguf')}`,
        '--http-max-answering-bytes',
        '200KiB',
        '--http-max-body-bytes',
        '64KiB',
      ],
      env: off,
    });
    t.teardown(() => small.stop());
    const ask = async (
      path: string,
      body: object,
    ): Promise<{ status: number; error?: { code: string; message: string } }> => {
      const response = await fetch(`${small.url}${path}`, {
        method: 'POST',
        body: JSON.stringify({ model: 'qwen', ...body }),
        headers: { 'content-type': 'application/json', authorization: `Bearer ${small.key}` },
      });
      return { status: response.status, ...((await response.json()) as object) };
    };
    const { tokens } = golden.prompts.find(({ tokens: { length } }) => length > 20)!;
    const prompt = Array.from({ length: 20 }, () => tokens);
    const messages = [{ role: 'user', content: 'Say something.' }];
    const long = { temperature: 2, ignore_eos: true };
    // The Responses API has no ignore_eos, so use a schema with a minimum length to get a long response.
    const schema = {
      type: 'object',
      properties: { a: { type: 'string', minLength: 1_000 } },
      required: ['a'],
      additionalProperties: false,
    };
    const lengthy = { type: 'json_schema', name: 'lengthy', strict: true, schema };
    for (const [path, body] of [
      ['/v1/completions', { prompt, max_tokens: 1, prompt_logprobs: 20 }],
      ['/v1/completions', { prompt, max_tokens: 1, logprobs: 20, echo: true }],
      ['/v1/completions', { prompt: 'x', max_tokens: 60, logprobs: 20, n: 8, ...long }],
      ['/v1/chat/completions', { messages, max_tokens: 60, logprobs: true, top_logprobs: 20, n: 8, ...long }],
      [
        '/v1/responses',
        {
          input: 'x',
          max_output_tokens: 100,
          top_logprobs: 20,
          include: ['message.output_text.logprobs'],
          temperature: 2,
          text: { format: lengthy },
        },
      ],
    ] as const) {
      const refused = await ask(path, body);
      t.match(
        refused,
        {
          status: 422,
          error: {
            code: 'unsupported_value',
            message: /^The response would exceed the maximum of 131072 bytes\. Request less at a time: /,
          },
        },
        `${path} ${JSON.stringify(body).slice(0, 60)}`,
      );
      t.equal((await ask('/v1/completions', { prompt: 'x', max_tokens: 2, logprobs: 5 })).status, 200);
    }
    // The limit also applies to requests over a WebSocket and in the background.
    const wide = {
      input: 'x',
      max_output_tokens: 100,
      top_logprobs: 20,
      include: ['message.output_text.logprobs'],
      temperature: 2,
      text: { format: lengthy },
    };
    const socket = await Connection.open(small);
    for (let at = 0; at < 2; at++) {
      const { type, response } = (await socket.turn({ model: 'qwen', ...wide })).at(-1) as unknown as {
        type: string;
        response: { error: { message: string } };
      };
      t.match(
        [type, response.error.message],
        ['response.failed', /^The response would exceed the maximum of 131072 bytes/],
      );
      t.equal((await ask('/v1/completions', { prompt: 'x', max_tokens: 2, logprobs: 5 })).status, 200);
    }
    socket.socket.close();
    for (let at = 0; at < 2; at++) {
      const created = (await ask('/v1/responses', { ...wide, background: true, store: true })) as unknown as {
        id: string;
      };
      const stored = async (): Promise<{ status: string; output: unknown[]; error: { message: string } | null }> =>
        (await (
          await fetch(`${small.url}/v1/responses/${created.id}`, { headers: { authorization: `Bearer ${small.key}` } })
        ).json()) as never;
      t.ok(await eventually(async () => (await stored()).status === 'failed'));
      const { output, error } = await stored();
      t.match(error, { message: /^The response would exceed the maximum of 131072 bytes/ });
      t.ok(JSON.stringify(output).length > 10_000, 'the partial output is kept');
    }
    t.ok(
      await eventually(async () => (await small.metrics()).get('monolith_sequences_running{model="qwen"}') === 0),
      'the rejected requests no longer run',
    );
  },
);
