// Tests Messages streams with the official client's own reader: for any events, the message that the client accumulates
// must equal the complete response.
import { MessageStream } from '@anthropic-ai/sdk/lib/MessageStream';
import t from 'tap';
import type { EndReason, GenerationEvent } from '../../src/generation/types.js';
import { MessageCollector, MessageStreamEncoder, type MessageEnvelope } from '../../src/protocol/messages/encode.js';
import { completePart } from '../../src/protocol/messages/partial-json.js';
import { randomFrom } from '../support/random.js';

type Event = Exclude<GenerationEvent, { type: 'started' | 'failed' }>;
type Body = {
  content: Record<string, unknown>[];
  stop_reason: string;
  stop_sequence: string | null;
  usage: Record<string, unknown>;
};

const usage = { promptTokens: 76, cachedTokens: 64, completionTokens: 31, reasoningTokens: 27 };
const envelope = (change: Partial<MessageEnvelope> = {}): MessageEnvelope => ({
  id: 'msg_x',
  model: 'm',
  visibleThinking: true,
  signature: (text) => `signed(${text})`,
  showsListings: false,
  empty: false,
  cappedByContext: false,
  leftOut: null,
  context: null,
  diagnostics: () => null,
  ...change,
});

const say = (text: string, section: 'content' | 'reasoning' = 'content'): Event => ({
  type: 'text',
  choice: 0,
  section,
  text,
  tokens: 1,
  logprobs: null,
});
const think = (text: string): Event => say(text, 'reasoning');
const call = (index: number, name: string, pieces: string[], complete = true): Event[] => [
  { type: 'call_started', choice: 0, index, name, tokens: 1 },
  ...pieces.map((text): Event => ({ type: 'call_arguments', choice: 0, index, text, tokens: 1 })),
  { type: 'call_finished', choice: 0, index, complete, tokens: 1 },
];
const end = (reason: EndReason = 'end_of_turn', stopString: string | null = null): Event => ({
  type: 'finished',
  choice: 0,
  reason,
  stopString,
  completionTokens: 31,
  reasoningTokens: 27,
  calls: 0,
  timings: { prefillMs: 1, decodeMs: 1 },
});

function streamed(
  events: readonly Event[],
  change: Partial<MessageEnvelope> = {},
): { name: string; data: Record<string, unknown> }[] {
  const sent: { name: string; data: Record<string, unknown> }[] = [];
  const encoder = new MessageStreamEncoder(envelope(change), (data, name) =>
    sent.push({ name, data: JSON.parse(data) as Record<string, unknown> }),
  );
  encoder.start(usage);
  for (const event of events) encoder.take(event);
  encoder.end(usage);
  return sent;
}

function whole(events: readonly Event[], change: Partial<MessageEnvelope> = {}): Body {
  const collector = new MessageCollector(envelope(change));
  for (const event of events) collector.take(event);
  return JSON.parse(JSON.stringify(collector.body(usage))) as Body;
}

/** Returns the message that the client's stream helper accumulates. */
async function read(sent: readonly { data: unknown }[]): Promise<Body> {
  const lines = sent.map(({ data }) => `${JSON.stringify(data)}\n`).join('');
  const message = await MessageStream.fromReadableStream(new Response(lines).body!).finalMessage();
  // this field is added by the helper
  const { parsed_output: _, ...body } = JSON.parse(JSON.stringify(message)) as Body & { parsed_output: unknown };
  return body;
}

/** Call ids are random. */
const withoutIds = (body: Body) => ({ ...body, content: body.content.map(({ id: _, ...block }) => block) });

t.test('a response with reasoning is streamed as exactly the documented events', async (t) => {
  const sent = streamed([think('2+2 '), think('= 4'), say('Fo'), say(''), say('ur "\n\u2028é'), end()]);
  t.ok(
    sent.every(({ name, data }) => data['type'] === name),
    'every event is named by its type',
  );
  const message = {
    id: 'msg_x',
    type: 'message',
    role: 'assistant',
    model: 'm',
    content: [],
    stop_reason: null,
    stop_sequence: null,
    stop_details: null,
    container: null,
    diagnostics: null,
    usage: {
      input_tokens: 12,
      cache_creation_input_tokens: 0,
      cache_read_input_tokens: 64,
      cache_creation: { ephemeral_5m_input_tokens: 0, ephemeral_1h_input_tokens: 0 },
      output_tokens: 0,
      output_tokens_details: null,
      server_tool_use: null,
      service_tier: 'standard',
      speed: 'standard',
      inference_geo: null,
    },
  };
  t.strictSame(
    sent.map(({ data }) => data),
    [
      { type: 'message_start', message },
      { type: 'ping' },
      { type: 'content_block_start', index: 0, content_block: { type: 'thinking', thinking: '', signature: '' } },
      { type: 'content_block_delta', index: 0, delta: { type: 'thinking_delta', thinking: '2+2 ' } },
      { type: 'content_block_delta', index: 0, delta: { type: 'thinking_delta', thinking: '= 4' } },
      { type: 'content_block_delta', index: 0, delta: { type: 'signature_delta', signature: 'signed(2+2 = 4)' } },
      { type: 'content_block_stop', index: 0 },
      { type: 'content_block_start', index: 1, content_block: { type: 'text', text: '' } },
      { type: 'content_block_delta', index: 1, delta: { type: 'text_delta', text: 'Fo' } },
      { type: 'content_block_delta', index: 1, delta: { type: 'text_delta', text: 'ur "\n\u2028é' } },
      { type: 'content_block_stop', index: 1 },
      {
        type: 'message_delta',
        delta: { stop_reason: 'end_turn', stop_sequence: null, stop_details: null, container: null },
        usage: {
          input_tokens: 12,
          cache_creation_input_tokens: 0,
          cache_read_input_tokens: 64,
          output_tokens: 31,
          output_tokens_details: { thinking_tokens: 27 },
          server_tool_use: null,
        },
      },
      { type: 'message_stop' },
    ],
  );
});

t.test('a complete response has exactly the documented fields', async (t) => {
  t.strictSame(whole([think('hm'), say('Four.'), end()]), {
    id: 'msg_x',
    type: 'message',
    role: 'assistant',
    model: 'm',
    content: [
      { type: 'thinking', thinking: 'hm', signature: 'signed(hm)' },
      { type: 'text', text: 'Four.' },
    ],
    stop_reason: 'end_turn',
    stop_sequence: null,
    stop_details: null,
    container: null,
    diagnostics: null,
    usage: {
      input_tokens: 12,
      cache_creation_input_tokens: 0,
      cache_read_input_tokens: 64,
      cache_creation: { ephemeral_5m_input_tokens: 0, ephemeral_1h_input_tokens: 0 },
      output_tokens: 31,
      output_tokens_details: { thinking_tokens: 27 },
      server_tool_use: null,
      service_tier: 'standard',
      speed: 'standard',
      inference_geo: null,
    },
  });
});

t.test('a call whose arguments are not an object has empty input', async (t) => {
  for (const odd of ['[1, 2]', '"text"', '7', 'null', 'no JSON', ''])
    t.same(whole([...call(0, 'f', [odd]), end('tool_calls')]).content[0]?.['input'], {}, odd);
  t.same(whole([...call(0, 'f', ['{"a": [1]}']), end('tool_calls')]).content[0]?.['input'], { a: [1] });
});

t.test('a tool call is streamed as an empty delta, then the arguments as the model wrote them', async (t) => {
  const events = [
    say('Look.'),
    ...call(0, 'get_weather', ['{"location":', ' "SF", "n": 12345678901234567890}']),
    ...call(1, 'get_time', []),
    end('tool_calls'),
  ];
  const sent = streamed(events)
    .filter(({ data }) => data['index'] === 1 || data['index'] === 2)
    .map(({ data }) => data);
  t.match(sent[0], {
    type: 'content_block_start',
    content_block: {
      type: 'tool_use',
      id: /^toolu_[0-9A-Za-z]{24}$/,
      name: 'get_weather',
      input: {},
      caller: { type: 'direct' },
    },
  });
  const pieces = sent.flatMap(({ index, delta }) =>
    delta === undefined ? [] : [[index, (delta as { partial_json: string }).partial_json]],
  );
  t.same(pieces, [
    [1, ''],
    [1, '{"location":'],
    [1, ' "SF", "n": 12345678901234567890}'],
    [2, ''],
    [2, '{}'],
  ]);
  const body = whole(events);
  t.match(body, {
    stop_reason: 'tool_use',
    content: [
      { type: 'text' },
      { type: 'tool_use', name: 'get_weather', input: { location: 'SF' } },
      { type: 'tool_use', name: 'get_time', input: {} },
    ],
  });
  t.not(body.content[1]!['id'], body.content[2]!['id']);
});

t.test('the last block is text unless it is a call', async (t) => {
  const empty = { type: 'text', text: '' };
  t.same(whole([end()]).content, [empty], 'empty output is one empty text block');
  t.match(
    whole([think('hm'), end('max_tokens')]),
    { stop_reason: 'max_tokens', content: [{ type: 'thinking', signature: 'signed(hm)' }, empty] },
    'output truncated in reasoning ends with an empty text block',
  );
  t.equal(whole([...call(0, 'f', ['{}']), end('tool_calls')]).content.length, 1);
  t.match(
    whole([...call(0, 'f', ['{"a": [1, 2, "x'], false), end('max_tokens')]),
    { stop_reason: 'max_tokens', content: [{ type: 'tool_use', input: { a: [1, 2] } }] },
    'a truncated call keeps the complete part of its arguments',
  );
  t.same(
    whole([end('max_tokens')], { empty: true }).content,
    [],
    'a request that only fills the prefix cache has no content',
  );
  t.same(
    streamed([end('max_tokens')], { empty: true }).map(({ name }) => name),
    ['message_start', 'ping', 'message_delta', 'message_stop'],
  );
});

t.test('hidden reasoning appears only in the signature', async (t) => {
  const hidden = { visibleThinking: false };
  t.same(whole([think('a'), think('b'), say('c'), end()], hidden).content[0], {
    type: 'thinking',
    thinking: '',
    signature: 'signed(ab)',
  });
  const sent = streamed([think('a'), think('b'), say('c'), end()], hidden);
  t.notMatch(JSON.stringify(sent), 'thinking_delta');
  t.equal(sent.filter(({ data }) => JSON.stringify(data).includes('signature_delta')).length, 1);
});

t.test('each end reason is mapped to an Anthropic stop reason', async (t) => {
  const reasons: [EndReason, string][] = [
    ['end_of_turn', 'end_turn'],
    ['stop_string', 'stop_sequence'],
    ['tool_calls', 'tool_use'],
    ['max_tokens', 'max_tokens'],
    ['context_full', 'model_context_window_exceeded'],
    ['time_limit', 'max_tokens'],
    ['malformed_call', 'max_tokens'],
  ];
  for (const [reason, expected] of reasons) {
    const stop = reason === 'stop_string' ? 'STOP' : null;
    t.match(whole([say('x'), end(reason, stop)]), { stop_reason: expected, stop_sequence: stop });
    t.match(streamed([say('x'), end(reason, stop)]).at(-2)!.data, {
      delta: { stop_reason: expected, stop_sequence: stop },
    });
  }
});

t.test('a full context window is reported instead of the token limit', async (t) => {
  const full = { cappedByContext: true };
  t.equal(whole([say('x'), end('max_tokens')], full).stop_reason, 'model_context_window_exceeded');
  t.match(streamed([say('x'), end('max_tokens')], full).at(-2)!.data, {
    delta: { stop_reason: 'model_context_window_exceeded' },
  });
  t.equal(whole([say('x'), end()], full).stop_reason, 'end_turn');
});

t.test('events out of order throw', async (t) => {
  const encoder = () => new MessageStreamEncoder(envelope(), () => undefined);
  t.throws(() => encoder().take(say('x')), 'an event before the start throws');
  t.throws(() => encoder().end(usage), 'an end without a finish event throws');
  const one = encoder();
  one.start(usage);
  t.throws(() => one.start(usage));
  t.throws(
    () => one.take({ type: 'call_arguments', choice: 0, index: 0, text: '{', tokens: 1 }),
    'arguments without a call throw',
  );
  one.take(say('x'));
  t.throws(
    () => one.take({ type: 'call_finished', choice: 0, index: 0, complete: true, tokens: 1 }),
    'a call end without a call throws',
  );
  one.take(end());
  t.throws(() => one.take(say('x')), 'an event after the finish throws');
});

t.test('for any events, blocks are well-formed and the client accumulates the complete response', async (t) => {
  const random = randomFrom(7);
  const { pick } = random;
  const values = [
    '{}',
    '{"a": 1}',
    '{"text": "Zoë says \\"hi\\" \\u00e9\\n}]{👋", "n": [1, 2.50, {"a": null}], "deep": {"b": {"c": ""}}}',
    '{"t": true, "list": [[], [1e3, -0.5], "x"], "last": 12}',
  ];
  const split = (text: string): string[] => {
    const pieces: string[] = [];
    for (let at = 0; at < text.length; ) {
      const length = 1 + random.below(6);
      pieces.push(text.slice(at, at + length));
      at += length;
    }
    return pieces;
  };
  for (let round = 0; round < 300; round++) {
    const events: Event[] = [];
    let calls = 0;
    for (let length = random.below(8); length > 0; length--) {
      const kind = random.below(20);
      if (kind < 7) events.push(think(pick(['hm', ' so ', '', '\n'])));
      else if (kind < 14) events.push(say(pick(['Zo', 'ë ', '', '"\\', '👋'])));
      else events.push(...call(calls++, pick(['f', 'get_weather']), split(pick(values))));
    }
    const cut = random.below(5) < 2;
    if (cut)
      events.push(
        ...call(
          calls++,
          'cut',
          split(pick(values).slice(0, random.below(60))).filter((piece) => piece !== ''),
          false,
        ),
      );
    events.push(end(cut ? 'max_tokens' : calls > 0 ? 'tool_calls' : pick(['end_of_turn', 'context_full'] as const)));
    const change = { visibleThinking: random.below(10) < 7 };

    const sent = streamed(events, change);
    let open = -1;
    let next = 0;
    for (const { name, data } of sent) {
      if (name === 'content_block_start') {
        if (open !== -1 || data['index'] !== next) t.fail(`round ${round}: a block starts at the wrong index`);
        open = next++;
      } else if (name === 'content_block_delta' || name === 'content_block_stop') {
        if (data['index'] !== open) t.fail(`round ${round}: ${name} for a block that is not open`);
        if (name === 'content_block_stop') open = -1;
      }
    }
    const body = whole(events, change);
    const last = body.content.at(-1)!;
    if (open !== -1 || !(last['type'] === 'text' || last['type'] === 'tool_use'))
      t.fail(`round ${round}: the stream ended with an unfinished or wrong block`);
    const client = await read(sent);
    if (!t.strictSame(withoutIds(client), withoutIds(body), `round ${round}`)) break;
  }
});

t.test('at every cut, the complete part of truncated arguments equals what the client parses', async (t) => {
  const texts = [
    '{"a": "b\\"c\\\\", "d": [1, 2.5, {"e": null, "f": true}, []], "g": {"h": {}, "i": -1e5}, "j": "\\u00e9👋"}',
    ' { "a" : [ [ 1 ] , "x" ] , "b" : false } ',
  ];
  for (const text of texts) {
    for (let cut = 0; cut <= text.length; cut++) {
      const part = text.slice(0, cut);
      const client = await read(streamed([...call(0, 'f', part === '' ? [] : [part], false), end('max_tokens')]));
      if (!t.strictSame(completePart(part), client.content[0]!['input'], part)) return;
    }
    t.strictSame(completePart(text), JSON.parse(text));
  }
  for (const junk of ['', 'nope', '[1]', '"x"', '{]', '{"a":}', '}{', '{"a" "b"']) t.same(completePart(junk), {}, junk);
  const long = `{"a": "${'x\\"'.repeat(500_000)}`;
  t.same(completePart(long), {});
  t.equal((completePart(`${long}"`)['a'] as string).length, 1_000_000);
});
