// Tests the cases that the Open Responses compliance suite covers, reimplemented from scratch: over JSON, event streams
// and WebSocket, with several reasoning settings. Every resource and every event is validated against the published
// schema. As in the suite, the client does not identify itself.
import sharp from 'sharp';
import t, { type Test } from 'tap';
import { mismatch, openResponsesEvents } from '../support/open-api.js';
import { startScripted } from '../support/script-model.js';
import { Connection, textOf, type Received, type Resource, type WireEvent } from '../support/web-socket.js';
import { ask, events, get, post } from '../support/wire.js';
import { startMonolith } from './monolith.js';

t.setTimeout(300_000); // the machine may be busy

const ANSWER = 'Hello there, friend.';
// The scripted model reasons before every response if the request allows it.
const server = await startScripted({
  scripts: {
    A: ['<think>', '\nA greeting', ' will do.\n', '</think>', '\n\nHello', ' there', ', friend', '.'],
    T: ['<think>', '\nThe tool', ' has said it.\n', '</think>', '\n\nIt is', ' 14', ' degrees!'],
    W: [
      '<think>',
      '\nI have to',
      ' look.\n',
      '</think>',
      '\n \n',
      '<tool_call>',
      '\n{"name": "get_',
      'weather", "arguments": {"loca',
      'tion": "San Francisco, CA"',
      '}}\n',
      '</tool_call>',
    ],
  },
});
t.teardown(() => server.stop());
// A server with default settings and the embedded models, one of which has a vision encoder.
const embedded = await startMonolith();
t.teardown(() => embedded.stop());

const model = 'hal-1.0';
const published = openResponsesEvents();
const message = (role: string, content: unknown, more: object = {}) => ({ type: 'message', role, content, ...more });
const weather = {
  type: 'function',
  name: 'get_weather',
  description: 'The current weather of a place',
  parameters: {
    type: 'object',
    properties: { location: { type: 'string', description: 'City and state' } },
    required: ['location'],
  },
};

function checkResource(t: Test, value: unknown): Resource {
  t.equal(mismatch('openresponses', 'ResponseResource', value), null);
  return value as Resource;
}

/** Validates all events and returns the resource of the terminal event. */
function checkEvents(t: Test, list: readonly Received[]): Resource {
  const last = list.at(-1);
  t.equal(last?.type, 'response.completed', JSON.stringify(last).slice(0, 300));
  for (const event of list)
    t.equal(mismatch('openresponses', published.get(event.type) ?? `no event ${event.type}`, event), null, event.type);
  return checkResource(t, (last as WireEvent)['response']);
}

async function connect(t: Test): Promise<Connection> {
  const connection = await Connection.open(server);
  t.teardown(() => connection.socket.terminate());
  return connection;
}

for (const [name, settings] of [
  ['with the default reasoning effort', {}],
  ['with high reasoning effort', { reasoning: { effort: 'high' } }],
  ['with high reasoning effort and a summary', { reasoning: { effort: 'high', summary: 'auto' } }],
] as const) {
  t.test(name, async (t) => {
    const create = async (t: Test, body: object): Promise<Resource> => {
      const { status, body: answer, text } = await ask(server, '/v1/responses', { model, ...settings, ...body });
      t.equal(status, 200, text.slice(0, 300));
      return checkResource(t, answer);
    };
    const answered = (t: Test, resource: Resource): void => {
      t.equal(resource.status, 'completed');
      t.same(
        resource.output.map(({ type }) => type),
        ['reasoning', 'message'],
      );
      t.equal(textOf(resource), ANSWER);
    };
    const turn = async (t: Test, connection: Connection, body: object): Promise<Resource> =>
      checkEvents(t, await connection.turn({ model, ...settings, ...body }));

    t.test('1: responds to a message', async (t) =>
      answered(t, await create(t, { input: [message('user', 'Say hello in exactly three words.')] })),
    );

    t.test('2: accepts assistant messages with a phase in the history', async (t) => {
      const input = [
        message('user', 'Greet me.'),
        message('assistant', 'Looking for a greeting.', { phase: 'commentary' }),
        message('assistant', [{ type: 'output_text', text: 'Hello.' }], { phase: 'final_answer' }),
        message('user', 'Once more.'),
      ];
      const resource = await create(t, { input });
      answered(t, resource);
      const { body } = await get(server, `/v1/responses/${resource.id}/input_items?order=asc`);
      t.match(
        body,
        { data: [{}, { phase: 'commentary' }, { phase: 'final_answer' }, {}] },
        'the listed input items include their phase',
      );
    });

    t.test('3: an output message with a phase matches the schema', async (t) => {
      const resource = await create(t, { input: 'Hello.' });
      const output = resource.output.map((item) =>
        item.type === 'message' ? { ...item, phase: 'final_answer' } : item,
      );
      checkResource(t, { ...resource, output });
    });

    t.test('4: streams valid events that end with [DONE]', async (t) => {
      const all = await events(
        await post(server, '/v1/responses', {
          model,
          ...settings,
          input: [message('user', 'Count to five.')],
          stream: true,
        }),
      );
      t.equal(all.at(-1)?.data, '[DONE]');
      const list = all.slice(0, -1).map(({ event, data }) => {
        const value = JSON.parse(data) as WireEvent;
        t.equal(value.type, event);
        return value;
      });
      answered(t, checkEvents(t, list));
      t.ok(
        list.some(
          ({ type }) =>
            type ===
            ('reasoning' in settings && 'summary' in settings.reasoning
              ? 'response.reasoning_summary_text.delta'
              : 'response.reasoning.delta'),
        ),
      );
    });

    t.test('5 and 6: serves consecutive turns on a WebSocket', async (t) => {
      const connection = await connect(t);
      for (const input of ['Say hello.', 'Say it again.'])
        answered(t, await turn(t, connection, { input: [message('user', input)] }));
      t.equal(connection.unread, 0);
    });

    t.test('7: continues an unstored response on the same socket', async (t) => {
      const connection = await connect(t);
      const first = await turn(t, connection, { store: false, input: [message('user', 'Remember the word harbor.')] });
      const second = await turn(t, connection, {
        store: false,
        previous_response_id: first.id,
        input: [message('user', 'Which word?')],
      });
      answered(t, second);
      t.equal(second.previous_response_id, first.id);
    });

    t.test('8: an unstored response is gone when its connection closes, and a new turn succeeds', async (t) => {
      const before = await connect(t);
      const first = await turn(t, before, { store: false, input: 'Remember the word harbor.' });
      await before.close();
      const after = await connect(t);
      t.match(
        await after.refused({ model, ...settings, store: false, previous_response_id: first.id, input: 'Which word?' }),
        { status: 404, error: { code: 'previous_response_not_found', param: 'previous_response_id' } },
      );
      answered(t, await turn(t, after, { store: false, input: 'Remember the word harbor. Which word?' }));
    });

    t.test('9: rejects an unknown previous_response_id', async (t) => {
      const connection = await connect(t);
      t.match(
        await connection.refused({
          model,
          ...settings,
          store: false,
          previous_response_id: 'resp_missing',
          input: 'Hello.',
        }),
        { type: 'error', error: { code: 'previous_response_not_found' } },
      );
    });

    t.test('10: after a failed continuation, the previous response is gone', async (t) => {
      const connection = await connect(t);
      const first = await turn(t, connection, { store: false, input: 'Hello.' });
      const output = { type: 'function_call_output', call_id: 'call_nobody_made', output: 'x' };
      t.match(
        await connection.refused({ model, ...settings, store: false, previous_response_id: first.id, input: [output] }),
        { status: 422, error: { code: 'tool_call_not_found' } },
      );
      t.match(
        await connection.refused({ model, ...settings, store: false, previous_response_id: first.id, input: 'Hello?' }),
        { status: 404, error: { code: 'previous_response_not_found' } },
      );
    });

    const compact = async (t: Test): Promise<object[]> => {
      const { status, body } = await ask(server, '/v1/responses/compact', {
        model,
        input: [
          message('user', 'We agreed to launch on Tuesday.'),
          message('assistant', 'Noted: Tuesday.'),
          message('user', 'And to tell everyone.'),
        ],
      });
      t.equal(status, 200);
      t.equal(mismatch('openresponses', 'CompactResource', body), null);
      const { output } = body as { output: { type: string; encrypted_content?: string }[] };
      t.same(
        output.map(({ type }) => type),
        ['message', 'message', 'compaction'],
      );
      return output;
    };

    t.test('11: a compacted conversation starts a new chain on the socket', async (t) => {
      const connection = await connect(t);
      const resource = await turn(t, connection, {
        store: false,
        input: [...(await compact(t)), message('user', 'When do we launch?')],
      });
      answered(t, resource);
      t.equal(resource.previous_response_id, null);
    });

    t.test('12: accepts a system message', async (t) =>
      answered(t, await create(t, { input: [message('system', 'You are a pirate.'), message('user', 'Say hello.')] })),
    );

    t.test('13: calls a tool without being forced to', async (t) => {
      const input = [message('user', "W: What's the weather like in San Francisco?")];
      const resource = await create(t, { input, tools: [weather], tool_choice: 'auto' });
      const call = resource.output.at(-1) as { type: string; name?: string; call_id?: string; arguments?: string };
      t.match(call, { type: 'function_call', name: 'get_weather', status: 'completed', call_id: /^call_/ });
      t.same(JSON.parse(call.arguments ?? ''), { location: 'San Francisco, CA' });
      const next = await create(t, {
        input: [...input, ...resource.output, { type: 'function_call_output', call_id: call.call_id, output: '14 C' }],
        tools: [weather],
      });
      t.equal(textOf(next), 'It is 14 degrees!');
    });

    t.test('13, streamed: the events of a call report its arguments', async (t) => {
      const input = [message('user', "W: What's the weather like in San Francisco?")];
      const body = { model, ...settings, input, tools: [weather], stream: true };
      const list = (await events(await post(server, '/v1/responses', body)))
        .slice(0, -1)
        .map(({ data }) => JSON.parse(data) as WireEvent);
      const resource = checkEvents(t, list);
      t.equal(resource.output.at(-1)?.type, 'function_call');
      const ofItem = list.filter(({ output_index: index }) => index === resource.output.length - 1);
      t.match(ofItem.at(0), {
        type: 'response.output_item.added',
        item: { type: 'function_call', name: 'get_weather' },
      });
      t.match(ofItem.at(-1), {
        type: 'response.output_item.done',
        item: { type: 'function_call', status: 'completed' },
      });
      const deltas = ofItem.filter(({ type }) => type === 'response.function_call_arguments.delta');
      const done = ofItem.find(({ type }) => type === 'response.function_call_arguments.done');
      t.ok(deltas.length > 0);
      t.equal(deltas.map(({ delta }) => delta).join(''), done?.['arguments']);
    });

    t.test('13, forced: the result of a call continues the stored response', async (t) => {
      const resource = await create(t, {
        input: 'W: Use the weather tool to get the temperature in San Francisco.',
        tools: [weather],
        tool_choice: { type: 'function', name: 'get_weather' },
      });
      const call = resource.output.find(({ type }) => type === 'function_call') as { call_id?: string } | undefined;
      t.match(call?.call_id, /^call_/);
      const output = { type: 'function_call_output', call_id: call?.call_id, output: '14 C' };
      const next = await create(t, { previous_response_id: resource.id, input: [output] });
      t.equal(next.status, 'completed');
      t.equal(textOf(next), 'It is 14 degrees!');
    });

    t.test('15, stored: continues a response by its ID over HTTP', async (t) => {
      const first = await create(t, { input: 'Remember the word harbor.' });
      const second = await create(t, { previous_response_id: first.id, input: 'Which word?' });
      answered(t, second);
      t.equal(second.previous_response_id, first.id);
    });

    t.test('14: accepts an image', async (t) => {
      const png = await sharp(
        Buffer.from(
          '<svg width="96" height="96"><rect width="96" height="96" fill="white"/><circle cx="48" cy="48" r="28" fill="#dc2828"/></svg>',
        ),
      )
        .png()
        .toBuffer();
      const content = [
        { type: 'input_text', text: 'What is in this image? One sentence.' },
        { type: 'input_image', image_url: `data:image/png;base64,${png.toString('base64')}` },
      ];
      const { status, body, text } = await ask(embedded, '/v1/responses', {
        model,
        input: [message('user', content)],
        temperature: 0,
        ...settings,
      });
      t.equal(status, 200, text.slice(0, 300));
      const resource = checkResource(t, body);
      t.equal(resource.status, 'completed');
      if (!('reasoning' in settings))
        t.match(
          textOf(resource),
          /red circle/,
          'the model recognizes the image, although it was not trained to reason about images',
        );
    });

    t.test('15: accepts a conversation of several turns', async (t) => {
      answered(
        t,
        await create(t, {
          input: [
            message('user', 'My name is Alice.'),
            message('assistant', 'Hello Alice!'),
            message('user', 'What is my name?'),
          ],
        }),
      );
    });

    t.test('16: compacts a conversation', async (t) => {
      const output = await compact(t);
      t.match(output.at(-1), { id: /^cmp_/, encrypted_content: /./ });
      t.match(output[0], {
        id: /^msg_/,
        status: 'completed',
        role: 'user',
        content: [{ type: 'input_text', text: 'We agreed to launch on Tuesday.' }],
      });
    });

    t.test('17: rejects compaction without a model', async (t) => {
      t.match(await ask(server, '/v1/responses/compact', { input: 'Hello.' }), {
        status: 400,
        body: { error: { code: 'missing_required_parameter', param: 'model' } },
      });
    });
  });
}
