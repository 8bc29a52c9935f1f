// Tests the WebSocket mode of /v1/responses on a real server with a scripted model.
import { once } from 'node:events';
import OpenAI from 'openai';
import { ResponsesWS } from 'openai/resources/responses/ws';
import OpenAI7 from 'openai-7';
import { ResponsesWebSocketSession } from 'openai-7/lib/responses/responses-websocket-session';
import { ResponsesWS as ResponsesWS7 } from 'openai-7/resources/responses/ws';
import t, { type Test } from 'tap';
import { mismatch, openResponsesEvents } from '../support/open-api.js';
import { said, startScripted } from '../support/script-model.js';
import { Connection, resourceOf, textOf, type WireEvent } from '../support/web-socket.js';
import { eventually } from './monolith.js';

t.setTimeout(300_000); // the machine may be busy

const weather = {
  type: 'function',
  name: 'get_weather',
  parameters: { type: 'object', properties: { location: { type: 'string' } }, required: ['location'] },
};

t.test('WebSocket mode of /v1/responses', async (t) => {
  const server = await startScripted({
    env: {
      MONOLITH_WS_MAX_CONNECTIONS: '20',
      MONOLITH_LIMITS_CONCURRENCY: '4',
      MONOLITH_WS_MAX_MESSAGE_BYTES: '200000',
    },
  });
  t.teardown(() => server.stop());
  const api = async (
    path: string,
    init: RequestInit = {},
  ): Promise<{ status: number; body: { error?: { code: string } } & Record<string, unknown> }> => {
    const response = await fetch(`${server.url}/v1${path}`, {
      ...init,
      headers: { authorization: `Bearer ${server.key}`, 'content-type': 'application/json' },
    });
    return {
      status: response.status,
      body: (await response.json()) as { error?: { code: string } } & Record<string, unknown>,
    };
  };
  const connected = async (t: Test, headers: Record<string, string> = {}): Promise<Connection> => {
    const connection = await Connection.open(server, { headers });
    t.teardown(() => connection.socket.terminate());
    return connection;
  };

  t.test('a WebSocket sends the events of the stream, one per frame, without [DONE]', async (t) => {
    const connection = await connected(t);
    const events = await connection.turn({
      input: 'H: number?',
      reasoning: { effort: 'medium' },
      stream: true,
      stream_options: { include_obfuscation: true },
    });
    t.same(
      events.map((event) => (event as WireEvent).sequence_number),
      events.map((_, index) => index),
    );
    t.same(
      events.slice(0, 2).map(({ type }) => type),
      ['response.created', 'response.in_progress'],
    );
    t.equal(events.at(-1)?.type, 'response.completed');
    const published = openResponsesEvents();
    for (const event of events)
      t.equal(
        mismatch('openresponses', published.get(event.type) ?? `no schema for event ${event.type}`, event),
        null,
        event.type,
      );
    t.ok(
      events.some(({ type }) => type === 'response.reasoning.delta'),
      'clients other than OpenAI clients get the Open Responses event names',
    );
    t.equal(textOf(resourceOf(events)), said('H').content);
    t.equal((await api(`/responses/${resourceOf(events).id}`)).status, 200, 'the response is stored');
    connection.socket.ping();
    await once(connection.socket, 'pong'); // the pong arrives after everything sent before it
    t.equal(connection.unread, 0, 'no message follows the last event');
  });

  t.test('the user agent of the handshake selects the event dialect', async (t) => {
    const connection = await connected(t, { 'user-agent': 'codex_cli_rs/0.5' });
    const types = (await connection.turn({ input: 'H: x', reasoning: { effort: 'low' } })).map(({ type }) => type);
    t.ok(types.includes('response.reasoning_text.delta'));
    t.notOk(types.includes('response.reasoning.delta'));
  });

  t.test('an invalid message gets an error message and leaves the connection open', async (t) => {
    const connection = await connected(t);
    const cases: [object | string, number, string, string | null][] = [
      ['{"type":', 400, 'invalid_json', null],
      ['', 400, 'invalid_body', null],
      ['[1]', 400, 'invalid_body', null],
      [`${'{"a":'.repeat(600)}1${'}'.repeat(600)}`, 400, 'invalid_json', null],
      ['{"model":"hal-1.0","input":"x"}', 400, 'missing_required_parameter', 'type'],
      [{ type: 7 }, 400, 'invalid_type', 'type'],
      [{ type: 'response.append' }, 400, 'unknown_variant', 'type'],
      [{ type: 'response.steer' }, 422, 'steering_not_supported', 'type'],
      [{ input: 'x', background: true }, 422, 'unsupported_value', 'background'],
      [{ input: 'x', background: 'yes' }, 400, 'invalid_type', 'background'],
      [{ input: 'x', generate: 'no' }, 400, 'invalid_type', 'generate'],
      [{ input: 'x', stream_id: 'a b' }, 422, 'invalid_value', 'stream_id'],
      [{ input: 'x', stream_id: 7 }, 400, 'invalid_type', 'stream_id'],
      [{}, 400, 'missing_required_parameter', 'input'],
      [{ input: 7 }, 400, 'invalid_type', 'input'],
      [{ input: 'x', temperature: 3 }, 422, 'value_out_of_range', 'temperature'],
      [{ input: 'x', model: 'nobody' }, 404, 'model_not_found', 'model'],
      [{ input: 'x', previous_response_id: 'resp_none' }, 404, 'previous_response_not_found', 'previous_response_id'],
      [{ input: `A: ${'long '.repeat(10_000)}` }, 400, 'context_length_exceeded', 'input'],
    ];
    for (const [message, status, code, param] of cases) {
      const error = await connection.refused(message);
      t.match(error, { type: 'error', status, error: { code, param } }, code);
      t.type(error.error.message, 'string');
      t.notOk('headers' in error.error);
      t.notOk('sequence_number' in error);
    }
    connection.socket.send(Buffer.from('{"type":"response.create"}'));
    t.match(
      await connection.next(),
      { type: 'error', status: 400, error: { code: 'invalid_json' } },
      'a binary frame is refused',
    );
    t.equal(textOf(resourceOf(await connection.turn({ input: 'A: still there?' }))), said('A').content);
  });

  t.test('stream_id is set on every event of its response', async (t) => {
    const connection = await connected(t);
    const events = await connection.turn({ input: 'A: x', stream_id: 'lane-1.a' });
    t.ok(events.every(({ stream_id: id }) => id === 'lane-1.a'));
    t.equal((await connection.refused({ input: 'x', model: 'nobody', stream_id: 'b' })).stream_id, 'b');
    t.notOk((await connection.turn({ input: 'A: x', stream_id: null })).some((event) => 'stream_id' in event));
  });

  t.test('an unstored response can be continued on its own connection', async (t) => {
    const connection = await connected(t);
    const first = resourceOf(await connection.turn({ store: false, input: 'W: weather?', tools: [weather] }));
    t.equal((await api(`/responses/${first.id}`)).status, 404, 'the response is not stored');
    t.equal(
      (
        await api('/responses', {
          method: 'POST',
          body: JSON.stringify({ model: 'hal-1.0', input: 'x', previous_response_id: first.id }),
        })
      ).body.error?.code,
      'previous_response_not_found',
    );
    const call = first.output.find(({ type }) => type === 'function_call') as { call_id: string } | undefined;
    t.ok(call, 'the model called the tool');
    const second = resourceOf(
      await connection.turn({
        store: false,
        previous_response_id: first.id,
        input: [{ type: 'function_call_output', call_id: call?.call_id, output: 'T: 14 C' }],
        tools: [weather],
      }),
    );
    t.equal(second.previous_response_id, first.id);
    t.equal(textOf(second), said('T').content);
    t.ok(second.usage.input_tokens_details.cached_tokens > 0, 'the prefix was cached');

    t.test('a failed continuation makes the connection forget the unstored response', async (t) => {
      const failing = {
        store: false,
        previous_response_id: second.id,
        input: [{ type: 'function_call_output', call_id: 'call_9', output: 'x' }],
      };
      t.match(await connection.refused(failing), {
        status: 422,
        error: { code: 'tool_call_not_found', param: 'input[0].call_id' },
      });
      t.match(await connection.refused({ store: false, previous_response_id: second.id, input: 'go on' }), {
        status: 404,
        error: { code: 'previous_response_not_found', param: 'previous_response_id' },
      });
      t.equal(resourceOf(await connection.turn({ store: false, input: 'A: fresh' })).status, 'completed');
    });
    t.test('an unstored response cannot be continued on another connection', async (t) => {
      const next = await connected(t);
      t.match(await next.refused({ previous_response_id: first.id, input: 'x' }), {
        error: { code: 'previous_response_not_found' },
      });
    });
  });

  t.test('a connection remembers its last eight unstored responses', async (t) => {
    const connection = await connected(t);
    const ids: string[] = [];
    for (let i = 0; i < 9; i++) ids.push(resourceOf(await connection.turn({ store: false, input: `A: ${i}` })).id);
    t.match(await connection.refused({ store: false, previous_response_id: ids[0], input: 'x' }), {
      error: { code: 'previous_response_not_found' },
    });
    t.equal(
      resourceOf(await connection.turn({ store: false, previous_response_id: ids[1], input: 'A: x' })).status,
      'completed',
    );
  });

  t.test('a chain may mix stored and unstored responses', async (t) => {
    const connection = await connected(t);
    const stored = resourceOf(await connection.turn({ input: 'A: one' }));
    const unsaved = resourceOf(
      await connection.turn({
        store: false,
        previous_response_id: stored.id,
        input: [{ id: 'msg_mine', role: 'user', content: 'A: two' }],
      }),
    );
    const again = resourceOf(
      await connection.turn({ previous_response_id: unsaved.id, input: [{ role: 'user', content: 'A: three' }] }),
    );
    t.equal(again.previous_response_id, unsaved.id);
    const listed = (await api(`/responses/${again.id}/input_items?order=asc&limit=100`)).body as unknown as {
      data: { role: string; content: { text: string }[] }[];
    };
    t.same(
      listed.data.map(({ content }) => content[0]?.text),
      ['A: one', said('A').content, 'A: two', said('A').content, 'A: three'],
      'storing a response also stores the unstored items before it',
    );
    const elsewhere = await connected(t);
    t.equal(resourceOf(await elsewhere.turn({ previous_response_id: again.id, input: 'A: four' })).status, 'completed');
    t.equal(
      resourceOf(
        await connection.turn({
          store: false,
          previous_response_id: unsaved.id,
          input: [{ type: 'item_reference', id: 'msg_mine' }],
        }),
      ).status,
      'completed',
      'an unstored item can be referenced',
    );
    await api(`/responses/${stored.id}`, { method: 'DELETE' });
    t.match(
      await connection.refused({ store: false, previous_response_id: stored.id, input: 'x' }),
      { error: { code: 'previous_response_not_found' } },
      'a deleted response is not found on the connection either',
    );
    t.equal(resourceOf(await elsewhere.turn({ previous_response_id: again.id, input: 'A: five' })).status, 'completed');
  });

  t.test('a message with generate: false only fills the prefix cache', async (t) => {
    const connection = await connected(t);
    const instructions = 'Be brief. '.repeat(40);
    const events = await connection.turn({ generate: false, store: false, instructions, input: [] });
    t.same(
      events.map(({ type }) => type),
      ['response.created', 'response.in_progress', 'response.completed'],
    );
    const prepared = resourceOf(events);
    t.same(prepared.output, []);
    const next = resourceOf(
      await connection.turn({ store: false, instructions, previous_response_id: prepared.id, input: 'A: x' }),
    );
    t.equal(textOf(next), said('A').content);
    t.ok(
      next.usage.input_tokens_details.cached_tokens >= 300,
      `${next.usage.input_tokens_details.cached_tokens} prompt tokens were cached`,
    );
  });

  t.test('a connection runs one response at a time and queues sixteen messages in order', async (t) => {
    const connection = await connected(t);
    connection.send({ input: 'L: story', max_output_tokens: 400, stream_id: 'first' });
    for (let i = 0; i < 18; i++) connection.send({ input: 'A: x', store: false, stream_id: `n${i}` });
    const refused: string[] = [];
    const ended: string[] = [];
    let running: string | undefined;
    let mixed = 0;
    while (ended.length < 17 || refused.length < 2) {
      const event = await connection.next();
      if ('status' in event && event.type === 'error') {
        t.match(event, {
          status: 429,
          error: { code: 'concurrency_limit_exceeded', headers: { 'retry-after': '1', 'retry-after-ms': '1000' } },
        });
        refused.push(event.stream_id ?? '');
        continue;
      }
      if (event.type === 'response.created') running = event.stream_id;
      if (event.stream_id !== running) mixed++;
      if (event.type === 'response.completed' || event.type === 'response.incomplete')
        ended.push(event.stream_id ?? '');
    }
    t.equal(mixed, 0, 'no two responses overlap');
    t.same(refused, ['n16', 'n17']);
    t.same(ended, ['first', ...Array.from({ length: 16 }, (_, i) => `n${i}`)]);
  });

  t.test('the queued messages of a connection may have as many bytes in total as a single message', async (t) => {
    const connection = await connected(t);
    connection.send({ input: 'L: story', max_output_tokens: 200, stream_id: 'first' });
    for (const id of ['a', 'b'])
      connection.send({ input: 'A: x', store: false, stream_id: id, metadata: {}, ignored: 'x'.repeat(120_000) });
    const events = [...(await connection.rest()), ...(await connection.rest()), ...(await connection.rest())];
    t.match(
      events.filter(({ type }) => type === 'error'),
      [{ status: 429 }],
    );
    t.ok(events.some(({ type, stream_id: id }) => type === 'response.completed' && id === 'a'));
  });

  t.test('rate limits are applied when a queued message starts', async (t) => {
    const connections = await Promise.all(Array.from({ length: 5 }, () => connected(t)));
    const [first, ...others] = connections as [Connection, ...Connection[]];
    const long = { input: 'L: story', max_output_tokens: 4_000 };
    for (const one of others) one.send(long);
    for (const one of others) await one.next();
    const error = await first.refused({ input: 'A: x' });
    t.match(error, { status: 429, error: { code: 'concurrency_limit_exceeded', type: 'rate_limit_error' } });
    t.same(Object.keys(error.error.headers ?? {}).sort(), ['retry-after', 'retry-after-ms']);

    t.test('a client disconnect frees its concurrency slot', async (t) => {
      for (const one of others) one.socket.terminate();
      t.ok(await eventually(async () => (await first.turn({ input: 'A: x' })).at(-1)?.type === 'response.completed'));
      t.ok(
        await eventually(async () =>
          [...(await server.metrics())].some(
            ([name, value]) => name.startsWith('monolith_sequences_running') && value === 0,
          ),
        ),
      );
    });
  });

  t.test('a message over the size limit closes the connection with code 1009', async (t) => {
    const connection = await connected(t);
    connection.send({ input: 'x'.repeat(200_001) });
    t.equal((await connection.closed)[0], 1009);
  });

  t.test('version 6 of the openai client works over a WebSocket', async (t) => {
    const client = new OpenAI({ apiKey: server.key, baseURL: `${server.url}/v1` });
    const socket = new ResponsesWS(client);
    t.teardown(() => socket.close());
    const errors: unknown[] = [];
    socket.on('error', (error) => errors.push(error));
    const finished = new Promise<{ id: string }>((resolve) =>
      socket.on('response.completed', ({ response }) => resolve(response)),
    );
    let text = '';
    socket.on('response.output_text.delta', ({ delta }) => {
      text += delta;
    });
    socket.send({ type: 'response.create', model: 'hal-1.0', input: 'A: x', store: false });
    const { id } = await finished;
    t.match(id, /^resp_/);
    t.equal(text, said('A').content);
    socket.send({ type: 'response.create', model: 'nobody', input: 'x' });
    t.ok(await eventually(() => errors.length === 1));
    t.match(errors[0], { error: { error: { code: 'model_not_found' } } });
  });

  t.test('version 7 of the openai client works over a WebSocket with several lanes', async (t) => {
    const client = new OpenAI7({ apiKey: server.key, baseURL: `${server.url}/v1` });
    const socket = new ResponsesWS7(client);
    t.teardown(() => socket.close());
    socket.on('error', () => undefined);
    await new Promise<void>((resolve) => socket.socket.on('open', resolve));
    const session = new ResponsesWebSocketSession(socket, {
      maxLanes: 4,
      maxBufferedEvents: 10_000,
      maxBufferedBytes: 10_000_000,
    });
    const lanes = [session.lane('a'), session.lane('b'), session.lane()] as const;
    lanes[0].create({ model: 'hal-1.0', input: 'A: x', store: false });
    lanes[1].create({ model: 'hal-1.0', input: 'H: x', store: false, reasoning: { effort: 'medium' } });
    lanes[2].create({
      model: 'hal-1.0',
      input: 'W: x',
      store: false,
      tools: [{ ...weather, type: 'function', strict: false }],
    });
    const [a, b, c] = await Promise.all(lanes.map((lane) => lane.finalResponse()));
    t.equal(a?.output_text, said('A').content);
    t.match(b?.output, [{ type: 'reasoning', content: [{ text: /Six times seven/ }] }, { type: 'message' }]);
    t.match(c?.output, [{ type: 'function_call', name: 'get_weather', arguments: '{"location": "Paris"}' }]);
    lanes[0].create({ model: 'nobody', input: 'x' });
    const refused: unknown = await lanes[0].finalResponse().catch((error: unknown) => error);
    t.match(refused, { error: { status: 404, error: { code: 'model_not_found' } } });
    lanes[0].create({ model: 'hal-1.0', input: 'A: x', ...(a === undefined ? {} : { previous_response_id: a.id }) });
    t.equal((await lanes[0].finalResponse()).status, 'completed');
  });
});
