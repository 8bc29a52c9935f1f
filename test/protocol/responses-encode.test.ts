import assert from 'node:assert/strict';
import { ResponseStream } from 'openai/lib/responses/ResponseStream';
import t from 'tap';
import { apiError } from '../../src/shared/errors.js';
import type { EndReason, GenerationEvent, TokenLogprob } from '../../src/generation/types.js';
import { ResponseMachine } from '../../src/protocol/responses/encode.js';
import { eventDialect } from '../../src/protocol/responses/encode-dialect.js';
import type { ReasoningForm } from '../../src/protocol/responses/encode-items.js';
import type { WireEvent } from '../../src/protocol/responses/encode-writer.js';
import { newResource, type ResourceEcho } from '../../src/protocol/responses/resource.js';
import { randomFrom } from '../support/random.js';
import { checkStream, textOf, type Event, type Names, type Resource } from './responses-stream.js';

type GenerationPart = Exclude<GenerationEvent, { type: 'failed' }>;

const echo: ResourceEcho = {
  background: false,
  instructions: null,
  model: 'm',
  previous_response_id: null,
  conversation: null,
  tools: [],
  tool_choice: 'auto',
  parallel_tool_calls: true,
  max_tool_calls: null,
  max_output_tokens: null,
  temperature: 1,
  top_p: 1,
  presence_penalty: 0,
  frequency_penalty: 0,
  top_logprobs: 0,
  truncation: 'disabled',
  text: { format: { type: 'text' } },
  reasoning: { effort: null, summary: null },
  store: true,
  metadata: {},
  safety_identifier: null,
  prompt_cache_key: null,
  user: null,
};
const usage = { promptTokens: 19, cachedTokens: 16, completionTokens: 3, reasoningTokens: 1 };
const plain: ReasoningForm = { summary: false, dialect: 'openresponses', seal: null };

function machine(
  options: {
    reasoning?: ReasoningForm;
    background?: boolean;
    whole?: boolean;
    toolNames?: [string, { name: string; namespace: string | null; custom: boolean }][];
  } = {},
) {
  const sent: WireEvent[] = [];
  const resource = newResource('resp_x', 1, { ...echo, background: options.background ?? false });
  const made = new ResponseMachine(resource, {
    reasoning: options.reasoning ?? plain,
    toolNames: new Map(options.toolNames ?? []),
    searchForm: { sources: false, results: false },
    take: options.whole === true ? null : (event) => sent.push(event),
  });
  return {
    made,
    sent,
    events: () =>
      sent.map(({ sequence, type, data }) => {
        const event = JSON.parse(data) as Event;
        assert.deepEqual([event.type, event.sequence_number], [type, sequence]);
        return event;
      }),
  };
}

const started: GenerationPart = { type: 'started', promptTokens: 19, cachedTokens: 16, queueMs: 0 };
const text = (
  value: string,
  section: 'content' | 'reasoning' = 'content',
  logprobs: TokenLogprob[] | null = null,
): GenerationPart => ({ type: 'text', choice: 0, section, text: value, tokens: 1, logprobs });
const call = (index: number, name: string, pieces: readonly string[], complete = true): GenerationPart[] => [
  { type: 'call_started', choice: 0, index, name, tokens: 0 },
  ...pieces.map((piece): GenerationPart => ({ type: 'call_arguments', choice: 0, index, text: piece, tokens: 1 })),
  { type: 'call_finished', choice: 0, index, complete, tokens: 0 },
];
const types = (events: readonly Event[]) => events.map(({ type }) => type.replace('response.', ''));

t.test('a message is encoded event by event', async (t) => {
  const { made, events } = machine();
  for (const event of [started, text('Fo'), text(''), text('ur "\n\u2028')]) made.event(event);
  made.end('end_of_turn', usage, 2);
  made.terminal();
  const sent = events();
  t.same(types(sent), [
    'created',
    'in_progress',
    'output_item.added',
    'content_part.added',
    'output_text.delta',
    'output_text.delta',
    'output_text.done',
    'content_part.done',
    'output_item.done',
    'completed',
  ]);
  const [id] = [sent[2]!.item!.id];
  t.match(id, /^msg_[0-9a-f]{48}$/);
  t.same(sent[2], {
    type: 'response.output_item.added',
    sequence_number: 2,
    output_index: 0,
    item: { id, type: 'message', status: 'in_progress', role: 'assistant', content: [] },
  });
  t.same(sent[4], {
    type: 'response.output_text.delta',
    sequence_number: 4,
    item_id: id,
    output_index: 0,
    content_index: 0,
    delta: 'Fo',
    logprobs: [],
  });
  const part = { type: 'output_text', text: 'Four "\n\u2028', annotations: [], logprobs: [] };
  t.same(sent[8]!.item, { id, type: 'message', status: 'completed', role: 'assistant', content: [part] });
  t.same(sent[9]!.response, {
    id: 'resp_x',
    object: 'response',
    created_at: 1,
    completed_at: 2,
    status: 'completed',
    error: null,
    incomplete_details: null,
    ...echo,
    output: [sent[8]!.item],
    service_tier: 'default',
    usage: {
      input_tokens: 19,
      input_tokens_details: { cached_tokens: 16, cache_write_tokens: 0 },
      output_tokens: 3,
      output_tokens_details: { reasoning_tokens: 1 },
      total_tokens: 22,
    },
  });
});

t.test("calls keep the client's tool names, with or without a namespace", async (t) => {
  const { made, sent, events } = machine({
    toolNames: [['crm__find', { name: 'find', namespace: 'crm', custom: false }]],
  });
  for (const event of [started, ...call(0, 'crm__find', ['{"a"', ':1}'])]) made.event(event);
  t.equal(sent.at(-1)?.type, 'response.output_item.done', 'a call is complete before the next item starts');
  for (const event of call(1, 'look', ['{}'])) made.event(event);
  made.end('tool_calls', usage, 2);
  made.terminal();
  const response = checkStream(events(), { reasoning: 'response.reasoning' });
  t.match(response.output, [
    {
      type: 'function_call',
      id: /^fc_[0-9a-f]{48}$/,
      call_id: /^call_[0-9A-Za-z]{24}$/,
      name: 'find',
      namespace: 'crm',
      arguments: '{"a":1}',
      status: 'completed',
    },
    { type: 'function_call', name: 'look', arguments: '{}' },
  ]);
  t.notOk('namespace' in response.output[1]!);
  t.match(
    events().find(({ type }) => type.endsWith('arguments.done')),
    { name: 'find', arguments: '{"a":1}' },
  );
});

t.test('reasoning is sent raw under two event names or as a summary, and is encrypted on request', async (t) => {
  const seal = (value: string) => `enc1.${value}`;
  const forms: [form: ReasoningForm, names: Names, item: object][] = [
    [plain, { reasoning: 'response.reasoning' }, { summary: [], content: [{ type: 'reasoning_text', text: 'hm so' }] }],
    [
      { ...plain, dialect: 'openai' },
      { reasoning: 'response.reasoning_text' },
      { summary: [], content: [{ type: 'reasoning_text', text: 'hm so' }] },
    ],
    [
      { summary: true, dialect: 'openai', seal },
      { reasoning: 'response.reasoning_summary_text' },
      { summary: [{ type: 'summary_text', text: 'hm so' }], encrypted_content: 'enc1.hm so' },
    ],
  ];
  for (const [reasoning, names, item] of forms) {
    const { made, events } = machine({ reasoning });
    for (const event of [started, text('hm', 'reasoning'), text(' so', 'reasoning'), text('Four')]) made.event(event);
    made.end('end_of_turn', usage, 2);
    made.terminal();
    const response = checkStream(events(), names);
    const { id, type, status, ...rest } = response.output[0]!;
    t.match(id, /^rs_[0-9a-f]{48}$/);
    t.same([type, status], ['reasoning', 'completed']);
    t.same(rest, item);
    t.same(events().find((event) => event.item !== undefined)!.item, {
      id,
      type: 'reasoning',
      status: 'in_progress',
      summary: [],
    });
  }
});

t.test('a limit truncates text, arguments and reasoning', async (t) => {
  const beginnings: GenerationPart[][] = [
    [text('Fo')],
    [text('Let me'), ...call(0, 'look', ['{"a'], false)],
    [text('hm', 'reasoning')],
  ];
  const reasons: EndReason[] = ['max_tokens', 'context_full', 'time_limit', 'malformed_call'];
  for (const events of beginnings)
    for (const reason of reasons) {
      const { made, events: sent } = machine();
      for (const event of [started, ...events]) made.event(event);
      made.end(reason, usage, 2);
      made.terminal();
      const response = checkStream(sent(), { reasoning: 'response.reasoning' });
      t.match(response, {
        status: 'incomplete',
        completed_at: null,
        incomplete_details: { reason: 'max_output_tokens' },
      });
      t.equal(response.output.at(-1)!.status, 'incomplete');
    }
});

t.test('a response without tokens still has its message, while a prewarming request has none', async (t) => {
  const empty = machine();
  empty.made.event(started);
  empty.made.end('end_of_turn', usage, 2);
  empty.made.terminal();
  t.match(checkStream(empty.events(), { reasoning: 'response.reasoning' }).output, [
    { type: 'message', content: [{ text: '' }] },
  ]);
  const prewarm = machine();
  prewarm.made.event(started);
  prewarm.made.endPrewarm(usage, 2);
  prewarm.made.terminal();
  t.same(types(prewarm.events()), ['created', 'in_progress', 'completed']);
  t.same(prewarm.made.resource.output, []);
});

t.test('a failure leaves unfinished items without an end event and keeps the generated text', async (t) => {
  const error = apiError('model_error', 'The model failed.');
  for (const withEvent of [true, false]) {
    const { made, events } = machine();
    for (const event of [started, text('Fo')]) made.event(event);
    made.settleFailure(error, usage);
    made.failure(error, withEvent);
    t.same(types(events()).slice(4), ['output_text.delta', ...(withEvent ? ['error'] : []), 'failed']);
    if (withEvent)
      t.same(events()[5], {
        type: 'error',
        sequence_number: 5,
        code: 'model_error',
        message: 'The model failed.',
        param: null,
        error: { type: 'internal_error', code: 'model_error', message: 'The model failed.', param: null },
      });
    t.match(events().at(-1)!.response, {
      status: 'failed',
      completed_at: null,
      error: { code: 'server_error', message: 'The model failed.' },
      output: [{ type: 'message', status: 'incomplete', content: [{ text: 'Fo' }] }],
      usage: { output_tokens: 3 },
    });
  }
  const shed = machine({ background: true });
  shed.made.begin();
  shed.made.settleFailure(apiError('capacity_exhausted', 'Too long in the queue.'), null);
  shed.made.failure(apiError('capacity_exhausted', 'Too long in the queue.'), true);
  t.same(types(shed.events()), ['created', 'queued', 'error', 'failed']);
  t.match(shed.events().at(-1)!.response, { error: { code: 'rate_limit_exceeded' }, usage: null });
});

t.test(
  'a background response is queued until the engine starts, and a cancelled one keeps its partial output',
  async (t) => {
    const { made, events } = machine({ background: true });
    made.begin();
    made.begin();
    t.same(
      events().map(({ type, response }) => [type, response!.status]),
      [
        ['response.created', 'queued'],
        ['response.queued', 'queued'],
      ],
    );
    for (const event of [started, text('Fo')]) made.event(event);
    t.equal(events()[2]!.response!.status, 'in_progress');
    made.cancel(usage);
    t.same(
      types(events()).slice(-3),
      ['output_text.done', 'content_part.done', 'output_item.done'],
      'no event reports the cancellation',
    );
    t.match(made.resource, {
      status: 'cancelled',
      output: [{ status: 'incomplete', content: [{ text: 'Fo' }] }],
      usage: { output_tokens: 3 },
    });
    t.throws(() => made.event(text('ur')), /after the end/);
  },
);

t.test('arguments without a call throw', async (t) => {
  const { made, sent } = machine();
  made.event(started);
  const before = sent.length;
  t.throws(() => made.event({ type: 'call_arguments', choice: 0, index: 0, text: '{', tokens: 1 }));
  t.equal(sent.length, before);
});

t.test('an impossible token has log-probability -9999, even while text is held back', async (t) => {
  const logprobs = [
    { token: 'Fo', bytes: [70, 111], logprob: -0.5, top: [{ token: 'x', bytes: [120], logprob: -Infinity }] },
  ];
  const { made, events } = machine();
  for (const event of [started, text('', 'content', logprobs), text('Fo')]) made.event(event);
  made.end('end_of_turn', usage, 2);
  made.terminal();
  const wire = [
    { token: 'Fo', logprob: -0.5, bytes: [70, 111], top_logprobs: [{ token: 'x', logprob: -9999, bytes: [120] }] },
  ];
  t.same(events()[4]!.logprobs, wire);
  t.same(checkStream(events(), { reasoning: 'response.reasoning' }).output[0]!['content'], [
    { type: 'output_text', text: 'Fo', annotations: [], logprobs: wire },
  ]);
});

t.test('for any response, the stream is valid, its deltas add up, and the complete response is the same', async (t) => {
  const { below: random, pick } = randomFrom(7);
  const pieces = (value: string): string[] => {
    const cut: string[] = [];
    for (let at = 0; at < value.length; ) {
      const size = 1 + random(5);
      cut.push(value.slice(at, at + size));
      at += size;
    }
    return cut;
  };
  const sample = 'Zoë says "hi" \\ to 🌍\u2028 and\n\tleaves. {"a": [1, 2.50]}';
  for (let round = 0; round < 300; round++) {
    const events: GenerationPart[] = [started];
    const expected: string[] = [];
    let calls = 0;
    let section = '';
    for (let n = random(6); n > 0; n--) {
      const value = sample.slice(random(20), 20 + random(sample.length - 20));
      const kind = pick(['reasoning', 'content', 'call']);
      if (kind === 'call') {
        events.push(...call(calls++, 'look', pieces(value)));
        expected.push(value);
      } else {
        events.push(...pieces(value).map((piece) => text(piece, kind as 'content' | 'reasoning')));
        if (section === kind && value !== '') expected[expected.length - 1] += value;
        else if (value !== '') expected.push(value);
      }
      if (value !== '' || kind === 'call') section = kind;
    }
    const reason: EndReason = calls > 0 ? 'tool_calls' : pick(['end_of_turn', 'stop_string', 'max_tokens'] as const);
    const summary = random(2) === 0;
    const dialect = random(2) === 0 ? ('openai' as const) : ('openresponses' as const);
    const reasoning = { summary, dialect, seal: null };
    const streamed = machine({ reasoning });
    const whole = machine({ reasoning, whole: true });
    for (const { made } of [streamed, whole]) {
      for (const event of events) made.event(event);
      made.end(reason, usage, 2);
      made.terminal();
    }
    const sent = streamed.events();
    const names: Names = {
      reasoning: summary
        ? 'response.reasoning_summary_text'
        : dialect === 'openai'
          ? 'response.reasoning_text'
          : 'response.reasoning',
    };
    const response = checkStream(sent, names);
    const texts = response.output.map(textOf);
    // A complete response has at least one message, which is empty if the model wrote no text.
    if (texts.at(-1) === '' && expected.length < texts.length) texts.pop();
    t.same(texts, expected);
    t.equal(whole.sent.length, 0);
    const withoutIds = ({ output, ...rest }: Resource) => ({
      ...rest,
      output: output.map(({ id: _id, call_id: _callId, ...item }) => item),
    });
    t.same(
      withoutIds(JSON.parse(JSON.stringify(whole.made.resource)) as Resource),
      withoutIds(response),
      'the complete and the streamed response are equal',
    );
    if (dialect === 'openai' && round % 10 === 0) {
      const lines = new Blob([sent.map((event) => `${JSON.stringify(event)}\n`).join('')]).stream();
      const final = await ResponseStream.fromReadableStream(lines).finalResponse();
      t.same(
        final.output.map((item) => textOf(item as never)),
        response.output.map(textOf),
      );
      t.same(
        final.output.map(({ id }) => id),
        response.output.map(({ id }) => id),
      );
    }
  }
});

t.test('the event names for reasoning depend on the client', async (t) => {
  const settings = { reasoning_events: 'auto' as const, openai_user_agents: ['OpenAI/', 'AsyncOpenAI/', 'codex'] };
  const dialect = (headers: Record<string, string>, change: Partial<Parameters<typeof eventDialect>[0]> = {}) =>
    eventDialect({ ...settings, ...change }, (name) => headers[name] ?? '');
  t.equal(dialect({}), 'openresponses');
  t.equal(dialect({ 'user-agent': 'openai/JS 7.5' }), 'openai');
  t.equal(dialect({ 'user-agent': 'codex_cli_rs/0.1' }), 'openai');
  t.equal(dialect({ 'user-agent': 'x OpenAI/JS' }), 'openresponses');
  t.equal(dialect({ 'user-agent': 'OpenAI/JS' }, { reasoning_events: 'openresponses' }), 'openresponses');
  t.equal(dialect({ 'x-event-dialect': 'openai' }, { reasoning_events: 'openresponses' }), 'openai');
  t.throws(() => dialect({ 'x-event-dialect': 'klingon' }), { code: 'invalid_header', param: 'x-event-dialect' });
});
