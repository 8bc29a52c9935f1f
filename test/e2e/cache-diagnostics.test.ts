// Compares requests with earlier requests through the official clients. The test model's prompts have one token per
// byte and a few control tokens, so all counts are checked against /tokenize.
import Anthropic from '@anthropic-ai/sdk';
import OpenAI from 'openai';
import t from 'tap';
import type { CreatedApiKey } from '../../src/shared/wire/api-keys.js';
import type { ListPage } from '../../src/shared/wire/list.js';
import type { RequestDetail, RequestObject } from '../../src/shared/wire/requests.js';
import { openOwned } from '../support/owned-server.js';
import { startScripted } from '../support/script-model.js';
import { eventually } from './monolith.js';

t.setTimeout(300_000); // the machine may be busy

const { server, owner, organization, client: clientOf, close } = await openOwned({ args: ['--kv-disk', 'off'] });
t.teardown(close);
const PATH = `/organizations/${organization.id}`;
const { secret } = await owner.post<CreatedApiKey>(`${PATH}/api-keys`, { name: 'k' });
const openai = new OpenAI({ baseURL: `${server.url}/v1`, apiKey: secret, maxRetries: 0 });
const anthropic = new Anthropic({ baseURL: server.url, apiKey: secret, maxRetries: 0 });

const model = 'tycho-1.0';
const RULES = 'Answer in one sentence. '.repeat(8);
const QUESTION = `A: ${'What is the capital of France? '.repeat(4)}`;

interface Turn {
  role: 'system' | 'user' | 'assistant';
  content: string;
}
const turns = (...contents: string[]): Turn[] =>
  contents.map((content, at) => ({ role: at === 0 ? 'system' : at % 2 === 1 ? 'user' : 'assistant', content }));

async function post<T>(path: string, body: object): Promise<T> {
  const response = await fetch(`${server.url}${path}`, {
    method: 'POST',
    headers: { authorization: `Bearer ${secret}`, 'content-type': 'application/json' },
    body: JSON.stringify({ model, ...body }),
  });
  return (await response.json()) as T;
}

/** Returns the tokens of a conversation's prompt, and how many of the last tokens open the response. */
async function tokensOf(messages: Turn[], more: object): Promise<{ tokens: number[]; start: number }> {
  const body = { messages, reasoning_effort: 'none', ...more };
  const { tokens } = await post<{ tokens: number[] }>('/tokenize', body);
  const { prompt } = await post<{ prompt: string }>('/apply-template', body);
  const start = prompt.slice(prompt.lastIndexOf('<|im_start|>'));
  const { count } = await post<{ count: number }>('/tokenize', { prompt: start, add_special_tokens: false });
  return { tokens, start: count };
}

/**
 * Returns the expected counts for two prompts. `all`: the earlier prompt's tokens, without those that open the
 * response. `missed`: how many of them come after the first difference from the later prompt.
 */
async function counts(
  earlier: Turn[],
  later: Turn[],
  more: [object, object] = [{}, {}],
): Promise<{ all: number; missed: number }> {
  const { tokens, start } = await tokensOf(earlier, more[0]);
  const before = tokens.slice(0, -start);
  const { tokens: after } = await tokensOf(later, more[1]);
  const matched = before.findIndex((token, at) => token !== after[at]);
  return { all: before.length, missed: matched === -1 ? 0 : before.length - matched };
}

interface Compared {
  id: string;
  cached: number;
  diagnostics: unknown;
}

/** Creates a response. `compared`: the ID of the response to compare with. */
async function respond(body: object, compared?: string | null): Promise<Compared> {
  const asked: object = {
    input: QUESTION,
    instructions: RULES,
    reasoning: { effort: 'none' },
    ...body,
    ...(compared === undefined ? {} : { prompt_cache_options: { comparison_response_id: compared } }),
  };
  const response = await openai.responses.create({ model, ...asked });
  const { prompt_cache_diagnostics: diagnostics } = response as { prompt_cache_diagnostics?: unknown };
  return { id: response.id, cached: response.usage!.input_tokens_details.cached_tokens, diagnostics };
}

/** Creates a message. `compared`: the ID of the message to compare with. */
async function say(body: object, compared?: string | null): Promise<Compared> {
  const asked: object = {
    system: RULES,
    ...body,
    ...(compared === undefined ? {} : { diagnostics: { previous_message_id: compared } }),
  };
  const message = await anthropic.messages.create({
    model,
    max_tokens: 20,
    messages: [{ role: 'user', content: QUESTION }],
    ...asked,
  });
  return { id: message.id, cached: message.usage.cache_read_input_tokens ?? 0, diagnostics: message.diagnostics };
}

const functionTool = (name: string) => ({ type: 'function', name, parameters: { type: 'object' }, strict: false });
const tool = (name: string) => ({ name, input_schema: { type: 'object' } });

t.test('responses: the next turn of a conversation is a hit', async (t) => {
  const first = await respond({}, null);
  t.equal(first.diagnostics, undefined, 'no comparison was requested');
  const again = await respond({}, first.id);
  t.same(again.diagnostics, { type: 'cache_hit' });
  t.ok(again.cached > 0);
  const next = await respond({ previous_response_id: first.id, input: 'A: And of Spain?' }, first.id);
  t.same(next.diagnostics, { type: 'cache_hit' });
  const shorter = await respond({ input: 'A: What is' }, next.id);
  t.match(shorter.diagnostics, { type: 'cache_miss', reason: 'input_changed' });
});

t.test('responses: names what changed and counts the tokens', async (t) => {
  const earlier = turns(RULES, QUESTION);
  const first = await respond({});
  const miss = (reason: string, { all, missed }: { all: number; missed: number }) => ({
    type: 'cache_miss',
    reason,
    cache_missed_tokens: missed,
    comparison_reusable_tokens: all,
  });
  const edited = QUESTION.replace('capital of France? What', 'capital of Spain? What');
  t.same(
    (await respond({ input: edited }, first.id)).diagnostics,
    miss('input_changed', await counts(earlier, turns(RULES, edited))),
  );
  const rules = RULES.replace('sentence', 'word');
  t.same(
    (await respond({ instructions: rules }, first.id)).diagnostics,
    miss('input_changed', await counts(earlier, turns(rules, QUESTION))),
  );
  const { all } = await counts(earlier, earlier);
  t.same(
    (await respond({ model: 'clarke-1.0' }, first.id)).diagnostics,
    miss('model_changed', { all, missed: all }),
    'the prompt is the same, but the model has another cache',
  );

  const withTool = await respond({ tools: [functionTool('get_time')] });
  const { diagnostics } = await respond({ tools: [functionTool('get_date')] }, withTool.id);
  const tools = (name: string) => ({
    tools: [{ type: 'function', function: { name, parameters: { type: 'object' } } }],
  });
  t.same(diagnostics, miss('tools_changed', await counts(earlier, earlier, [tools('get_time'), tools('get_date')])));
  t.match(
    (await respond({ text: { format: { type: 'json_object' } }, input: `J${QUESTION.slice(1)}` }, first.id))
      .diagnostics,
    {
      type: 'cache_miss',
      reason: 'text_format_changed',
    },
  );
  const conversation = turns(RULES, QUESTION, 'Paris.', 'A: And of Spain?').slice(1) as Turn[];
  const long = await respond({ input: conversation });
  const compacted = await openai.responses.compact({ model, input: conversation as OpenAI.Responses.ResponseInput });
  t.match((await respond({ input: compacted.output }, long.id)).diagnostics, {
    type: 'cache_miss',
    reason: 'context_compacted',
  });
});

t.test('responses: streams, background responses and stored ones have the result', async (t) => {
  const first = await respond({});
  const options = { prompt_cache_options: { comparison_response_id: first.id } };
  const body = { model, instructions: RULES, input: QUESTION, reasoning: { effort: 'none' as const }, ...options };
  const seen: unknown[] = [];
  for await (const event of await openai.responses.create({
    ...body,
    stream: true,
  } as OpenAI.Responses.ResponseCreateParamsStreaming))
    if ('response' in event)
      seen.push([event.type, (event.response as { prompt_cache_diagnostics?: unknown }).prompt_cache_diagnostics]);
  const hit = { type: 'cache_hit' };
  t.same(seen, [
    ['response.created', hit],
    ['response.in_progress', hit],
    ['response.completed', hit],
  ]);
  const { id } = await openai.responses.create({
    ...body,
    background: true,
  } as OpenAI.Responses.ResponseCreateParamsNonStreaming);
  await eventually(async () => (await openai.responses.retrieve(id)).status === 'completed');
  t.match(await openai.responses.retrieve(id), { status: 'completed', prompt_cache_diagnostics: hit });
});

t.test('messages: names what changed and counts the tokens', async (t) => {
  const earlier = turns(RULES, QUESTION);
  const first = await say({}, null);
  t.equal(first.diagnostics, null);
  const again = await say({}, first.id);
  t.equal(again.diagnostics, null, 'the same prompt');
  t.ok(again.cached > 0);
  const reply = { role: 'assistant', content: 'Paris.' };
  const longer = [{ role: 'user', content: QUESTION }, reply, { role: 'user', content: 'A: And of Spain?' }];
  t.equal((await say({ messages: longer }, first.id)).diagnostics, null, 'the next turn');

  const miss = (type: string, { missed }: { missed: number }) => ({
    cache_miss_reason: { type, cache_missed_input_tokens: missed },
  });
  const edited = QUESTION.replace('capital of France? What', 'capital of Spain? What');
  t.same(
    (await say({ messages: [{ role: 'user', content: edited }, ...longer.slice(1)] }, first.id)).diagnostics,
    miss('messages_changed', await counts(earlier, turns(RULES, edited))),
  );
  const rules = RULES.replace('sentence', 'word');
  t.same(
    (await say({ system: rules }, first.id)).diagnostics,
    miss('system_changed', await counts(earlier, turns(rules, QUESTION))),
  );
  const { all } = await counts(earlier, earlier);
  t.same((await say({ model: 'clarke-1.0' }, first.id)).diagnostics, miss('model_changed', { missed: all }));
  t.match((await say({ tools: [tool('get_time')] }, first.id)).diagnostics, {
    cache_miss_reason: { type: 'tools_changed' },
  });
  const json = { messages: [{ role: 'user', content: 'J: please' }] };
  const format = { type: 'json_schema', schema: { type: 'object', properties: { a: { type: 'string' } } } };
  const { id: unformatted } = await say(json);
  t.same(
    (await say({ ...json, output_config: { format } }, unformatted)).diagnostics,
    { cache_miss_reason: { type: 'unavailable' } },
    'the vendor has no reason for a changed format',
  );

  const stream = anthropic.messages.stream({
    model,
    max_tokens: 20,
    system: rules,
    messages: [{ role: 'user', content: QUESTION }],
    ...{ diagnostics: { previous_message_id: first.id } },
  });
  const started = await new Promise<Anthropic.RawMessageStreamEvent>((resolve) => stream.once('streamEvent', resolve));
  t.match(started, {
    type: 'message_start',
    message: { diagnostics: { cache_miss_reason: { type: 'system_changed' } } },
  });
  await stream.finalMessage();
});

t.test('an unknown ID, or one of another organization, is not found', async (t) => {
  const other = clientOf();
  const { organization: theirs } = await other.signUp({ email: 'other@example.com' });
  const key = await other.post<CreatedApiKey>(`/organizations/${theirs.id}/api-keys`, { name: 'k' });
  const foreign = await new OpenAI({ baseURL: `${server.url}/v1`, apiKey: key.secret }).responses.create({
    model,
    input: QUESTION,
    instructions: RULES,
    reasoning: { effort: 'none' },
  });
  for (const id of [foreign.id, 'resp_1', '', 'x'.repeat(512)]) {
    t.same((await respond({}, id)).diagnostics, { type: 'comparison_response_not_found' });
    t.same((await say({}, id)).diagnostics, { cache_miss_reason: { type: 'previous_message_not_found' } });
  }
});

t.test("an organization's 64 latest prompts are kept", async (t) => {
  const first = await respond({});
  const second = await respond({});
  for (let at = 0; at < 63; at++) await respond({ max_output_tokens: 16 });
  t.same((await respond({}, first.id)).diagnostics, { type: 'comparison_response_not_found' });
  t.same(
    (await respond({}, second.id)).diagnostics,
    { type: 'comparison_response_not_found' },
    'and the one before that',
  );
});

t.test('the request log has the result and, if the organization stores text, the difference', async (t) => {
  const list = async (): Promise<RequestObject[]> =>
    (await owner.get<ListPage<RequestObject>>(`${PATH}/requests?limit=100`)).data;
  const detailOf = async (body: object, compared: string): Promise<RequestDetail> => {
    const known = new Set((await list()).map(({ id }) => id));
    await respond(body, compared);
    let added: RequestObject | undefined;
    await eventually(async () => (added = (await list()).find(({ id }) => !known.has(id))) !== undefined);
    return owner.get<RequestDetail>(`${PATH}/requests/${added!.id}`);
  };
  const first = await respond({});
  // Entries are written with a short delay.
  await new Promise((done) => setTimeout(done, 1_500));
  const edited = QUESTION.replace('capital of France? What', 'capital of Spain? What');
  const { all, missed } = await counts(turns(RULES, QUESTION), turns(RULES, edited));
  const parameters = {
    cache_comparison: 'messages_changed',
    cache_matched_tokens: all - missed,
    cache_missed_tokens: missed,
  };
  t.match(await detailOf({ input: edited }, first.id), { parameters, text: null });
  await owner.patch(PATH, { request_text: true });
  const detail = await detailOf({ input: edited }, first.id);
  t.match(detail, { parameters });
  t.match(detail.text!.difference, {
    at: all - missed,
    before: /capital of $/,
    earlier: /^France\? What/,
    current: /^Spain\? What/,
  });
  t.same((await detailOf({}, first.id)).text!.difference, null, 'the prompts do not differ');
  await owner.patch(PATH, { request_text: false });
});

t.test('a prefix that the cache does not hold is not a difference', async (t) => {
  const cold = await startScripted({ args: ['--engine-prefix-cache', 'false', '--kv-disk', 'off'] });
  t.teardown(() => cold.stop());
  const client = new OpenAI({ baseURL: `${cold.url}/v1`, apiKey: cold.key, maxRetries: 0 });
  const body = { model, input: QUESTION, reasoning: { effort: 'none' as const } };
  const first = await client.responses.create(body);
  const options = { prompt_cache_options: { comparison_response_id: first.id } };
  t.match(await client.responses.create({ ...body, ...options } as typeof body), {
    usage: { input_tokens_details: { cached_tokens: 0 } },
    prompt_cache_diagnostics: { type: 'unavailable' },
  });
  const messages = new Anthropic({ baseURL: cold.url, apiKey: cold.key, maxRetries: 0 });
  const message = { model, max_tokens: 8, messages: [{ role: 'user' as const, content: QUESTION }] };
  const { id } = await messages.messages.create(message);
  t.match(await messages.messages.create({ ...message, ...{ diagnostics: { previous_message_id: id } } }), {
    diagnostics: null,
    usage: { cache_read_input_tokens: 0 },
  });
});

t.test('all HTTP threads of a process share the prompts', async (t) => {
  const threaded = await startScripted({ args: ['--http-threads', '2', '--kv-disk', 'off'] });
  t.teardown(() => threaded.stop());
  const ask = async (compared: string | null): Promise<{ id: string; prompt_cache_diagnostics?: unknown }> => {
    const response = await fetch(`${threaded.url}/v1/responses`, {
      method: 'POST',
      headers: { authorization: `Bearer ${threaded.key}`, connection: 'close', 'content-type': 'application/json' },
      body: JSON.stringify({
        model,
        input: QUESTION,
        reasoning: { effort: 'none' },
        prompt_cache_options: { comparison_response_id: compared },
      }),
    });
    const body = (await response.json()) as { id: string };
    t.equal(response.status, 200, JSON.stringify(body).slice(0, 300));
    return body;
  };
  const { id } = await ask(null);
  for (let at = 0; at < 12; at++) t.same((await ask(id)).prompt_cache_diagnostics, { type: 'cache_hit' });
});
