// Fuzzes the whole server: sends mutated requests in every format, with schemas, tools and images that reach the
// engine, and retrieves, streams and deletes stored responses. node scripts/fuzz/server.mjs --seconds N [--seed N]
// [--clients N] | --run FILE. Started by scripts/fuzz.mjs as the `server` target. whole-server.mjs defines what counts
// as a failure.
import { built, fuzzServer, SeenIds, wordsOf } from './whole-server.mjs';

const { chat, messages, responses, completions } = await built('fuzz', 'requests.js');
const MODEL = 'tycho-1.0';

// Paths and bodies; JSON bodies are mutated as JSON.
const schema = {
  type: 'object',
  properties: { a: { type: 'string', pattern: '^[a-f]{2,4}$' }, b: { enum: ['x', 1, null] }, c: { $ref: '#/$defs/n' } },
  required: ['a'],
  $defs: { n: { type: 'array', items: { $ref: '#/$defs/n' }, maxItems: 2 } },
  not: { required: ['z'] },
};
const more = [
  [
    '/v1/chat/completions',
    {
      model: 'm',
      max_tokens: 4,
      messages: [{ role: 'user', content: 'J' }],
      response_format: { type: 'json_schema', json_schema: { name: 'x', schema } },
    },
  ],
  [
    '/v1/chat/completions',
    {
      model: 'm',
      max_tokens: 4,
      messages: [{ role: 'user', content: 'T' }],
      tools: [{ type: 'function', function: { name: 'f', parameters: schema } }],
      tool_choice: 'required',
    },
  ],
  [
    '/v1/chat/completions',
    {
      model: 'm',
      max_tokens: 4,
      messages: [{ role: 'user', content: 'G' }],
      structured_outputs: { grammar: 'root ::= "a" b*\nb ::= [0-9]+ | "x"' },
    },
  ],
  [
    '/v1/chat/completions',
    {
      model: 'm',
      max_tokens: 4,
      messages: [{ role: 'user', content: 'R' }],
      structured_outputs: { regex: '(a|b)+\\d{2,3}' },
    },
  ],
  [
    '/v1/completions',
    {
      model: 'm',
      max_tokens: 2,
      prompt: ['a', 'b'],
      logprobs: 5,
      echo: true,
      prompt_logprobs: 2,
      stop_token_ids: [3],
      min_tokens: 1,
    },
  ],
  [
    '/v1/messages/count_tokens',
    { model: 'm', messages: [{ role: 'user', content: 'hi' }], tools: [{ name: 'f', input_schema: schema }] },
  ],
  [
    '/v1/responses/input_tokens',
    { model: 'm', input: 'hi', instructions: 'x', tools: [{ type: 'function', name: 'f', parameters: schema }] },
  ],
  [
    '/v1/responses/compact',
    {
      model: 'm',
      input: [
        { role: 'user', content: 'hi' },
        { role: 'assistant', content: 'yes' },
      ],
    },
  ],
  ['/tokenize', { model: 'm', prompt: 'hi there', add_special_tokens: true, return_token_strs: true }],
  ['/detokenize', { model: 'm', tokens: [1, 2, 300] }],
];
const stored = [
  ['GET', '/v1/responses/:response'],
  ['GET', '/v1/responses/:response?stream=true&starting_after=2'],
  ['GET', '/v1/responses/:response?include=message.output_text.logprobs&include_obfuscation=false'],
  ['GET', '/v1/responses/:response/input_items?limit=2&order=asc&after=msg_1'],
  ['POST', '/v1/responses/:response/cancel'],
  ['DELETE', '/v1/responses/:response'],
  ['GET', '/v1/models?limit=2&after_id=a&before_id=b'],
  ['GET', `/v1/models/${MODEL}`],
  ['GET', `/tokenizer_info?model=${MODEL}`],
  ['GET', '/metrics'],
  ['GET', '/readyz'],
];
const seeds = [
  ...[
    ['/v1/chat/completions', chat],
    ['/v1/messages', messages],
    ['/v1/responses', responses],
    ['/v1/completions', completions],
  ].flatMap(([path, { seeds: all }]) => all.map((body) => ['POST', path, body])),
  ...more.map(([path, body]) => ['POST', path, body]),
  ['POST', '/v1/responses', { model: 'm', max_output_tokens: 4, background: true, input: 'hi' }],
  ...stored,
];

/**
 * Makes a request use an existing model, an existing stored response and a short output, because faults are expected
 * before generation starts.
 */
function tame(body) {
  const text = body
    .toString('utf8')
    .replaceAll('"model":"m"', `"model":"${MODEL}"`)
    .replaceAll('"resp_1"', '":response"');
  return Buffer.from(
    text.replace(
      /"(max_tokens|max_completion_tokens|max_output_tokens)":(\d+)/g,
      (_, name, count) => `"${name}":${Math.min(Number(count), 4)}`,
    ),
  );
}

await fuzzServer({
  name: 'server',
  seeds,
  tame,
  words: wordsOf('protocol'),
  env: {
    MONOLITH_LIMITS_RPM: 'off',
    MONOLITH_LIMITS_TPM: 'off',
    MONOLITH_LIMITS_CONCURRENCY: 'off',
    MONOLITH_LIMITS_EVENT_LOOP_MS: 'off',
    MONOLITH_HTTP_THREADS: '2',
  },
  callersOf: (server) => {
    const seen = new SeenIds({ response: 'resp_' });
    const caller = (_, path) => ({
      headers: {
        authorization: `Bearer ${server.key}`,
        ...(path.startsWith('/v1/messages') ? { 'anthropic-version': '2023-06-01' } : {}),
      },
      ids: seen.ids,
      told: (status, text) => seen.hear(text.slice(0, 4_096)),
    });
    return { caller };
  },
});
