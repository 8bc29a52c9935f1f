import t from 'tap';
import { ChatCollector, ChatStreamEncoder, type ChatEnvelope } from '../../src/protocol/chat-completions/encode.js';
import type { GenerationEvent } from '../../src/generation/types.js';

type Text = Extract<GenerationEvent, { type: 'text' }>;
type Finished = Extract<GenerationEvent, { type: 'finished' }>;

const envelope: ChatEnvelope = {
  id: 'chatcmpl-x', created: 1, model: 'm', fingerprint: 'fp_0', n: 1, wantLogprobs: false, includeReasoning: true, metadata: null,
};
const usage = { promptTokens: 19, cachedTokens: 16, completionTokens: 3, reasoningTokens: 1 };
const text = (value: string, change: Partial<Text> = {}): Text => ({ type: 'text', choice: 0, section: 'content', text: value, tokens: 1, logprobs: null, ...change });
const finished = (change: Partial<Finished> = {}): Finished => ({
  type: 'finished', choice: 0, reason: 'end_of_turn', stopString: null, completionTokens: 3, reasoningTokens: 1, calls: 0, timings: { prefillMs: 1, decodeMs: 1 }, ...change,
});

interface Chunk { id: string; choices: { index: number; delta: Record<string, unknown>; logprobs: unknown; finish_reason: string | null }[]; usage?: unknown }
const parsed = (chunks: Iterable<string>): Chunk[] => [...chunks].map((chunk) => JSON.parse(chunk) as Chunk);

t.test('a stream: role, reasoning, text, end', async (t) => {
  const encoder = new ChatStreamEncoder(envelope, false);
  const chunks = parsed([
    ...encoder.text(text('hm', { section: 'reasoning' })), ...encoder.text(text('a"\n\u2028é')), ...encoder.text(text('')), ...encoder.finished(finished()), ...encoder.usage(usage),
  ]);
  t.same(chunks.map((chunk) => chunk.choices[0]!.delta), [
    { role: 'assistant', content: '' }, { reasoning_content: 'hm' }, { content: 'a"\n\u2028é' }, {},
  ]);
  t.same(chunks.map((chunk) => chunk.choices[0]!.finish_reason), [null, null, null, 'stop']);
  t.ok(chunks.every((chunk) => chunk.id === 'chatcmpl-x' && !('usage' in chunk)));
});

t.test('include_usage: null on every chunk, then one chunk without choices', async (t) => {
  const encoder = new ChatStreamEncoder(envelope, true);
  const chunks = parsed([...encoder.finished(finished({ reason: 'max_tokens' })), ...encoder.usage(usage)]);
  t.same(chunks.map((chunk) => chunk.choices.length), [1, 1, 0], 'an empty answer still opens');
  t.equal(chunks[1]!.choices[0]!.finish_reason, 'length');
  t.same(chunks.map((chunk) => chunk.usage), [null, null, {
    prompt_tokens: 19, completion_tokens: 3, total_tokens: 22, prompt_tokens_details: { cached_tokens: 16, audio_tokens: 0 },
    completion_tokens_details: { reasoning_tokens: 1, audio_tokens: 0, accepted_prediction_tokens: 0, rejected_prediction_tokens: 0 },
  }]);
});

t.test('choices interleave, each opens and ends once', async (t) => {
  const encoder = new ChatStreamEncoder({ ...envelope, n: 2 }, false);
  const chunks = parsed([
    ...encoder.text(text('b', { choice: 1 })), ...encoder.text(text('a')), ...encoder.text(text('B', { choice: 1 })),
    ...encoder.finished(finished()), ...encoder.finished(finished({ choice: 1 })),
  ]);
  t.same(chunks.map((chunk) => chunk.choices[0]!.index), [1, 1, 0, 0, 1, 0, 1]);
});

t.test('the whole answer equals the stream joined; hidden reasoning stays hidden', async (t) => {
  const events = [text('th', { section: 'reasoning' }), text('Fo'), text('ur')];
  for (const includeReasoning of [true, false]) {
    const collector = new ChatCollector({ ...envelope, includeReasoning, metadata: { k: 'v' } });
    const encoder = new ChatStreamEncoder({ ...envelope, includeReasoning }, false);
    const chunks: string[] = [];
    for (const event of events) {
      collector.text(event);
      chunks.push(...encoder.text(event));
    }
    collector.finished(finished());
    const body = JSON.parse(JSON.stringify(collector.body(usage))) as { choices: { message: Record<string, unknown>; finish_reason: string }[]; metadata: unknown };
    const joined = (name: string) => parsed(chunks).map((chunk) => chunk.choices[0]!.delta[name] ?? '').join('');
    t.equal(body.choices[0]!.message.content, joined('content'));
    t.equal(body.choices[0]!.message.reasoning_content ?? '', joined('reasoning_content'));
    t.equal('reasoning_content' in body.choices[0]!.message, includeReasoning);
    t.same(body.metadata, { k: 'v' });
  }
});

t.test('log probabilities: impossible is -9999, bytes always there', async (t) => {
  const logprobs = [{ token: 'Fo', bytes: [70, 111], logprob: -0.5, top: [{ token: 'x', bytes: [120], logprob: -Infinity }] }];
  const collector = new ChatCollector({ ...envelope, wantLogprobs: true });
  collector.text(text('Fo', { logprobs }));
  const expected = [{ token: 'Fo', logprob: -0.5, bytes: [70, 111], top_logprobs: [{ token: 'x', logprob: -9999, bytes: [120] }] }];
  t.match(collector.body(usage), { choices: [{ logprobs: { content: expected, refusal: null } }] });
  const encoder = new ChatStreamEncoder({ ...envelope, wantLogprobs: true }, false);
  t.match(parsed(encoder.text(text('', { logprobs })))[1]!.choices[0]!.logprobs, { content: expected, refusal: null }, 'also when their text is still held back');
});
