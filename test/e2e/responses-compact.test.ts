// Tests POST /v1/responses/compact and /v1/responses/input_tokens on a real server. The scripted model has one token
// per byte, so text lengths equal token counts.
import { setTimeout as sleep } from 'node:timers/promises';
import OpenAI from 'openai';
import t from 'tap';
import { TASK } from '../../src/protocol/context/summarizer.js';
import { mismatch } from '../support/open-api.js';
import { said, startScripted } from '../support/script-model.js';
import { Connection, resourceOf } from '../support/web-socket.js';
import { eventually } from './monolith.js';

t.setTimeout(300_000); // the machine may be busy

interface Compacted {
  id: string;
  object: string;
  created_at: number;
  output: Record<string, unknown>[];
  usage: { input_tokens: number; output_tokens: number; total_tokens: number };
}
interface Answer<T> {
  status: number;
  body: T;
  headers: Headers;
}
interface Failure {
  error: { code: string; param: string | null };
}

const png =
  'data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==';
const summary = said('A').content; // a prompt that does not start with a letter and a colon gets script A

t.test('POST /v1/responses/compact and /v1/responses/input_tokens', async (t) => {
  const server = await startScripted();
  t.teardown(() => server.stop());
  const post = async <T = Compacted>(path: string, body: object, signal?: AbortSignal): Promise<Answer<T>> => {
    const response = await fetch(`${server.url}/v1${path}`, {
      method: 'POST',
      body: JSON.stringify({ model: 'hal-1.0', ...body }),
      signal: signal ?? null,
      headers: { authorization: `Bearer ${server.key}`, 'content-type': 'application/json' },
    });
    return { status: response.status, body: (await response.json()) as T, headers: response.headers };
  };
  const count = async (body: object): Promise<number> =>
    (await post<{ input_tokens: number }>('/responses/input_tokens', body)).body.input_tokens;
  const compact = (body: object): Promise<Answer<Compacted>> => post('/responses/compact', body);
  const window = [
    { role: 'user', content: 'We agreed to launch on Tuesday.' },
    { type: 'reasoning', summary: [{ type: 'summary_text', text: 'Hm.' }] },
    { role: 'assistant', content: 'Noted.' },
    { type: 'function_call', call_id: 'call_1', name: 'get_weather', arguments: '{"location":"SF"}' },
    { type: 'function_call_output', call_id: 'call_1', output: '14 C' },
    { role: 'system', content: 'Be kind.' },
    {
      id: 'msg_mine',
      role: 'user',
      content: [
        { type: 'input_text', text: 'And the weather?' },
        { type: 'input_image', image_url: png },
      ],
    },
  ];

  t.test('compaction lists tools in the input as ignored', async (t) => {
    const tools = [{ type: 'function', name: 'f', parameters: { type: 'object', properties: {} } }];
    const { status, headers } = await compact({ input: [{ type: 'additional_tools', tools }, ...window] });
    t.equal(status, 200);
    t.equal(headers.get('x-ignored-parameters'), 'input.tools');
  });

  t.test('compaction keeps user messages and replaces the rest with one encrypted item', async (t) => {
    const { status, body, headers } = await compact({
      input: window,
      instructions: 'Keep the dates.',
      prompt_cache_key: 'k',
      service_tier: 'auto',
      temperature: 'hot',
    });
    t.equal(status, 200);
    t.match(headers.get('x-ratelimit-limit-requests'), /^\d+$/);
    t.equal(headers.get('x-ignored-parameters'), 'temperature');
    t.match(body, { id: /^resp_[0-9a-f]{48}$/, object: 'response.compaction' });
    t.equal(mismatch('openresponses', 'CompactResource', body), null);
    t.equal(mismatch('openai', 'CompactResource', body), null);
    const [first, second, last, ...more] = body.output;
    t.match(first, {
      id: /^msg_/,
      type: 'message',
      status: 'completed',
      role: 'user',
      content: [{ type: 'input_text', text: 'We agreed to launch on Tuesday.' }],
    });
    t.match(second, {
      id: 'msg_mine',
      status: 'completed',
      content: [
        { type: 'input_text', text: 'And the weather?' },
        { type: 'input_image', image_url: png },
      ],
    });
    t.match(last, { id: /^cmp_/, type: 'compaction', encrypted_content: /^enc1\./ });
    t.same(more, []);
    t.equal(body.usage.total_tokens, body.usage.input_tokens + body.usage.output_tokens);
    t.ok(body.usage.output_tokens > 0);

    t.equal(
      (await post<Failure>('/responses', { previous_response_id: body.id, input: 'x' })).body.error.code,
      'previous_response_not_found',
      'a compaction is not stored',
    );
  });

  t.test('a compaction item is expanded to a developer message at its position', async (t) => {
    const { output } = (await compact({ input: [{ role: 'user', content: 'A: x' }] })).body;
    const sealed = output.at(-1) as { encrypted_content: string };
    const plain = [
      { role: 'user', content: 'A: x' },
      { role: 'developer', content: `Summary of the conversation so far: ${summary}` },
      { role: 'user', content: 'A: more' },
    ];
    const next = [...output, { role: 'user', content: 'A: more' }];
    t.equal(await count({ input: next }), await count({ input: plain }));
    t.equal((await post<{ status: string }>('/responses', { input: next })).body.status, 'completed');

    const again = (await compact({ input: next })).body;
    t.same(
      again.output.map(({ type }) => type),
      ['message', 'message', 'compaction'],
      'a new compaction also summarizes the earlier one',
    );
    t.ok(
      again.usage.input_tokens >
        (await compact({ input: [next[0], next.at(-1)] })).body.usage.input_tokens + summary.length,
    );

    const asked = (task: string) =>
      count({
        input: [
          { role: 'system', content: task },
          { role: 'user', content: 'The conversation:\n\nUser:\nA: x' },
        ],
      });
    const steered = async (instructions?: string) =>
      (await compact({ input: 'A: x', instructions })).body.usage.input_tokens;
    t.same(
      [await steered(), await steered('')],
      [await asked(TASK), await asked(TASK)],
      'the prompt of the first chunk contains no earlier summary',
    );
    t.equal(
      await steered('Short.'),
      await asked(`${TASK}\n\nThe summary is also to follow these instructions:\nShort.`),
    );

    const broken = {
      ...sealed,
      encrypted_content: `${sealed.encrypted_content.slice(0, -1)}${sealed.encrypted_content.endsWith('A') ? 'B' : 'A'}`,
    };
    t.match(await post<Failure>('/responses', { input: [broken, { role: 'user', content: 'x' }] }), {
      status: 400,
      body: { error: { code: 'invalid_encrypted_content', param: 'input[0]' } },
    });
  });

  t.test('compaction accepts previous_response_id and includes the stored chain', async (t) => {
    const first = (await post<{ id: string }>('/responses', { input: [{ role: 'user', content: 'A: one' }] })).body;
    const second = (await post<{ id: string }>('/responses', { previous_response_id: first.id, input: 'A: two' })).body;
    const { body } = await compact({ previous_response_id: second.id });
    t.same(
      body.output.map(({ content }) => (content as { text: string }[] | undefined)?.[0]?.text),
      ['A: one', 'A: two', undefined],
    );
    const more = (await compact({ previous_response_id: second.id, input: 'three' })).body;
    t.equal(more.output.length, 4);
    t.match(await compact({ previous_response_id: 'resp_none' }), {
      status: 404,
      body: { error: { code: 'previous_response_not_found' } },
    });
  });

  t.test('compacting input without user messages returns only the compaction item', async (t) => {
    const { body } = await compact({ input: [{ role: 'assistant', content: 'Hello.' }] });
    t.same(
      body.output.map(({ type }) => type),
      ['compaction'],
    );
  });

  t.test('input longer than the context window is summarized in chunks', async (t) => {
    const long = Array.from({ length: 40 }, (_, i) => ({
      role: i % 2 === 0 ? 'user' : 'assistant',
      content: `${i} é${'word '.repeat(200)}`,
    }));
    t.match(await post<Failure>('/responses', { input: long }), {
      status: 400,
      body: { error: { code: 'context_length_exceeded' } },
    });
    const characters = JSON.stringify(long).length;
    const { status, body } = await compact({ input: long });
    t.equal(status, 200);
    t.equal(body.output.length, 21);
    t.ok(
      body.usage.input_tokens > characters * 0.9 && body.usage.input_tokens < characters * 1.5,
      `${body.usage.input_tokens} prompt tokens for ${characters} characters`,
    );
    t.ok(body.usage.output_tokens >= 3 * 5, 'more than one summary was generated');
    const huge = await compact({ input: `${'🙂'.repeat(20_000)}` });
    t.equal(huge.status, 200, 'a single long message without whitespace is accepted');
    t.match(await compact({ input: 'x', instructions: 'long '.repeat(5_000) }), {
      status: 400,
      body: { error: { code: 'context_length_exceeded', param: 'input' } },
    });
  });

  t.test('invalid compact and input_tokens requests are refused', async (t) => {
    for (const without of [
      { model: undefined, input: 'x' },
      { model: null, previous_response_id: 'resp_none' },
    ]) {
      t.match(await post<Failure>('/responses/compact', without), {
        status: 400,
        body: { error: { code: 'missing_required_parameter', message: 'model is required.', param: 'model' } },
      });
    }
    for (const empty of [{}, { prompt_cache_options: { prewarm: true } }]) {
      t.match(await compact(empty), {
        status: 400,
        body: { error: { code: 'missing_required_parameter', param: 'input' } },
      });
    }
    t.match(await compact({ model: 'nobody', input: 'x' }), {
      status: 404,
      body: { error: { code: 'model_not_found' } },
    });
    t.match(await compact({ input: 7 }), { status: 400, body: { error: { code: 'invalid_type', param: 'input' } } });
    t.match(await post<Failure>('/responses/input_tokens', {}), {
      status: 400,
      body: { error: { code: 'missing_required_parameter', param: 'input' } },
    });
    const response = await fetch(`${server.url}/v1/responses/compact`, {
      headers: { authorization: `Bearer ${server.key}` },
    });
    t.equal(response.status, 404);
    t.match(await response.json(), { error: { code: /^(method_not_allowed|response_not_found)$/ } });
  });

  t.test('a client disconnect stops a running compaction', async (t) => {
    const leaving = new AbortController();
    const answer = compactAborted(leaving.signal);
    t.ok(
      await eventually(async () => (await server.metrics()).get('monolith_sequences_running{model="hal-1.0"}') === 1),
      'the compaction is running',
    );
    leaving.abort();
    await t.rejects(answer);
    const steps = async (): Promise<number | undefined> =>
      (await server.metrics()).get('monolith_steps_total{model="hal-1.0"}');
    t.ok(
      await eventually(async () => {
        const before = await steps();
        await sleep(100);
        return before !== undefined && before === (await steps());
      }, 1_500),
      'the running chunk and all following chunks are cancelled',
    );
    async function compactAborted(signal: AbortSignal): Promise<unknown> {
      return await post('/responses/compact', { input: 'x '.repeat(200_000) }, signal);
    }
  });

  t.test('input_tokens returns the prompt length that a response would report', async (t) => {
    const body = {
      input: window.slice(0, -1),
      instructions: 'Be brief.',
      tools: [{ type: 'function', name: 'f', parameters: { type: 'object', properties: {} } }],
    };
    const response = (
      await post<{ usage: { input_tokens: number } }>('/responses', {
        ...body,
        input: [...body.input, { role: 'user', content: 'A: x' }],
      })
    ).body;
    t.equal(
      await count({ ...body, input: [...body.input, { role: 'user', content: 'A: x' }] }),
      response.usage.input_tokens,
    );
    const counted = await post<object>('/responses/input_tokens', { input: 'x', temperature: 'hot' });
    t.equal(mismatch('openai', 'TokenCountsResource', counted.body), null);
    t.equal(counted.headers.get('x-ignored-parameters'), 'temperature');
    t.equal(
      counted.headers.get('x-ratelimit-limit-requests'),
      null,
      'counting tokens does not use the generation rate limits',
    );
    t.ok((await count({ input: 'x'.repeat(50_000) })) > 50_000, 'a prompt over the context length is still counted');
  });

  t.test('the openai client can compact, continue a compaction and count tokens', async (t) => {
    const client = new OpenAI({ apiKey: server.key, baseURL: `${server.url}/v1` });
    const compacted = await client.responses.compact({ model: 'hal-1.0', input: 'A: x' });
    t.equal(compacted.object, 'response.compaction');
    t.equal(
      (
        await client.responses.create({
          model: 'hal-1.0',
          input: [...(compacted.output as OpenAI.Responses.ResponseInputItem[]), { role: 'user', content: 'A: y' }],
        })
      ).output_text,
      summary,
    );
    t.equal(
      (await client.responses.inputTokens.count({ model: 'hal-1.0', input: 'A: x' })).object,
      'response.input_tokens',
    );

    const connection = await Connection.open(server);
    const next = resourceOf(
      await connection.turn({ store: false, input: [...compacted.output, { role: 'user', content: 'A: z' }] }),
    );
    t.equal(next.status, 'completed', 'a compaction can be continued over a WebSocket');
    await connection.close();
  });
});
