// Validates every kind of response in the three API formats, complete and streamed, against the schemas published by
// the vendors and against our own openapi.json: each response, each event and each error.
import t, { type Test } from 'tap';
import type { z } from 'zod';
import { publishedAnswers } from '../../src/protocol/openapi/document.js';
import { mismatch, openResponsesEvents } from '../support/open-api.js';
import { startScripted } from '../support/script-model.js';
import { ask, events, get, post, type WireEvent } from '../support/wire.js';

t.setTimeout(300_000); // the machine may be busy

type Body = Record<string, unknown>;

const parameters = { type: 'object', properties: { location: { type: 'string' } }, required: ['location'] };
const tool = { name: 'get_weather', description: 'Weather of a place', parameters };
const others = ['get_time', 'save_note', 'write_file'].map((name) => ({
  name,
  description: name,
  parameters: { type: 'object' },
}));
const schema = {
  type: 'object',
  properties: {
    name: { type: 'string' },
    age: { type: 'integer' },
    tags: { type: 'array', items: { type: 'string' } },
  },
  required: ['name', 'age', 'tags'],
  additionalProperties: false,
};

/**
 * One kind of response to a conversation that is expressed in each API format. The optional fields are what this kind
 * adds to the conversation.
 */
interface Kind {
  name: string;
  says: string;
  tools?: boolean;
  json?: boolean;
  cap?: number;
  effort?: string;
  stop?: string;
  logprobs?: boolean;
}

const kinds: readonly Kind[] = [
  { name: 'text', says: 'A: hello' },
  { name: 'characters split over tokens', says: 'E: hello' },
  { name: 'reasoning', says: 'H: think' },
  { name: 'no reasoning', says: 'H: think', effort: 'none' },
  { name: 'one tool call', says: 'W: weather?', tools: true },
  { name: 'two tool calls', says: 'P: weather?', tools: true },
  { name: 'reasoning, text and a tool call', says: 'K: weather?', tools: true },
  { name: 'a tool call without arguments', says: 'O: time?', tools: true },
  { name: 'a tool call with nested arguments', says: 'D: note', tools: true },
  { name: 'an invalid tool call', says: 'M: weather?', tools: true },
  { name: 'a tool call cut at the token limit', says: 'Q: write', tools: true, cap: 40 },
  { name: 'text cut at the token limit', says: 'L: story', cap: 20 },
  { name: 'reasoning cut at the token limit', says: 'R: think', cap: 5 },
  { name: 'a stop string', says: 'S: count', stop: 'STOP' },
  { name: 'JSON that follows a schema', says: 'J: who?', json: true },
  { name: 'an empty response', says: 'Z: say nothing' },
  { name: 'log probabilities', says: 'A: hello', logprobs: true },
];

function chatBody(kind: Kind): Body {
  return {
    model: 'hal-1.0',
    messages: [
      { role: 'system', content: 'Be brief.' },
      { role: 'user', content: kind.says },
    ],
    ...(kind.tools === true ? { tools: [tool, ...others].map((one) => ({ type: 'function', function: one })) } : {}),
    ...(kind.json === true
      ? { response_format: { type: 'json_schema', json_schema: { name: 'person', schema } } }
      : {}),
    ...(kind.cap === undefined ? {} : { max_completion_tokens: kind.cap }),
    ...(kind.effort === undefined ? {} : { reasoning_effort: kind.effort }),
    ...(kind.stop === undefined ? {} : { stop: kind.stop }),
    ...(kind.logprobs === true ? { logprobs: true, top_logprobs: 2 } : {}),
    metadata: { kind: kind.name },
  };
}

function messagesBody(kind: Kind): Body {
  return {
    model: 'hal-1.0',
    max_tokens: kind.cap ?? 500,
    system: 'Be brief.',
    messages: [{ role: 'user', content: kind.says }],
    thinking: { type: kind.effort === 'none' || kind.json === true ? 'disabled' : 'adaptive' },
    ...(kind.tools === true
      ? { tools: [tool, ...others].map(({ parameters: input_schema, ...rest }) => ({ ...rest, input_schema })) }
      : {}),
    ...(kind.json === true ? { output_config: { format: { type: 'json_schema', schema } } } : {}),
    ...(kind.stop === undefined ? {} : { stop_sequences: [kind.stop] }),
  };
}

function responsesBody(kind: Kind): Body {
  return {
    model: 'hal-1.0',
    instructions: 'Be brief.',
    input: kind.says,
    metadata: { kind: kind.name },
    ...(kind.tools === true ? { tools: [tool, ...others].map((one) => ({ type: 'function', ...one })) } : {}),
    ...(kind.json === true ? { text: { format: { type: 'json_schema', name: 'person', schema } } } : {}),
    ...(kind.cap === undefined ? {} : { max_output_tokens: kind.cap }),
    ...(kind.effort === undefined ? {} : { reasoning: { effort: kind.effort } }),
    ...(kind.stop === undefined ? {} : { stop: kind.stop }),
    ...(kind.logprobs === true ? { top_logprobs: 2, include: ['message.output_text.logprobs'] } : {}),
  };
}

function published(schema: z.ZodType, value: unknown): string | null {
  const result = schema.safeParse(value);
  if (result.success) return null;
  const [issue] = result.error.issues;
  return `openapi.json: ${issue?.path.join('.')} ${issue?.message} in ${JSON.stringify(value).slice(0, 600)}`;
}

/** Checks rules for sequence numbers and items that clients rely on but that schemas cannot express. */
function checkResponseStream(
  t: Test,
  list: readonly {
    type: string;
    sequence_number: number;
    item_id?: string;
    item?: { id: string };
    response?: { id: string; output: { id: string }[] };
  }[],
): void {
  t.same(
    list.map((event) => event.sequence_number),
    list.map((_, index) => index),
    'sequence numbers have no gaps',
  );
  t.equal(list[0]?.type, 'response.created');
  t.match(list.at(-1)?.type, /^response\.(completed|incomplete|failed)$/);
  t.equal(new Set(list.flatMap((event) => event.response?.id ?? [])).size, 1, 'all events have the same response id');
  const added = list.filter((event) => event.type === 'response.output_item.added').map((event) => event.item?.id);
  t.equal(new Set(added).size, added.length);
  for (const event of list)
    if (event.item_id !== undefined) t.ok(added.includes(event.item_id), 'deltas belong to an item that was added');
  t.same(
    list.at(-1)?.response?.output.map((item) => item.id),
    added,
    'every item is in the final response',
  );
}

t.test('responses of the three API formats match their schemas', async (t) => {
  const server = await startScripted();
  t.teardown(() => server.stop());

  await t.test('chat completions match their schemas', async (t) => {
    for (const kind of kinds) {
      const whole = await ask(server, '/v1/chat/completions', chatBody(kind));
      t.equal(whole.status, 200, `${kind.name}: ${whole.text.slice(0, 300)}`);
      t.equal(mismatch('openai', 'CreateChatCompletionResponse', whole.body), null, kind.name);
      t.equal(published(publishedAnswers.ChatCompletion, whole.body), null, kind.name);
      const streamed = await events(
        await post(server, '/v1/chat/completions', {
          ...chatBody(kind),
          stream: true,
          stream_options: { include_usage: true },
        }),
      );
      t.equal(streamed.at(-1)?.data, '[DONE]', kind.name);
      for (const { data } of streamed.slice(0, -1)) {
        const piece: unknown = JSON.parse(data);
        t.equal(mismatch('openai', 'CreateChatCompletionStreamResponse', piece), null, kind.name);
        t.equal(published(publishedAnswers.ChatCompletionChunk, piece), null, kind.name);
      }
    }
  });

  await t.test('messages match their schemas', async (t) => {
    for (const kind of kinds) {
      const whole = await ask(server, '/v1/messages', messagesBody(kind));
      t.equal(whole.status, 200, `${kind.name}: ${whole.text.slice(0, 300)}`);
      t.equal(published(publishedAnswers.Message, whole.body), null, kind.name);
      const streamed = await events(await post(server, '/v1/messages', { ...messagesBody(kind), stream: true }));
      for (const { event, data } of streamed) {
        const piece = JSON.parse(data) as { type: string };
        t.equal(event, piece.type, kind.name);
        t.equal(published(publishedAnswers.MessageEvent, piece), null, kind.name);
      }
      t.equal(streamed.at(-1)?.event, 'message_stop', kind.name);
      const count = await ask(server, '/v1/messages/count_tokens', messagesBody(kind));
      t.equal(published(publishedAnswers.TokenCount, count.body), null, kind.name);
      const { usage } = whole.body as { usage: { input_tokens: number; cache_read_input_tokens: number } };
      t.equal(
        (count.body as { input_tokens: number }).input_tokens,
        usage.input_tokens + usage.cache_read_input_tokens,
        `${kind.name}: count_tokens equals the reported usage`,
      );
    }
  });

  await t.test('responses match their schemas in both event dialects', async (t) => {
    const byType = openResponsesEvents();
    for (const kind of kinds) {
      const whole = await ask(server, '/v1/responses', responsesBody(kind));
      t.equal(whole.status, 200, `${kind.name}: ${whole.text.slice(0, 300)}`);
      t.equal(mismatch('openai', 'Response', whole.body), null, kind.name);
      t.equal(mismatch('openresponses', 'ResponseResource', whole.body), null, kind.name);
      t.equal(published(publishedAnswers.Response, whole.body), null, kind.name);
      for (const dialect of ['openai', 'openresponses'] as const) {
        for (const summary of [null, 'auto']) {
          if (summary !== null && !/think|weather/.test(kind.says)) continue;
          const body = responsesBody(kind);
          const sent =
            summary === null ? body : { ...body, reasoning: { ...(body['reasoning'] as object | undefined), summary } };
          const streamed: WireEvent[] = await events(
            await post(server, '/v1/responses', { ...sent, stream: true }, { 'x-event-dialect': dialect }),
          );
          t.equal(streamed.at(-1)?.data, '[DONE]', kind.name);
          const list = streamed.slice(0, -1).map(({ event, data }) => {
            const piece = JSON.parse(data) as { type: string; sequence_number: number };
            t.equal(event, piece.type, kind.name);
            if (dialect === 'openai')
              t.equal(mismatch('openai', 'ResponseStreamEvent', piece), null, `${kind.name} ${piece.type}`);
            else
              t.equal(
                mismatch('openresponses', byType.get(piece.type) ?? 'unknown event', piece),
                null,
                `${kind.name} ${piece.type}`,
              );
            t.equal(published(publishedAnswers.ResponseEvent, piece), null, `${kind.name} ${piece.type}`);
            return piece;
          });
          checkResponseStream(t, list);
        }
      }
      const { id } = whole.body as { id: string };
      const stored = await get(server, `/v1/responses/${id}`);
      t.same(stored.body, whole.body, `${kind.name}: the stored response equals the returned one`);
      const items = await get(server, `/v1/responses/${id}/input_items`);
      t.equal(mismatch('openai', 'ResponseItemList', items.body), null, kind.name);
      t.equal(published(publishedAnswers.ResponseItemList, items.body), null, kind.name);
    }
  });

  await t.test('input_tokens, compact and delete of the Responses API match their schemas', async (t) => {
    const tokens = await ask(server, '/v1/responses/input_tokens', { model: 'hal-1.0', input: 'hello' });
    t.equal(mismatch('openai', 'TokenCountsResource', tokens.body), null);
    t.equal(published(publishedAnswers.ResponseInputTokens, tokens.body), null);
    const compact = await ask(server, '/v1/responses/compact', {
      model: 'hal-1.0',
      input: [
        { role: 'user', content: 'A: hello' },
        { role: 'assistant', content: 'Hi.' },
      ],
    });
    t.equal(mismatch('openai', 'CompactResource', compact.body), null);
    t.equal(mismatch('openresponses', 'CompactResource', compact.body), null);
    t.equal(published(publishedAnswers.Compaction, compact.body), null);
    const { body } = await ask(server, '/v1/responses', { model: 'hal-1.0', input: 'A: hello' });
    const gone = await get(server, `/v1/responses/${(body as { id: string }).id}`, {}, 'DELETE');
    t.equal(published(publishedAnswers.ResponseDeleted, gone.body), null);
  });

  await t.test('model lists match their schemas', async (t) => {
    const list = await get(server, '/v1/models');
    t.equal(mismatch('openai', 'ListModelsResponse', list.body), null);
    t.equal(published(publishedAnswers.ModelList, list.body), null);
    t.equal(published(publishedAnswers.Model, (await get(server, '/v1/models/hal-1.0')).body), null);
    const other = { 'anthropic-version': '2023-06-01' };
    t.equal(published(publishedAnswers.MessagesModelList, (await get(server, '/v1/models', other)).body), null);
    t.equal(published(publishedAnswers.MessagesModel, (await get(server, '/v1/models/hal-1.0', other)).body), null);
  });

  await t.test('errors match their schemas', async (t) => {
    const wrong: [path: string, body: unknown, status: number][] = [
      ['/v1/chat/completions', {}, 400],
      ['/v1/chat/completions', { ...chatBody(kinds[0]!), temperature: 9 }, 422],
      ['/v1/chat/completions', { ...chatBody(kinds[0]!), model: 'nobody' }, 404],
      ['/v1/chat/completions', '{', 400],
      ['/v1/messages', {}, 400],
      ['/v1/messages', { ...messagesBody(kinds[0]!), temperature: 9 }, 422],
      ['/v1/messages/nowhere', {}, 404],
      ['/v1/messages/count_tokens', { ...messagesBody(kinds[0]!), model: 'nobody' }, 404],
      ['/v1/responses', {}, 400],
      ['/v1/responses', { ...responsesBody(kinds[0]!), previous_response_id: 'resp_x' }, 404],
      ['/v1/responses', { ...responsesBody(kinds[0]!), temperature: 9 }, 422],
      ['/v1/responses/compact', { input: 'x' }, 400],
    ];
    for (const [path, body, status] of wrong) {
      const answer = await ask(server, path, body);
      t.equal(answer.status, status, `${path} ${answer.text}`);
      const shape = path.startsWith('/v1/messages') ? publishedAnswers.MessagesError : publishedAnswers.ChatError;
      t.equal(published(shape, answer.body), null, path);
      t.equal(answer.headers.get('x-request-id'), answer.headers.get('request-id'));
    }
  });

  await t.test('openapi.json is version 3.1, lists the endpoints and has no dangling references', async (t) => {
    const response = await fetch(`${server.url}/openapi.json`);
    t.equal(response.status, 200);
    const document = (await response.json()) as {
      openapi: string;
      servers: { url: string }[];
      paths: Record<string, Record<string, { responses: Record<string, unknown> }>>;
      components: { schemas: Record<string, unknown> };
    };
    t.equal(document.openapi, '3.1.0');
    t.same(document.servers, [{ url: '/' }], 'paths are relative to the address of the document');
    for (const path of [
      '/v1/chat/completions',
      '/v1/messages',
      '/v1/messages/count_tokens',
      '/v1/responses',
      '/v1/responses/{id}',
      '/v1/responses/compact',
      '/v1/models',
    ]) {
      t.ok(document.paths[path], path);
    }
    const text = JSON.stringify(document);
    for (const [, name] of text.matchAll(/"#\/components\/schemas\/(\w+)"/g))
      t.ok((name ?? '') in document.components.schemas, name ?? '');
  });
});
