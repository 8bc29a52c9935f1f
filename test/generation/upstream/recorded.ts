// Upstream output. Part of it was recorded from llama-server (our own build, with the embedded models). The rest has
// the same chunks and fields, in the same order, as the output of vLLM, Ollama and hosted models, with texts written
// for these tests.
const chunk = (choices: object[], more: object = {}): object => ({
  id: 'chatcmpl-1',
  object: 'chat.completion.chunk',
  created: 1,
  model: 'm',
  choices,
  ...more,
});
const delta = (delta: object, finish: string | null = null, more: object = {}): object =>
  chunk([{ index: 0, delta, finish_reason: finish, ...more }]);
const usage = (prompt: number, completion: number, more: object = {}): object =>
  chunk([], {
    usage: { prompt_tokens: prompt, completion_tokens: completion, total_tokens: prompt + completion, ...more },
  });

export interface Recorded {
  readonly lines: (object | string)[];
  readonly reasoning: string;
  readonly text: string;
  readonly calls: readonly [name: string, input: object][];
  readonly usage: readonly [prompt: number, completion: number, cached: number, reasoning: number];
  readonly finish: string;
}

export const recorded: Readonly<Record<string, Recorded>> = {
  'llama-server: text': {
    lines: [
      delta({ role: 'assistant', content: null }),
      delta({ content: 'Hello' }),
      delta({ content: '!' }),
      delta({ content: ' Hör' }),
      delta({}, 'length'),
      chunk([], {
        usage: {
          completion_tokens: 3,
          prompt_tokens: 9,
          total_tokens: 12,
          prompt_tokens_details: { cached_tokens: 4 },
        },
        timings: { prompt_n: 9, predicted_n: 3 },
      }),
      '[DONE]',
    ],
    reasoning: '',
    text: 'Hello! Hör',
    calls: [],
    usage: [9, 3, 4, 0],
    finish: 'length',
  },
  'llama-server: a call in several chunks': {
    lines: [
      delta({ role: 'assistant', content: null }),
      delta({
        tool_calls: [{ index: 0, id: 'VjX0', type: 'function', function: { name: 'get_weather', arguments: '{' } }],
      }),
      ...['"', 'city', '":', ' "', 'Oslo', '"}'].map((text) =>
        delta({ tool_calls: [{ index: 0, function: { arguments: text } }] }),
      ),
      delta({}, 'tool_calls'),
      usage(67, 20),
      '[DONE]',
    ],
    reasoning: '',
    text: '',
    calls: [['get_weather', { city: 'Oslo' }]],
    usage: [67, 20, 0, 0],
    finish: 'tool_calls',
  },
  'vLLM: reasoning, then two calls': {
    lines: [
      delta({ role: 'assistant', content: '' }, null, { logprobs: null }),
      delta({ reasoning: 'Two' }),
      delta({ reasoning: ' cities' }),
      delta({ content: 'Looking.' }),
      delta({ tool_calls: [{ id: 'chatcmpl-tool-a', type: 'function', index: 0, function: { name: 'get_weather' } }] }),
      delta({ tool_calls: [{ index: 0, function: { arguments: '{"city": "Oslo"' } }] }),
      delta({ tool_calls: [{ index: 0, function: { arguments: '}' } }] }),
      delta({ tool_calls: [{ id: 'chatcmpl-tool-b', type: 'function', index: 1, function: { name: 'get_weather' } }] }),
      delta({ tool_calls: [{ index: 1, function: { arguments: '{"city": "Bergen"}' } }] }),
      delta({ content: '' }, 'tool_calls', { logprobs: null, stop_reason: null }),
      usage(40, 33, { prompt_tokens_details: null, completion_tokens_details: { reasoning_tokens: 5 } }),
      '[DONE]',
    ],
    reasoning: 'Two cities',
    text: 'Looking.',
    calls: [
      ['get_weather', { city: 'Oslo' }],
      ['get_weather', { city: 'Bergen' }],
    ],
    usage: [40, 33, 0, 5],
    finish: 'tool_calls',
  },
  'Ollama: complete calls, all with index 0': {
    lines: [
      delta({ role: 'assistant', content: '', reasoning: 'Hm.' }),
      delta({
        role: 'assistant',
        content: '',
        tool_calls: [
          { id: 'call_1', index: 0, type: 'function', function: { name: 'get_weather', arguments: '{"city":"Oslo"}' } },
        ],
      }),
      delta({
        role: 'assistant',
        content: '',
        tool_calls: [{ id: 'call_2', index: 0, type: 'function', function: { name: 'now', arguments: '' } }],
      }),
      delta({ role: 'assistant', content: '' }, 'stop'),
      usage(20, 9),
      '[DONE]',
    ],
    reasoning: 'Hm.',
    text: '',
    calls: [
      ['get_weather', { city: 'Oslo' }],
      ['now', {}],
    ],
    usage: [20, 9, 0, 1],
    finish: 'tool_calls',
  },
  'SGLang: reasoning_content, usage with the last chunk, no [DONE]': {
    lines: [
      delta({ role: 'assistant', content: '' }, null, { matched_stop: null }),
      delta({ reasoning_content: 'So.' }),
      delta({ content: 'Yes' }),
      chunk([{ index: 0, delta: {}, finish_reason: 'stop', matched_stop: 151645 }], {
        usage: { prompt_tokens: 11, completion_tokens: 4, total_tokens: 15, reasoning_tokens: 2 },
      }),
    ],
    reasoning: 'So.',
    text: 'Yes',
    calls: [],
    usage: [11, 4, 0, 2],
    finish: 'stop',
  },
};
