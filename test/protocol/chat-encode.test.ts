// Tests the wire format of chat responses. Small cases must produce exactly the expected chunks. For random cases, the
// stream accumulated by the official client must equal the complete response.
import { ChatCompletionStream } from 'openai/lib/ChatCompletionStream';
import t from 'tap';
import type { GenerationEvent } from '../../src/generation/types.js';
import {
  ChatCollector,
  ChatStreamEncoder,
  type ChatEnvelope,
  type EvaluationEvent,
} from '../../src/protocol/chat-completions/encode.js';
import type { ChoiceEvent } from '../../src/protocol/chat-completions/event-order.js';
import { randomFrom, type Random } from '../support/random.js';

type Text = Extract<GenerationEvent, { type: 'text' }>;
type Finished = Extract<GenerationEvent, { type: 'finished' }>;

const usage = { promptTokens: 19, cachedTokens: 16, completionTokens: 3, reasoningTokens: 1 };
const text = (value: string, change: Partial<Text> = {}): Text => ({
  type: 'text',
  choice: 0,
  section: 'content',
  text: value,
  tokens: 1,
  logprobs: null,
  ...change,
});
const finished = (change: Partial<Finished> = {}): Finished => ({
  type: 'finished',
  choice: 0,
  reason: 'end_of_turn',
  stopString: null,
  completionTokens: 3,
  reasoningTokens: 1,
  calls: 0,
  timings: { prefillMs: 1, decodeMs: 1 },
  ...change,
});
const opened = (index: number, name: string, choice = 0): ChoiceEvent => ({
  type: 'call_started',
  choice,
  index,
  name,
  tokens: 1,
});
const piece = (index: number, value: string, choice = 0): ChoiceEvent => ({
  type: 'call_arguments',
  choice,
  index,
  text: value,
  tokens: 1,
});
const closed = (index: number, complete = true, choice = 0): ChoiceEvent => ({
  type: 'call_finished',
  choice,
  index,
  complete,
  tokens: 1,
});

function envelope(change: Partial<ChatEnvelope> = {}): ChatEnvelope {
  let calls = 0;
  return {
    id: 'chatcmpl-x',
    created: 1,
    model: 'm',
    fingerprint: 'fp_0',
    n: 1,
    wantLogprobs: false,
    reasoningFields: ['reasoning_content'],
    metadata: null,
    promptIds: null,
    promptLogprobs: null,
    newCallId: () => `call_${calls++}`,
    customTools: new Set(),
    callsFunctions: false,
    ...change,
  };
}

interface Chunk {
  id: string;
  choices: { index: number; delta: Record<string, unknown>; logprobs: unknown; finish_reason: string | null }[];
  usage?: unknown;
}
interface Whole {
  choices: { message: Record<string, unknown>; finish_reason: string; logprobs: unknown }[];
  usage: unknown;
  metadata?: unknown;
}

function streamed(
  events: readonly ChoiceEvent[],
  change: Partial<ChatEnvelope> = {},
  includeUsage = false,
): { data: string[]; chunks: Chunk[] } {
  const data: string[] = [];
  const encoder = new ChatStreamEncoder(envelope(change), { atEnd: includeUsage, soFar: null }, (one) =>
    data.push(one),
  );
  for (const event of events) encoder.event(event);
  encoder.complete(usage);
  if (data.pop() !== '[DONE]') throw new Error('the stream does not end with [DONE]');
  return { data, chunks: data.map((one) => JSON.parse(one) as Chunk) };
}

function whole(events: readonly ChoiceEvent[], change: Partial<ChatEnvelope> = {}): Whole {
  const collector = new ChatCollector(envelope(change));
  for (const event of events) collector.event(event);
  return JSON.parse(collector.body(usage).toString()) as Whole;
}

t.test('a stream contains the role, reasoning, text and finish reason, in this order', async (t) => {
  const { chunks } = streamed([text('hm', { section: 'reasoning' }), text('a"\n\u2028é'), text(''), finished()]);
  t.same(
    chunks.map((chunk) => chunk.choices[0]!.delta),
    [{ role: 'assistant', content: '' }, { reasoning_content: 'hm' }, { content: 'a"\n\u2028é' }, {}],
  );
  t.same(
    chunks.map((chunk) => chunk.choices[0]!.finish_reason),
    [null, null, null, 'stop'],
  );
  t.ok(chunks.every((chunk) => chunk.id === 'chatcmpl-x' && !('usage' in chunk)));
});

t.test('each chunk has the usage so far and its token ids', async (t) => {
  const chunksOf = (change: Partial<ChatEnvelope>, soFar: (() => typeof usage) | null): Record<string, unknown>[] => {
    const data: string[] = [];
    const encoder = new ChatStreamEncoder(envelope(change), { atEnd: false, soFar }, (one) => data.push(one));
    for (const [at, value] of ['a', 'b'].entries()) {
      encoder.evaluation({ type: 'tokens', choice: 0, ids: [100 + at, 200 + at] } satisfies EvaluationEvent);
      encoder.event(text(value));
    }
    encoder.event(finished());
    return data.map((one) => JSON.parse(one) as Record<string, unknown>);
  };
  let completionTokens = 0;
  const counted = chunksOf({}, () => ({ ...usage, completionTokens: ++completionTokens }));
  t.same(counted.map((chunk) => (chunk['usage'] as { completion_tokens: number }).completion_tokens).slice(-3), [
    completionTokens - 2,
    completionTokens - 1,
    completionTokens,
  ]);
  const told = chunksOf({ promptIds: [7, 8] }, null);
  t.same(
    told.map((chunk) => chunk['prompt_token_ids']),
    [[7, 8], undefined, undefined, undefined],
  );
  t.same(
    told.map((chunk) => (chunk['choices'] as { token_ids?: number[] }[])[0]?.token_ids),
    [undefined, [100, 200], [101, 201], []],
  );
});

t.test('with include_usage, every chunk has null usage and a last chunk without choices has the totals', async (t) => {
  const { chunks } = streamed([finished({ reason: 'max_tokens' })], {}, true);
  t.same(
    chunks.map((chunk) => chunk.choices.length),
    [1, 1, 0],
    'an empty response still has an opening chunk',
  );
  t.equal(chunks[1]!.choices[0]!.finish_reason, 'length');
  t.same(
    chunks.map((chunk) => chunk.usage),
    [
      null,
      null,
      {
        prompt_tokens: 19,
        completion_tokens: 3,
        total_tokens: 22,
        prompt_tokens_details: { cached_tokens: 16, audio_tokens: 0 },
        completion_tokens_details: {
          reasoning_tokens: 1,
          audio_tokens: 0,
          accepted_prediction_tokens: 0,
          rejected_prediction_tokens: 0,
        },
      },
    ],
  );
});

t.test('choices interleave, and each opens and ends once', async (t) => {
  const { chunks } = streamed(
    [text('b', { choice: 1 }), text('a'), text('B', { choice: 1 }), finished(), finished({ choice: 1 })],
    { n: 2 },
  );
  t.same(
    chunks.map((chunk) => chunk.choices[0]!.index),
    [1, 1, 0, 0, 1, 0, 1],
  );
});

t.test('a tool call is sent as an opening delta without arguments, then argument deltas', async (t) => {
  const events = [
    opened(0, 'weather'),
    piece(0, '{"a":'),
    piece(0, ''),
    piece(0, '1}'),
    closed(0),
    opened(1, 'now'),
    piece(1, '{}'),
    closed(1),
    finished({ reason: 'tool_calls', calls: 2 }),
  ];
  const { chunks } = streamed(events);
  const call = (value: object) => ({ tool_calls: [value] });
  t.same(
    chunks.map((chunk) => chunk.choices[0]!.delta),
    [
      { role: 'assistant', content: '' },
      call({ index: 0, id: 'call_0', type: 'function', function: { name: 'weather', arguments: '' } }),
      call({ index: 0, function: { arguments: '{"a":' } }),
      call({ index: 0, function: { arguments: '1}' } }),
      call({ index: 1, id: 'call_1', type: 'function', function: { name: 'now', arguments: '' } }),
      call({ index: 1, function: { arguments: '{}' } }),
      {},
    ],
  );
  t.equal(chunks.at(-1)!.choices[0]!.finish_reason, 'tool_calls');
  t.same(whole(events).choices[0]!.message, {
    role: 'assistant',
    content: null,
    refusal: null,
    annotations: [],
    tool_calls: [
      { id: 'call_0', type: 'function', function: { name: 'weather', arguments: '{"a":1}' } },
      { id: 'call_1', type: 'function', function: { name: 'now', arguments: '{}' } },
    ],
  });
});

t.test('each end reason is mapped to an OpenAI finish reason', async (t) => {
  const reasonOf = (change: Partial<Finished>) => whole([text('x'), finished(change)]).choices[0]!.finish_reason;
  t.equal(reasonOf({ reason: 'end_of_turn' }), 'stop');
  t.equal(reasonOf({ reason: 'stop_string' }), 'stop');
  t.equal(
    reasonOf({ reason: 'stop_string', calls: 1 }),
    'tool_calls',
    'a stop sequence after a tool call finishes with tool_calls',
  );
  t.equal(reasonOf({ reason: 'tool_calls', calls: 1 }), 'tool_calls');
  for (const reason of ['max_tokens', 'context_full', 'time_limit', 'malformed_call'] as const)
    t.equal(reasonOf({ reason, calls: 1 }), 'length', reason);
});

t.test('an impossible token has log-probability -9999, and bytes are always present', async (t) => {
  const logprobs = [
    { token: 'Fo', bytes: [70, 111], logprob: -0.5, top: [{ token: 'x', bytes: [120], logprob: -Infinity }] },
  ];
  const expected = [
    { token: 'Fo', logprob: -0.5, bytes: [70, 111], top_logprobs: [{ token: 'x', logprob: -9999, bytes: [120] }] },
  ];
  t.match(whole([text('Fo', { logprobs }), finished()], { wantLogprobs: true }), {
    choices: [{ logprobs: { content: expected, refusal: null } }],
  });
  const { chunks } = streamed([text('', { logprobs }), finished()], { wantLogprobs: true });
  t.match(
    chunks[1]!.choices[0]!.logprobs,
    { content: expected, refusal: null },
    'log-probabilities are sent even for tokens whose text is still held back',
  );
});

t.test('events in the wrong order throw, streamed or not', async (t) => {
  const sequences: Record<string, ChoiceEvent[]> = {
    'arguments before their call': [piece(0, '{}')],
    'an end before its call': [closed(0)],
    'a second call within the first': [opened(0, 'f'), opened(1, 'g')],
    'text within a call': [opened(0, 'f'), text('x')],
    'arguments of another call': [opened(0, 'f'), closed(0), opened(1, 'g'), piece(0, 'x')],
    'arguments after the call': [opened(0, 'f'), closed(0), piece(0, 'x')],
    'a call out of number': [opened(1, 'f')],
    'the same call again': [opened(0, 'f'), closed(0), opened(0, 'f')],
    'the end within a call': [opened(0, 'f'), finished()],
    'text after the end': [finished(), text('x')],
    'two ends': [finished(), finished()],
    'a choice nobody asked for': [text('x', { choice: 1 })],
    'no end': [text('x')],
  };
  for (const [name, events] of Object.entries(sequences)) {
    t.throws(() => streamed(events), Error, name);
    t.throws(() => whole(events), Error, name);
  }
});

/** Returns random events for one choice, in an order that a generation can produce. */
function randomChoice(random: Random, choice: number): ChoiceEvent[] {
  const pieces = ['a', ' b', '"', '\\', '\n', 'é', '漢', '😀', '\u2028', '{"x":', '', '</s>', '\u0000'];
  const some = (most: number): string[] => Array.from({ length: random.below(most) }, () => random.pick(pieces));
  const logprobs = random.below(4) === 0 ? [{ token: 'a', bytes: [97], logprob: -1, top: [] }] : null;
  const events: ChoiceEvent[] = some(4).map((value) => text(value, { choice, section: 'reasoning' }));
  const calls = random.below(4);
  for (let index = 0; index <= calls; index++) {
    for (const value of some(5)) events.push(text(value, { choice, logprobs }));
    if (index === calls) break;
    events.push(
      opened(index, random.pick(['f', 'get_weather']), choice),
      ...some(5).map((value) => piece(index, value, choice)),
      closed(index, true, choice),
    );
  }
  const reason = calls > 0 ? 'tool_calls' : random.pick(['end_of_turn', 'stop_string', 'max_tokens'] as const);
  return [...events, finished({ choice, reason, calls })];
}

/** Returns a random interleaving that keeps the order within each choice. */
function interleaved(random: Random, lists: ChoiceEvent[][]): ChoiceEvent[] {
  const events: ChoiceEvent[] = [];
  for (
    let open = lists.filter((list) => list.length > 0);
    open.length > 0;
    open = open.filter((list) => list.length > 0)
  ) {
    events.push(random.pick(open).shift()!);
  }
  return events;
}

interface Comparable {
  content: string;
  calls: unknown;
  finish: string;
  logprobs: unknown;
}

t.test('the stream accumulated by the openai client equals the complete response', async (t) => {
  const random = randomFrom(20_261);
  for (let round = 0; round < 200; round++) {
    const n = 1 + random.below(3);
    const reasoningFields = [[], ['reasoning_content'], ['reasoning_content', 'reasoning']][random.below(3)]!;
    const change = { n, reasoningFields, wantLogprobs: true };
    const events = interleaved(
      random,
      Array.from({ length: n }, (_, choice) => randomChoice(random, choice)),
    );
    const { data, chunks } = streamed(events, change);
    const lines = new Blob([data.join('\n')]).stream() as unknown as Parameters<
      typeof ChatCompletionStream.fromReadableStream
    >[0];
    const final = await ChatCompletionStream.fromReadableStream(lines).finalChatCompletion();
    const comparable = (
      choices: readonly { message: object; finish_reason: string; logprobs: unknown }[],
    ): Comparable[] =>
      choices.map((choice) => {
        const message = choice.message as {
          content?: string | null;
          tool_calls?: { id: string; type: string; function: { name: string; arguments: string } }[];
        };
        return {
          content: message.content ?? '',
          finish: choice.finish_reason,
          calls: (message.tool_calls ?? []).map(({ id, type, function: made }) => [
            id,
            type,
            made.name,
            made.arguments,
          ]),
          logprobs: (choice.logprobs as { content: unknown[] } | null)?.content ?? [],
        };
      });
    const expected = whole(events, change).choices;
    t.strictSame(comparable(final.choices), comparable(expected), `round ${round}`);
    // The client overwrites unknown fields instead of concatenating them, so the test concatenates the reasoning
    // itself.
    const reasoning = expected.map((_, index) =>
      chunks
        .flatMap(({ choices }) => choices)
        .filter((choice) => choice.index === index)
        .map(({ delta }) => (delta['reasoning_content'] as string | undefined) ?? '')
        .join(''),
    );
    t.strictSame(
      reasoning,
      expected.map(({ message }) => message['reasoning_content'] ?? ''),
      `reasoning of round ${round}`,
    );
  }
});
