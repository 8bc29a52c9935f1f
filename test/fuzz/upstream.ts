// Fuzzes upstream responses, given as bytes of a stream. Regardless of how the bytes are split, they must result in
// events in a valid order or in an UpstreamFault.
import { AnswerEvents } from '../../src/generation/upstream/answer-events.js';
import { parsed } from '../../src/generation/upstream/apis/api.js';
import { chatCompletions } from '../../src/generation/upstream/apis/chat-completions.js';
import { completions } from '../../src/generation/upstream/apis/completions.js';
import { messages } from '../../src/generation/upstream/apis/messages.js';
import { responses } from '../../src/generation/upstream/apis/responses.js';
import { EventLines } from '../../src/generation/upstream/event-lines.js';
import { notUnderstood, UpstreamFault } from '../../src/generation/upstream/fault.js';
import type { GenerationEvent } from '../../src/generation/types.js';
import { declared, insist, pieces, type Target } from './target.js';

const apis = [chatCompletions, messages, responses, completions];

/** Returns the joined events, without times, which differ between runs. */
function answered(api: (typeof apis)[number], cut: readonly Uint8Array[], whole: boolean): string {
  const events: GenerationEvent[] = [];
  const answer = new AnswerEvents(
    {
      n: 2,
      stop: ['zzz'],
      maxCalls: 3,
      estimatedPrompt: 10,
      cap: null,
      context: null,
      maxTextBytes: 100_000,
      logprobs: true,
      keepsContent: true,
    },
    0,
    { emit: (event) => events.push(event), onToken: () => {}, onOver: () => {}, reserve: () => {} },
  );
  const reader = api.reader(answer, () => notUnderstood('with an error'));
  const done = declared(() => {
    if (whole) {
      let body: unknown;
      try {
        body = JSON.parse(Buffer.concat(cut).toString('utf8'));
      } catch {
        return true;
      }
      for (const _ of reader.whole(body));
      return true;
    }
    const lines = new EventLines({
      maxBytes: 4_096,
      tooLong: () => notUnderstood('with a very long event'),
      longReader: () => {
        throw new Error('no event is long enough for the long-event reader');
      },
    });
    const read = (): void => {
      for (let event = lines.next(); event !== undefined; event = lines.next()) {
        const data = 'data' in event ? event.data : '';
        if (data === '[DONE]') reader.done();
        else for (const _ of reader.event(event.name, parsed(data)));
      }
    };
    for (const piece of cut) {
      lines.push(Buffer.from(piece));
      read();
    }
    lines.end();
    read();
    reader.end();
    return true;
  }, UpstreamFault);
  const open = new Set<number>();
  for (const [at, event] of events.entries()) {
    insist((event.type === 'started') === (at === 0), 'a response starts once, before all other events');
    if (!('index' in event)) continue;
    const index = event.index as number;
    insist(index >= 0 && index < 2, 'every choice was requested');
    if (event.type === 'call_started') {
      insist(!open.has(index), 'only one call is open at a time');
      open.add(index);
    } else if (event.type === 'call_arguments') {
      insist(open.has(index), 'arguments belong to an open call');
    } else if (event.type === 'call_finished') {
      insist(open.delete(index), 'a call that ends has started');
    }
  }
  return `${JSON.stringify(events, (key, value: unknown) => (/ms$|At$|id$/i.test(key) ? undefined : value))} ${done === null ? 'fault' : 'end'}`;
}

const sse = (...events: (object | string)[]): string =>
  events
    .map(
      (event) =>
        `${typeof event === 'object' && 'type' in event ? `event: ${String(event.type)}\n` : ''}data: ${typeof event === 'string' ? event : JSON.stringify(event)}\n\n`,
    )
    .join('');
const of = (api: number, seed: number, text: string): Buffer =>
  Buffer.concat([Buffer.from([api, seed]), Buffer.from(text)]);
const call = { index: 0, id: 'c', type: 'function', function: { name: 'f', arguments: '' } };

/**
 * The first byte selects the API format and, if it is above 127, a complete response instead of a stream. The second
 * byte determines how the remaining bytes are split.
 */
export const upstream: Target = {
  seeds: [
    of(
      0,
      1,
      sse(
        { choices: [{ index: 0, delta: { role: 'assistant', content: '' } }] },
        { choices: [{ index: 0, delta: { reasoning_content: 'hm' } }] },
        {
          choices: [
            {
              index: 0,
              delta: { content: 'hi' },
              logprobs: { content: [{ token: 'hi', logprob: -1, bytes: [104, 105], top_logprobs: [] }] },
            },
          ],
        },
        { choices: [{ index: 1, delta: { tool_calls: [call] } }] },
        {
          choices: [
            {
              index: 1,
              delta: { tool_calls: [{ index: 0, function: { arguments: '{}' } }] },
              finish_reason: 'tool_calls',
            },
          ],
        },
        { choices: [], usage: { prompt_tokens: 5, completion_tokens: 6, prompt_tokens_details: { cached_tokens: 1 } } },
        '[DONE]',
      ),
    ),
    of(
      1,
      2,
      sse(
        { type: 'message_start', message: { usage: { input_tokens: 20, output_tokens: 1 } } },
        { type: 'ping' },
        { type: 'content_block_start', index: 0, content_block: { type: 'thinking', thinking: '' } },
        { type: 'content_block_delta', index: 0, delta: { type: 'thinking_delta', thinking: 'A' } },
        { type: 'content_block_stop', index: 0 },
        { type: 'content_block_start', index: 1, content_block: { type: 'tool_use', id: 't', name: 'f', input: {} } },
        { type: 'content_block_delta', index: 1, delta: { type: 'input_json_delta', partial_json: '{}' } },
        { type: 'message_delta', delta: { stop_reason: 'tool_use' }, usage: { output_tokens: 25 } },
        { type: 'message_stop' },
      ),
    ),
    of(
      2,
      3,
      sse(
        { type: 'response.created', response: { id: 'r', status: 'in_progress', output: [] } },
        { type: 'response.output_item.added', output_index: 0, item: { type: 'message' } },
        { type: 'response.output_text.delta', output_index: 0, delta: 'L', logprobs: [] },
        {
          type: 'response.output_item.added',
          output_index: 1,
          item: { type: 'function_call', id: 'fc', call_id: 'c', name: 'f', arguments: '' },
        },
        { type: 'response.function_call_arguments.delta', output_index: 1, delta: '{}' },
        { type: 'response.function_call_arguments.done', output_index: 1, arguments: '{}' },
        {
          type: 'response.completed',
          response: { status: 'completed', output: [], usage: { input_tokens: 3, output_tokens: 2 } },
        },
      ),
    ),
    of(
      3,
      4,
      sse(
        {
          choices: [
            { index: 0, text: 'a', logprobs: { tokens: ['a'], token_logprobs: [-1], top_logprobs: [{ a: -1 }] } },
          ],
        },
        { choices: [{ index: 0, text: '', finish_reason: 'stop' }], usage: { prompt_tokens: 1, completion_tokens: 1 } },
        '[DONE]',
      ),
    ),
    of(
      128,
      0,
      JSON.stringify({
        choices: [{ index: 0, message: { content: 'hi', reasoning: 'hm', tool_calls: [call] }, finish_reason: 'stop' }],
        usage: { prompt_tokens: 1 },
      }),
    ),
    of(
      129,
      0,
      JSON.stringify({
        type: 'message',
        stop_reason: 'tool_use',
        usage: { input_tokens: 20 },
        content: [
          { type: 'thinking', thinking: 'A' },
          { type: 'text', text: 'L' },
          { type: 'tool_use', id: 't', name: 'f', input: {} },
        ],
      }),
    ),
    of(
      130,
      0,
      JSON.stringify({
        id: 'r',
        status: 'incomplete',
        incomplete_details: { reason: 'max_output_tokens' },
        output: [
          { type: 'reasoning', summary: [], content: [{ type: 'reasoning_text', text: 'A' }] },
          { type: 'message', content: [{ type: 'output_text', text: 'L' }] },
          { type: 'function_call', call_id: 'c', name: 'f', arguments: '{}' },
        ],
        usage: {},
      }),
    ),
    of(0, 0, sse({ error: { message: 'no', type: 'x', code: 'rate_limit' } })),
    of(1, 0, sse({ type: 'error', error: { type: 'overloaded_error', message: 'busy' } })),
    of(2, 0, sse({ type: 'response.failed', response: { error: { code: 'server_error', message: 'no' } } })),
  ],
  run(input) {
    const api = apis[(input[0] ?? 0) % 4] as (typeof apis)[number];
    const bytes = input.subarray(2),
      whole = (input[0] ?? 0) > 127;
    const once = answered(api, [bytes], whole);
    if (!whole)
      insist(
        once === answered(api, pieces(bytes, input[1] ?? 0, 40), whole),
        'any split of a stream gives the same events',
      );
  },
};
