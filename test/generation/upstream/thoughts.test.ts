// Tests reasoning that is sent back to upstreams. The two scripted upstreams enforce the vendors' rules: they accept
// only their own blocks, unchanged and at their positions, and reject a tool loop whose reasoning is missing.
import { createHash } from 'node:crypto';
import { isDeepStrictEqual } from 'node:util';
import t from 'tap';
import {
  startGateway,
  startStandIn,
  stream,
  error,
  type Gateway,
  type Heard,
  type Say,
} from '../../support/stand-in.js';
import { Connection, type WireEvent } from '../../support/web-socket.js';

type Json = Record<string, any>;

const sse = (named: boolean, events: Json[]): string =>
  events.map((event) => `${named ? `event: ${event['type']}\n` : ''}data: ${JSON.stringify(event)}\n\n`).join('');

/** Set by a test: whether the vendors return complete responses although streams were requested. */
let answersWhole = false;

/**
 * A vendor with the Messages API. It signs thinking for the model, and accepts thinking and redacted blocks only
 * unchanged.
 */
class MessagesVendor {
  readonly issued: Json[] = [];
  readonly say: Say = (response, heard) => {
    const refused = this.#problem(heard.body);
    if (refused !== null) {
      response.writeHead(400, { 'content-type': 'application/json' });
      response.end(JSON.stringify({ type: 'error', error: { type: 'invalid_request_error', message: refused } }));
      return;
    }
    const content = this.#answer(heard.body);
    const stop_reason = content.at(-1)!['type'] === 'tool_use' ? 'tool_use' : 'end_turn';
    const usage = { input_tokens: 10, output_tokens: 5 };
    if (answersWhole) {
      response.writeHead(200, { 'content-type': 'application/json' });
      response.end(JSON.stringify({ type: 'message', role: 'assistant', content, stop_reason, usage }));
      return;
    }
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    response.end(
      sse(true, [
        { type: 'message_start', message: { usage } },
        ...content.flatMap((block, index) => [...this.#events(block, index)]),
        { type: 'message_delta', delta: { stop_reason, stop_sequence: null }, usage: { output_tokens: 5 } },
        { type: 'message_stop' },
      ]),
    );
  };

  #answer({ thinking, messages, model }: Json): Json[] {
    const last = (messages as Json[]).at(-1)!;
    const isResult = (last['content'] as Json[]).some(({ type }) => type === 'tool_result');
    const n = this.issued.length;
    const text = `Thought ${n}.`;
    const thoughts =
      thinking?.type === 'enabled'
        ? [
            { type: 'thinking', thinking: text, signature: this.#sign(model as string, text) },
            { type: 'redacted_thinking', data: `hidden ${n} of ${model as string}` },
          ]
        : [];
    this.issued.push(...thoughts);
    return isResult
      ? [...thoughts, { type: 'text', text: 'Sunny.' }]
      : [
          ...thoughts,
          { type: 'text', text: 'Looking.' },
          { type: 'tool_use', id: `toolu_${n}`, name: 'get', input: { city: 'Oslo' } },
        ];
  }

  *#events(block: Json, index: number): Generator<Json> {
    const delta = (change: Json): Json => ({ type: 'content_block_delta', index, delta: change });
    const start = (content_block: Json): Json => ({ type: 'content_block_start', index, content_block });
    switch (block['type']) {
      case 'thinking':
        yield start({ type: 'thinking', thinking: '', signature: '' });
        yield delta({ type: 'thinking_delta', thinking: block['thinking'].slice(0, 3) });
        yield delta({ type: 'thinking_delta', thinking: block['thinking'].slice(3) });
        yield delta({ type: 'signature_delta', signature: block['signature'] });
        break;
      case 'text':
        yield start({ type: 'text', text: '' });
        yield delta({ type: 'text_delta', text: block['text'] });
        break;
      case 'tool_use':
        yield start({ ...block, input: {} });
        yield delta({ type: 'input_json_delta', partial_json: JSON.stringify(block['input']) });
        break;
      default:
        yield start(block);
    }
    yield { type: 'content_block_stop', index };
  }

  #problem({ messages, thinking, model }: Json): string | null {
    const isThought = ({ type }: Json): boolean => type === 'thinking' || type === 'redacted_thinking';
    for (const [index, { role, content }] of (messages as Json[]).entries()) {
      for (const [at, block] of (content as Json[]).entries()) {
        if (!isThought(block)) continue;
        const path = `messages.${index}.content.${at}`;
        if (role !== 'assistant' || !this.issued.some((one) => isDeepStrictEqual(one, block)))
          return `${path}: Invalid \`signature\` in \`thinking\` block`;
        if (
          !JSON.stringify(block).includes(
            block['type'] === 'thinking'
              ? this.#sign(model as string, block['thinking'] as string)
              : ` of ${model as string}"`,
          )
        )
          return `${path}: the block was created by another model`;
        if (at === content.length - 1) return `${path}: the final block cannot be \`thinking\``;
      }
    }
    const last = (messages as Json[]).findLast(({ role }) => role === 'assistant');
    const isLoop = ((messages as Json[]).at(-1)!['content'] as Json[]).some(({ type }) => type === 'tool_result');
    if (!isLoop || last === undefined) return null;
    if (thinking?.type === 'enabled')
      return isThought(last['content'][0]) ? null : 'Expected `thinking` or `redacted_thinking`, but found `tool_use`';
    return (last['content'] as Json[]).some(isThought)
      ? 'thinking is off, but the last turn has thinking blocks'
      : null;
  }

  #sign(model: string, text: string): string {
    return createHash('sha256').update(`${model}\n${text}`).digest('base64');
  }
}

/**
 * A vendor with the Responses API. It stores nothing, so clients must send reasoning back in encrypted form, unchanged
 * and before the item that followed it.
 */
class ResponsesVendor {
  readonly issued: Json[] = [];
  readonly say: Say = (response, heard) => {
    const refused = this.#problem(heard.body);
    if (refused !== null) {
      response.writeHead(400, { 'content-type': 'application/json' });
      response.end(JSON.stringify({ error: { type: 'invalid_request_error', message: refused } }));
      return;
    }
    const output = this.#answer(heard.body);
    const done = { id: 'resp_v', status: 'completed', output, usage: { input_tokens: 10, output_tokens: 5 } };
    if (answersWhole) {
      response.writeHead(200, { 'content-type': 'application/json' });
      response.end(JSON.stringify(done));
      return;
    }
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    response.end(
      sse(true, [
        { type: 'response.created', response: { ...done, status: 'in_progress', output: [] } },
        ...output.flatMap((item, output_index): Json[] => [
          {
            type: 'response.output_item.added',
            output_index,
            item: { ...item, summary: [], content: [], arguments: '' },
          },
          ...((item['summary'] ?? []) as Json[]).map(({ text }) => ({
            type: 'response.reasoning_summary_text.delta',
            output_index,
            summary_index: 0,
            delta: text,
          })),
          { type: 'response.output_item.done', output_index, item },
        ]),
        { type: 'response.completed', response: done },
      ]),
    );
  };

  #answer({ input, include, model }: Json): Json[] {
    const n = this.issued.length;
    const isResult = (input as Json[]).at(-1)!['type'] === 'function_call_output';
    const reasoning = (id: string, summary: Json[]): Json => ({
      type: 'reasoning',
      id,
      summary,
      ...(include?.includes('reasoning.encrypted_content')
        ? { encrypted_content: `secret ${id} ${model as string}` }
        : {}),
    });
    const first = reasoning(`rs_v${n}`, [{ type: 'summary_text', text: `Summary ${n}.` }]);
    const message = {
      type: 'message',
      id: `msg_v${n}`,
      role: 'assistant',
      content: [{ type: 'output_text', text: isResult ? 'Sunny.' : 'Looking.', annotations: [] }],
    };
    if (isResult) {
      this.issued.push(first);
      return [first, message];
    }
    const second = reasoning(`rs_v${n}_textless`, []);
    this.issued.push(first, second);
    const call = {
      type: 'function_call',
      id: `fc_v${n}`,
      call_id: `call_v${n}`,
      name: 'get',
      arguments: '{"city":"Oslo"}',
    };
    return [first, message, second, call];
  }

  #problem({ input, store, model, include }: Json): string | null {
    if (store !== false) return 'store must be false';
    if (model === 'plain' && include !== undefined) return 'Encrypted content is not supported with this model.';
    for (const [index, item] of (input as Json[]).entries()) {
      if (item['type'] !== 'reasoning') continue;
      if (
        !this.issued.some((one) => isDeepStrictEqual(one, item)) ||
        !item['encrypted_content']?.endsWith(` ${model as string}`)
      )
        return 'The encrypted content could not be verified.';
      const next = (input as Json[])[index + 1];
      if (next?.['type'] !== 'function_call' && !(next?.['type'] === 'message' && next['role'] === 'assistant'))
        return `Item '${item['id'] as string}' of type 'reasoning' was provided without its required following item.`;
    }
    return null;
  }
}

const a = new MessagesVendor();
const b = new ResponsesVendor();
const [serverA, serverB] = [await startStandIn(a.say), await startStandIn(b.say)];
const chunk = (delta: object, finish_reason: string | null = null): object => ({
  choices: [{ index: 0, delta, finish_reason }],
});
const serverC = await startStandIn(
  stream(chunk({ reasoning_content: 'Plainly.' }), chunk({ content: 'Sunny.' }, 'stop'), '[DONE]'),
);
const dead = await startStandIn(error(503, { error: { message: 'down' } }));
const models = {
  a: { upstream: { url: serverA.url, api: 'messages', model: 'vendor-a' } },
  other: { upstream: { url: serverA.url, api: 'messages', model: 'vendor-other' } },
  b: { upstream: { url: serverB.url, api: 'responses', model: 'vendor-b' } },
  plain: { upstream: { url: serverB.url, api: 'responses', model: 'plain' } },
  c: { upstream: { url: serverC.url } },
  named: { upstream: { url: serverC.url, thinking_field: 'reasoning' } },
  none: { upstream: { url: serverC.url, thinking_field: 'none' } },
  fails: { upstream: { url: dead.url, api: 'messages', model: 'vendor-a', fallback: 'a' } },
  'fails-c': { upstream: { url: dead.url, fallback: 'c' } },
  'fails-b': { upstream: { url: dead.url, api: 'messages', model: 'vendor-a', fallback: 'b' } },
};
const KEYS = ['11'.repeat(32), '22'.repeat(32)];
const gatewayWith = (...signing_keys: string[]): Promise<Gateway> =>
  startGateway(models, { upstream: { retries: 0 }, secrets: { signing_keys } });
const gateway = await gatewayWith(KEYS[0]!);
t.teardown(async () => {
  await gateway.close();
  for (const one of [serverA, serverB, serverC, dead]) await one.close();
});

interface Answer {
  status: number;
  content: string | null;
  parameters: string | null;
  body: Json;
}

async function ask(
  path: string,
  body: Json,
  { headers = {}, by = gateway }: { headers?: Record<string, string>; by?: Gateway } = {},
): Promise<Answer> {
  const response = await by.post(path, body, { headers });
  const text = await response.text();
  return {
    status: response.status,
    content: response.headers.get('x-ignored-content'),
    parameters: response.headers.get('x-ignored-parameters'),
    body: (text.startsWith('{') ? JSON.parse(text) : { text }) as Json,
  };
}

const question = { role: 'user', content: 'Weather in Oslo?' };
const thinking = { type: 'enabled', budget_tokens: 1_024 };
const request = (model: string, messages: Json[], more: Json = {}): Json => ({
  model,
  max_tokens: 2_000,
  thinking,
  tools: [{ name: 'get', input_schema: { type: 'object' } }],
  messages,
  ...more,
});
const results = (content: Json[]): Json => ({
  role: 'user',
  content: content
    .filter(({ type }) => type === 'tool_use')
    .map(({ id }) => ({ type: 'tool_result', tool_use_id: id, content: '14 C' })),
});
const continued = (model: string, content: Json[], more: Json = {}): Json =>
  request(model, [question, { role: 'assistant', content }, results(content)], more);
const first = async (model: string, more: Json = {}): Promise<Json[]> => {
  const answer = await ask('/v1/messages', request(model, [question], more));
  t.equal(answer.status, 200, JSON.stringify(answer.body));
  return answer.body['content'] as Json[];
};
const thoughtsIn = (heard: Heard | undefined): Json[] =>
  (heard!.body['messages'] as Json[])
    .flatMap(({ role, content }) => (role === 'assistant' ? (content as Json[]) : []))
    .filter(({ type }) => type === 'thinking' || type === 'redacted_thinking');
const ok = { status: 200, content: null, parameters: null };

for (const whole of [false, true]) {
  t.test(`a Messages upstream gets its blocks back unchanged (${whole ? 'whole' : 'streamed'} answers)`, async (t) => {
    answersWhole = whole;
    t.teardown(() => (answersWhole = false));
    for (const display of ['summarized', 'omitted']) {
      const more = { thinking: { ...thinking, display } };
      const issued = a.issued.length;
      const content = await first('a', more);
      t.same(
        content.map(({ type }) => type),
        ['thinking', 'thinking', 'text', 'tool_use'],
        'a redacted block becomes a thinking block without text',
      );
      t.same(
        content.slice(0, 2).map((block) => block['thinking'] as string),
        [display === 'omitted' ? '' : `Thought ${issued}.`, ''],
      );
      t.match(await ask('/v1/messages', continued('a', content, more)), ok);
      t.same(thoughtsIn(serverA.heard.at(-1)), a.issued.slice(issued, issued + 2));
      t.match(serverA.heard.at(-1)!.body['thinking'], { type: 'enabled' });
      // Later turns contain the blocks of earlier turns.
      const talk = [
        question,
        { role: 'assistant', content },
        results(content),
        { role: 'assistant', content: 'Sunny.' },
        question,
      ];
      t.match(await ask('/v1/messages', request('a', talk, more)), ok);
      t.same(thoughtsIn(serverA.heard.at(-1)), a.issued.slice(issued, issued + 2));
    }
  });

  t.test(`a Responses upstream gets its items back unchanged (${whole ? 'whole' : 'streamed'} answers)`, async (t) => {
    answersWhole = whole;
    t.teardown(() => (answersWhole = false));
    const issued = b.issued.length;
    const content = await first('b');
    t.match(await ask('/v1/messages', continued('b', content)), ok);
    const sent = serverB.heard.at(-1)!.body['input'] as Json[];
    t.same(
      sent.map(({ type, role }) => (role as string | undefined) ?? (type as string)),
      ['user', 'reasoning', 'assistant', 'reasoning', 'function_call', 'function_call_output'],
      'each item stands where it was generated',
    );
    t.same(
      sent.filter(({ type }) => type === 'reasoning'),
      b.issued.slice(issued, issued + 2),
    );
  });
}

t.test('a streamed Messages response carries the blocks too', async (t) => {
  const { body } = await ask('/v1/messages', request('a', [question], { stream: true }));
  const signatures = [...(body['text'] as string).matchAll(/"signature":"([^"]+)"/g)].map(([, one]) => one);
  const content = [
    { type: 'thinking', thinking: a.issued.at(-2)!['thinking'] as string, signature: signatures[0] },
    { type: 'thinking', thinking: '', signature: signatures[1] },
    { type: 'text', text: 'Looking.' },
    { type: 'tool_use', id: 'toolu_x', name: 'get', input: {} },
  ];
  t.match(await ask('/v1/messages', continued('a', content)), ok);
  t.same(thoughtsIn(serverA.heard.at(-1)), a.issued.slice(-4, -2));
});

const tools = [{ type: 'function', name: 'get', parameters: { type: 'object' } }];
const create = { tools, reasoning: { effort: 'low' } };
const outputs = (output: Json[]): Json[] =>
  output.flatMap(({ type, call_id }) =>
    type === 'function_call' ? [{ type: 'function_call_output', call_id, output: '14 C' }] : [],
  );

for (const model of ['a', 'b']) {
  const blocks = (): Json[] => (model === 'a' ? a.issued : b.issued);
  const heardBy = (): Json[] =>
    model === 'a'
      ? thoughtsIn(serverA.heard.at(-1))
      : (serverB.heard.at(-1)!.body['input'] as Json[]).filter(({ type }) => type === 'reasoning');

  t.test(
    `Responses: ${model} gets its blocks back from encrypted items, stored chains and WebSocket chains`,
    async (t) => {
      const issued = blocks().length;
      const encrypted = { ...create, model, store: false, include: ['reasoning.encrypted_content'] };
      const one = await ask('/v1/responses', { ...encrypted, input: [question] });
      const output = one.body['output'] as Json[];
      t.match(
        output.find(({ type }) => type === 'reasoning'),
        { encrypted_content: /^enc2\./ },
      );
      t.match(await ask('/v1/responses', { ...encrypted, input: [question, ...output, ...outputs(output)] }), ok);
      t.same(heardBy(), blocks().slice(issued, issued + 2));

      const stored = blocks().length;
      const two = await ask('/v1/responses', { ...create, model, input: [question] });
      const kept = two.body['output'] as Json[];
      t.notMatch(JSON.stringify(two.body), /encrypted_content|monolith_origin/);
      const id = two.body['id'] as string;
      const three = await ask('/v1/responses', { ...create, model, previous_response_id: id, input: outputs(kept) });
      t.match(three, ok);
      t.same(heardBy(), blocks().slice(stored, stored + 2));
      for (const path of [`/v1/responses/${three.body['id'] as string}/input_items`, `/v1/responses/${id}`])
        t.notMatch(
          await (await gateway.get(path)).text(),
          /encrypted_content|monolith_origin/,
          'clients do not see the block',
        );
      const retrieved = (await (
        await gateway.get(`/v1/responses/${id}?include=reasoning.encrypted_content`)
      ).json()) as Json;
      const sealed = retrieved['output'] as Json[];
      t.match(await ask('/v1/responses', { ...encrypted, input: [question, ...sealed, ...outputs(sealed)] }), ok);
      t.same(heardBy(), blocks().slice(stored, stored + 2), 'items that are retrieved later have the block too');

      const connection = await Connection.open({ port: Number(new URL(gateway.url).port), key: gateway.key });
      t.teardown(() => connection.socket.terminate());
      const local = blocks().length;
      const events = await connection.turn({ ...create, model, store: false, input: [question] });
      const { response } = events.at(-1) as WireEvent & { response: Json };
      await connection.turn({
        ...create,
        model,
        store: false,
        previous_response_id: response['id'],
        input: outputs(response['output'] as Json[]),
      });
      t.same(heardBy(), blocks().slice(local, local + 2));
    },
  );
}

t.test('a tool loop that moves between upstreams continues with thinking off', async (t) => {
  const places = 'messages[1].content[0], messages[1].content[1]';
  for (const [from, to] of [
    ['b', 'a'],
    ['other', 'a'],
    ['a', 'other'],
  ] as const) {
    const content = await first(from);
    const moved = await ask('/v1/messages', continued(to, content));
    // If text split the reasoning, its blocks are at different positions.
    t.match(moved, { status: 200, parameters: 'thinking' }, `${from} to ${to}`);
    t.match(moved.content, from === 'b' ? 'messages[1].content[0], messages[1].content[2]' : places);
    t.match(serverA.heard.at(-1)!.body['thinking'], { type: 'disabled' });
    t.same(thoughtsIn(serverA.heard.at(-1)), []);
    t.match(await ask('/v1/messages/count_tokens', continued(to, content)), { status: 200, parameters: 'thinking' });
  }
  const content = await first('a');
  const toB = await ask('/v1/messages', continued('b', content));
  t.match(toB, { status: 200, content: places, parameters: null });
  const back = await ask('/v1/messages', continued('a', content));
  t.match(back, ok, 'back at the first upstream, its blocks are used again');
});

t.test('foreign reasoning, or reasoning whose key was removed, in a tool loop turns thinking off', async (t) => {
  const content = await first('a');
  const foreign = [{ type: 'thinking', thinking: 'x', signature: 'EqoB' }, ...content.slice(2)];
  const off = { status: 200, content: 'messages[1].content[0]', parameters: 'thinking' };
  t.match(await ask('/v1/messages', continued('a', foreign)), off);
  t.match(await ask('/v1/messages', continued('a', foreign, { stream: true })), off);
  const interrupted = continued('a', foreign);
  (interrupted['messages'] as Json[])[2]!['content'].push({ type: 'text', text: '<reminder>' });
  t.match(await ask('/v1/messages', interrupted), off, 'text next to the results does not end the loop for the vendor');
  t.match(await ask('/v1/messages', continued('a', content, { thinking: { type: 'disabled' } })), {
    status: 200,
    parameters: null,
  });
  t.same(thoughtsIn(serverA.heard.at(-1)), [], 'without thinking, the last turn has no thinking block');
  const chat = {
    model: 'a',
    reasoning_effort: 'low',
    tools: tools.map(({ type, ...fields }) => ({ type, function: fields })),
    messages: [
      question,
      {
        role: 'assistant',
        reasoning_content: 'Plain.',
        tool_calls: [{ id: 'c1', type: 'function', function: { name: 'get', arguments: '{}' } }],
      },
      { role: 'tool', tool_call_id: 'c1', content: '14 C' },
    ],
  };
  t.match(await ask('/v1/chat/completions', chat), {
    status: 200,
    content: 'messages[1].reasoning_content',
    parameters: 'thinking',
  });

  const never = { ...chat, messages: chat.messages.map(({ reasoning_content: _, ...message }: Json) => message) };
  t.match(await ask('/v1/chat/completions', never), { status: 200, content: null, parameters: 'thinking' });
  never.messages.push({ role: 'user', content: 'And Rome?' });
  await ask('/v1/chat/completions', never);
  t.match(serverA.heard.at(-1)!.body['thinking'], { type: 'enabled' }, 'a loop that never had reasoning has ended');

  const rotated = await gatewayWith(KEYS[1]!, KEYS[0]!);
  t.teardown(() => rotated.close());
  const removed = await gatewayWith(KEYS[1]!);
  t.teardown(() => removed.close());
  // Each gateway has its own database and therefore its own organizations, so sharing a key is not enough for reasoning
  // to be accepted.
  const own = await ask('/v1/messages', request('a', [question]), { by: rotated });
  t.match(await ask('/v1/messages', continued('a', own.body['content'] as Json[]), { by: rotated }), ok);
  t.match(await ask('/v1/messages', continued('a', own.body['content'] as Json[]), { by: removed }), {
    status: 200,
    content: 'messages[1].content[0], messages[1].content[1]',
    parameters: 'thinking',
  });
});

t.test('a chat upstream receives text, or an empty field in place of lost reasoning of the tool loop', async (t) => {
  const use = { type: 'tool_use', id: 'toolu_1', name: 'get', input: {} };
  const lost = [{ type: 'thinking', thinking: 'x', signature: 'EqoB' }, use];
  const answer = (heard: Heard | undefined): Json =>
    (heard!.body['messages'] as Json[]).find(({ role }) => role === 'assistant') as Json;
  for (const [model, field] of [
    ['c', 'reasoning_content'],
    ['named', 'reasoning'],
  ] as const) {
    t.match(await ask('/v1/messages', continued(model, lost)), { status: 200, content: 'messages[1].content[0]' });
    t.equal(answer(serverC.heard.at(-1))[field], '');
    await ask('/v1/messages', continued(model, [use]));
    t.notOk(field in answer(serverC.heard.at(-1)), 'no field is added if there never was any reasoning');
  }
  await ask('/v1/messages', continued('none', lost));
  t.notMatch(serverC.heard.at(-1)!.text, /"reasoning(_content)?":/);
  const talk = [question, { role: 'assistant', content: [lost[0]!, { type: 'text', text: 'Sunny.' }] }, question];
  await ask('/v1/messages', request('c', talk));
  t.notOk('reasoning_content' in answer(serverC.heard.at(-1)), 'only the running tool loop gets the field');
  const said = await ask('/v1/messages', request('c', [question]));
  const thought = (said.body['content'] as Json[])[0]!;
  t.match(thought, { type: 'thinking', thinking: 'Plainly.' });
  t.match(await ask('/v1/messages', continued('c', [thought, use])), ok);
  t.equal(answer(serverC.heard.at(-1))['reasoning_content'], 'Plainly.');
});

t.test('after a fallback, the block belongs to the model and the upstream that answered', async (t) => {
  for (const [model, fallback] of [
    ['fails', 'a'],
    ['fails-b', 'b'],
  ] as const) {
    const content = await first(model);
    const server = fallback === 'a' ? serverA : serverB;
    const before = server.heard.length;
    t.match(await ask('/v1/messages', continued(fallback, content)), ok, 'the fallback gets its own block back');
    const again = await ask('/v1/messages', continued(model, content));
    t.match(again, { status: 200, parameters: null }, 'the same is true when it takes over again');
    t.equal(again.content, null);
    t.equal(server.heard.length, before + 2);
    const [one, two] = server.heard.slice(-2).map(({ body }) => JSON.stringify(body['messages'] ?? body['input']));
    t.equal(one, two);
  }
  const use = { type: 'tool_use', id: 'toolu_1', name: 'get', input: {} };
  const plain = [(await first('fails-c'))[0]!, use];
  const said = (): unknown => (serverC.heard.at(-1)!.body['messages'] as Json[])[1]!['reasoning_content'];
  for (const model of ['c', 'fails-c']) {
    t.match(await ask('/v1/messages', continued(model, plain)), { status: 200, content: null });
    t.equal(said(), 'Plainly.', 'text belongs to the model that answered too');
  }
  t.match(await ask('/v1/messages', continued('named', plain)), { status: 200, content: 'messages[1].content[0]' });
  const content = await first('a');
  const moved = await ask('/v1/messages', continued('fails-b', content));
  t.match(moved, { status: 200, content: 'messages[1].content[0], messages[1].content[1]', parameters: null });
  t.ok(
    gateway.logs.some((line) => line.includes('"ignored_content":"messages[1].content[0], messages[1].content[1]"')),
  );
});

t.test('a request to a Responses upstream that cannot encrypt reasoning is retried without it, once', async (t) => {
  const before = serverB.heard.length;
  for (let turn = 0; turn < 2; turn++)
    t.equal((await ask('/v1/responses', { ...create, model: 'plain', input: [question] })).status, 200);
  t.same(
    serverB.heard.slice(before).map(({ body }) => body['include']),
    [['reasoning.encrypted_content'], undefined, undefined],
  );
});
