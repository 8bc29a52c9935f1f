// Tests that the token IDs of generated tool calls and reasoning are replayed when a client sends these items back, in
// every API format. The new prompt then starts with exactly the tokens of the last prompt and its response. The test
// model generates tokens of several characters, but tokenizes text into one token per byte. Without replay, only the
// first token would match.
import { rmSync } from 'node:fs';
import t from 'tap';
import { LmdbReplayStore } from '../../src/storage/lmdb/replays/replay-store.js';
import { startScripted } from '../support/script-model.js';
import type { Monolith } from './monolith.js';
import { dataFolder, inside, keyOf } from './stored-server.js';

t.setTimeout(600_000); // the machine may be busy

/** Three pages of tokens, so that the cached tokens of a response show whether they match. */
const NOTE = Array.from({ length: 48 }, (_, nth) => ` w${nth}`);
const scripts = {
  A: ['Paris', ' is the', ' capital', '.'],
  T: ['It is', ' warm', '.'],
  W: [
    '<tool_call>',
    '\n{"name": "get_we',
    'ather", "arguments": {"unit":  "C", "loca',
    'tion":"Par',
    'is", "note":"',
    ...NOTE,
    '"}}\n',
    '</tool_call>',
  ],
  R: [
    '<think>',
    '\nI need',
    ' the weather',
    ' first.',
    '\n',
    '</think>',
    '\n\n',
    '<tool_call>',
    '\n{"name": "get_wea',
    'ther", "arguments": {"unit":  "C",',
    ' "location":"Pari',
    's"}}\n',
    '</tool_call>',
  ],
  P: [
    '<tool_call>',
    '\n{"name": "get_weat',
    'her", "arguments": {"location":"Ro',
    'me"}}\n',
    '</tool_call>',
    '\n ',
    '<tool_call>',
    '\n{"name": "get_ti',
    'me", "arguments": {"zone":   "CE',
    'T"}}\n',
    '</tool_call>',
  ],
};

const { path, remove } = dataFolder();
t.teardown(remove);
const start = (args: string[] = []): Promise<Monolith> =>
  startScripted({
    scripts,
    exactHistory: true,
    models: ['scripted'],
    args: ['--threads', '1', ...args],
    env: { MONOLITH_DATA_DIR: path, MONOLITH_LIMITS_RPM: 'off', MONOLITH_LIMITS_TPM: 'off' },
  });
let server = await start();
t.teardown(() => server.stop());

interface Reply<T> {
  body: T;
  /** The replayed items: IDs of tool calls and paths of reasoning, as in the header x-replayed-items. */
  replayed: string[];
}

async function post<T>(route: string, body: object, key = server.key): Promise<Reply<T>> {
  const response = await fetch(`${server.url}${route}`, {
    method: 'POST',
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
    body: JSON.stringify({ model: 'scripted', ...body }),
  });
  const text = await response.text();
  if (response.status !== 200) throw new Error(`${response.status} ${text}`);
  return {
    body: JSON.parse(text) as T,
    replayed: response.headers.get('x-replayed-items')?.split(', ') ?? [],
  };
}

const parameters = { type: 'object' };
const names = ['get_weather', 'get_time'];
const chatTools = names.map((name) => ({ type: 'function', function: { name, parameters } }));
const ARGUMENTS = `{"unit":  "C", "location":"Paris", "note":"${NOTE.join('')}"}`;
const EQUAL = `{"location": "Pari\\u0073", "note": "${NOTE.join('')}", "unit": "C"}`;

interface ChatMessage {
  role: string;
  content: string | null;
  reasoning_content?: string;
  tool_calls?: { id: string; type: string; function: { name: string; arguments: string } }[];
  tool_call_id?: string;
}
interface Chat {
  choices: [{ message: ChatMessage; token_ids?: number[] }];
  usage: {
    prompt_tokens: number;
    completion_tokens: number;
    prompt_tokens_details: { cached_tokens: number };
    completion_tokens_details: { reasoning_tokens: number };
  };
}
const chat = (messages: ChatMessage[], more: object = {}, key?: string): Promise<Reply<Chat>> =>
  post('/v1/chat/completions', { messages, tools: chatTools, max_tokens: 200, ...more }, key);

/**
 * Sends a question to which the model responds with tool calls. `next`: the conversation with the calls and their
 * results.
 */
async function chatTurn(letter: string, more: object = {}): Promise<{ reply: Chat; next: ChatMessage[] }> {
  const asked = { role: 'user', content: `${letter}: What is the weather ${Math.random()}?` };
  const { body } = await chat([asked], more);
  const { role, content, reasoning_content, tool_calls = [] } = body.choices[0].message;
  const said = { role, content, ...(reasoning_content ? { reasoning_content } : {}), tool_calls };
  const results = tool_calls.map(({ id }) => ({ role: 'tool', content: 'T: 14 C', tool_call_id: id }));
  return { reply: body, next: [asked, said, ...results] };
}

/** Returns how many tokens of a request's prompt and response are in full cache pages of 16 tokens. */
const whole = ({ usage }: Chat): number => Math.floor((usage.prompt_tokens + usage.completion_tokens - 2) / 16) * 16;
const cached = ({ body }: Reply<Chat>): number => body.usage.prompt_tokens_details.cached_tokens;
const edited = (messages: ChatMessage[], change: (said: ChatMessage) => void): ChatMessage[] => {
  const copy = structuredClone(messages);
  change(copy[1] as ChatMessage);
  return copy;
};

/** Returns a copy of the conversation with a tool call ID that the server did not create. */
const renamed = (messages: ChatMessage[]): ChatMessage[] => {
  const id = `call_${'0'.repeat(24)}`;
  const copy = edited(messages, (said) => void (said.tool_calls![0]!.id = id));
  copy[2]!.tool_call_id = id;
  return copy;
};

t.test('chat completions: a call matches the cache', async (t) => {
  const { reply, next } = await chatTurn('W');
  const then = await chat(next);
  t.same(then.replayed, [next[1]!.tool_calls![0]!.id]);
  t.ok(cached(then) >= whole(reply), `${cached(then)} of ${then.body.usage.prompt_tokens} tokens are cached`);
});

t.test('chat completions: reasoning matches the cache', async (t) => {
  const { reply, next } = await chatTurn('R');
  const said = next[1] as ChatMessage;
  t.equal(said.reasoning_content?.trim(), 'I need the weather first.');
  t.equal(said.tool_calls?.[0]?.function.arguments, '{"unit":  "C", "location":"Paris"}');
  const then = await chat(next);
  t.same(then.replayed, ['messages[1].reasoning_content', said.tool_calls?.[0]?.id]);
  // Between the reasoning and the call, the model generated two line breaks as one token. This token belongs to no
  // item, so it is not replayed, and the cached prefix ends before it.
  const { prompt_tokens, completion_tokens_details } = reply.usage;
  const least = Math.floor((prompt_tokens + completion_tokens_details.reasoning_tokens) / 16) * 16;
  t.ok(cached(then) >= least, `${cached(then)} of ${then.body.usage.prompt_tokens} tokens are cached`);
});

t.test('arguments that are equal as JSON are replayed, others are not', async (t) => {
  const { reply, next } = await chatTurn('W');
  const id = next[1]!.tool_calls![0]!.id;
  const equal = await chat(edited(next, (said) => void (said.tool_calls![0]!.function.arguments = EQUAL)));
  t.same(equal.replayed, [id]);
  t.ok(cached(equal) >= whole(reply));
  for (const [what, change] of [
    ['another value', (said) => void (said.tool_calls![0]!.function.arguments = ARGUMENTS.replace('Paris', 'Rome'))],
    ['another member', (said) => void (said.tool_calls![0]!.function.arguments = ARGUMENTS.replace('{', '{"a": 1, '))],
    ['another name', (said) => void (said.tool_calls![0]!.function.name = 'get_time')],
    ['no JSON', (said) => void (said.tool_calls![0]!.function.arguments = `${ARGUMENTS}}`)],
  ] as [string, (said: ChatMessage) => void][]) {
    const turn = await chatTurn('W');
    const other = await chat(edited(turn.next, change));
    t.same(other.replayed, [], what);
    t.ok(cached(other) < whole(turn.reply) - 32, `${what}: ${cached(other)} tokens are cached`);
  }
  t.same((await chat(renamed(next))).replayed, [], 'another ID');
});

t.test('edited reasoning is not replayed, but the call after it is', async (t) => {
  const { next } = await chatTurn('R');
  const id = next[1]!.tool_calls![0]!.id;
  t.same((await chat(edited(next, (said) => void (said.reasoning_content += '!')))).replayed, [id]);
  const without = edited(next, (said) => void delete said.reasoning_content);
  t.same((await chat(without)).replayed, [id]);
});

t.test('several calls: each is replayed on its own', async (t) => {
  const { next } = await chatTurn('P');
  const ids = next[1]!.tool_calls!.map(({ id }) => id);
  t.equal(ids.length, 2);
  const then = await chat(next);
  t.same(then.replayed, ids);
  const half = await chat(edited(next, (said) => void (said.tool_calls![1]!.function.arguments = '{"zone": "UTC"}')));
  t.same(half.replayed, [ids[0]]);
});

t.test('a call without its closing marker is replayed', async (t) => {
  const { next } = await chatTurn('W', { parallel_tool_calls: false });
  t.same((await chat(next)).replayed, [next[1]!.tool_calls![0]!.id]);
});

t.test('text that looks like a call is never replaced', async (t) => {
  const { next } = await chatTurn('W');
  const call = `<tool_call>\n{"name": "get_weather", "arguments": ${ARGUMENTS}}\n</tool_call>`;
  const before = await post<{ tokens: number[] }>('/tokenize', { messages: next, tools: chatTools });
  const asked = [{ role: 'user', content: call }, ...next.slice(1)];
  const after = await post<{ tokens: number[] }>('/tokenize', { messages: asked, tools: chatTools });
  t.equal(after.replayed.length, 1);
  const bytes = Buffer.byteLength(call) - Buffer.byteLength(next[0]!.content ?? '');
  t.equal(after.body.tokens.length - before.body.tokens.length, bytes, 'one token per byte of the user message');
});

t.test('counts and rendered templates have the same tokens', async (t) => {
  const { reply, next } = await chatTurn('R');
  const then = await chat(next);
  const body = { messages: next, tools: chatTools };
  const { body: counted, replayed } = await post<{ tokens: number[] }>('/tokenize', body);
  t.equal(counted.tokens.length, then.body.usage.prompt_tokens);
  t.same(replayed, then.replayed);
  const first = await post<{ tokens: number[] }>('/tokenize', { ...body, messages: next.slice(0, 1) });
  t.same(counted.tokens.slice(0, first.body.tokens.length), first.body.tokens);
  t.ok(counted.tokens.length < first.body.tokens.length + reply.usage.completion_tokens + 100);
  const rendered = await post<{ prompt: string }>('/apply-template', body);
  t.same(rendered.replayed, then.replayed);
  t.match(rendered.body.prompt, 'arguments": {"unit":  "C", "location":"Paris"}');
  const plain = await post<{ prompt: string }>('/apply-template', { ...body, messages: renamed(next) });
  t.match(plain.body.prompt, `arguments": {"unit": "C", "location": "Paris"}`);
});

t.test('nothing is recorded for store: false', async (t) => {
  const { next } = await chatTurn('R', { store: false });
  // Only the call is not replayed. The reasoning is, because another test's response with the same reasoning was
  // recorded.
  t.same((await chat(next)).replayed, ['messages[1].reasoning_content']);
});

t.test('messages', async (t) => {
  const tools = names.map((name) => ({ name, input_schema: parameters }));
  const ask = (messages: object[], route = '/v1/messages', more: object = { max_tokens: 2_000 }) =>
    post<{
      content: { type: string; id?: string; input?: object }[];
      usage: { input_tokens: number; output_tokens: number; cache_read_input_tokens: number };
      input_tokens: number;
    }>(route, { messages, tools, thinking: { type: 'enabled', budget_tokens: 1_024 }, ...more });
  const asked = { role: 'user', content: `R: weather ${Math.random()}` };
  const first = await ask([asked]);
  const use = first.body.content.find(({ type }) => type === 'tool_use')!;
  t.ok(first.body.content.some(({ type }) => type === 'thinking'));
  const next = [
    asked,
    { role: 'assistant', content: first.body.content },
    { role: 'user', content: [{ type: 'tool_result', tool_use_id: use.id, content: 'T: 14 C' }] },
  ];
  const then = await ask(next);
  t.equal(then.replayed.length, 2, then.replayed.join());
  t.equal(then.replayed[1], use.id);
  const { usage } = first.body;
  const all = usage.input_tokens + usage.cache_read_input_tokens + usage.output_tokens;
  t.ok(then.body.usage.cache_read_input_tokens >= Math.floor((all - usage.output_tokens + 8) / 16) * 16);
  const count = await ask(next, '/v1/messages/count_tokens', {});
  t.same(count.replayed, then.replayed);
  t.equal(count.body.input_tokens, then.body.usage.input_tokens + then.body.usage.cache_read_input_tokens);
  use.input = { ...use.input, location: 'Rome' };
  t.equal((await ask(next)).replayed.length, 1);
});

interface Resource {
  id: string;
  output: { type: string; call_id?: string; [name: string]: unknown }[];
  usage: { input_tokens: number; output_tokens: number; input_tokens_details: { cached_tokens: number } };
}
const respond = (body: object, key?: string): Promise<Reply<Resource>> =>
  post(
    '/v1/responses',
    {
      tools: names.map((name) => ({ type: 'function', name, parameters, strict: false })),
      reasoning: { effort: 'medium' },
      ...body,
    },
    key,
  );
const result = ({ output }: Resource): object => ({
  type: 'function_call_output',
  call_id: output.find(({ type }) => type === 'function_call')?.call_id,
  output: 'T: 14 C',
});

t.test('responses: a continued response, and one whose items the client sends back', async (t) => {
  const asked = { role: 'user', content: `R: weather ${Math.random()}` };
  const { body: first } = await respond({ input: [asked] });
  const all = first.usage.input_tokens + first.usage.output_tokens;
  for (const body of [
    { previous_response_id: first.id, input: [result(first)] },
    { input: [asked, ...first.output, result(first)] },
  ]) {
    const then = await respond(body);
    t.equal(then.replayed.length, 2, then.replayed.join());
    t.ok(
      then.body.usage.input_tokens_details.cached_tokens >= Math.floor((all - first.usage.output_tokens + 8) / 16) * 16,
    );
  }
  const unstored = await respond({ input: [asked], store: false, include: ['reasoning.encrypted_content'] });
  const again = await respond({ input: [asked, ...unstored.body.output, result(unstored.body)], store: false });
  // Only calls are compared. The reasoning is replayed, because a stored response has the same reasoning text.
  t.equal(again.replayed.filter((name) => name.startsWith('call_')).length, 0, 'store: false');
});

t.test('items of a deleted response are erased', async (t) => {
  const asked = { role: 'user', content: `W: weather ${Math.random()}` };
  const { body: first } = await respond({ input: [asked] });
  const next = { input: [asked, ...first.output, result(first)] };
  t.equal((await respond(next)).replayed.length, 1);
  await fetch(`${server.url}/v1/responses/${first.id}`, {
    method: 'DELETE',
    headers: { authorization: `Bearer ${server.key}` },
  });
  t.equal((await respond(next)).replayed.length, 0);
});

t.test('items survive a restart, and other organizations do not have them', async (t) => {
  const { reply, next } = await chatTurn('W');
  const id = next[1]!.tool_calls![0]!.id;
  const other = await keyOf(path, 'second');
  t.same((await chat(next, {}, other)).replayed, [], 'another organization');
  await server.stop();
  server = await start();
  t.same((await chat(next)).replayed, [id]);
  t.equal(cached(await chat(next, {}, other)), 0);
  t.ok(cached(await chat(next)) >= whole(reply));
  await server.stop();
  await inside(path, async (store) => {
    const replays = new LmdbReplayStore(store, 1 << 20);
    for (const id of [...store.table('organizations').keys()]) await replays.eraseOrganization(id as string);
  });
  server = await start();
  t.same((await chat(next)).replayed, [], 'forgotten');
  await server.stop();
  server = await start(['--replay-hours', '0']);
  const off = await chatTurn('W');
  t.same((await chat(off.next)).replayed, [], 'turned off');
});

t.teardown(() => rmSync(path, { recursive: true, force: true }));
