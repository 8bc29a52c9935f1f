// Fuzzes request bodies given as bytes: an invalid request must be rejected with a declared error, and an accepted
// request must be serializable as JSON.
import type { ServedModel } from '../../src/generation/served-models.js';
import { decodeBase64, dataOfUrl } from '../../src/generation/images/base64.js';
import { parseJsonBody } from '../../src/http/json.js';
import { parseChat } from '../../src/protocol/chat-completions/parse.js';
import { parseCompletion } from '../../src/protocol/completions/parse.js';
import { parseMessages } from '../../src/protocol/messages/parse.js';
import { parseCreate } from '../../src/protocol/responses/parse.js';
import {
  errorMessage,
  parseMessage,
  streamIdOf,
  toCreate,
  withStreamId,
} from '../../src/protocol/responses/socket-message.js';
import { KeyRing } from '../../src/accounts/sealing/key-ring.js';
import { KeySealer } from '../../src/accounts/sealing/key-sealer.js';
import { apiError } from '../../src/shared/errors.js';
import { declared, insist, type Target } from './target.js';

const sealer = new KeySealer(new KeyRing([Buffer.alloc(32, 1)]), ['m', 'other']);
const model: ServedModel = {
  name: 'm',
  recordedAs: 'm',
  asked: 'm',
  lifecycle: { state: 'active', deprecatedAt: null, retiresAt: null, successor: null },
  sampling: { temperature: 0.7, top_p: 0.9, top_k: 0, min_p: 0, repetition_penalty: 1 },
  ensureLoaded: () => Promise.resolve(),
  ready: () => {
    throw new Error('the fuzz targets need no provider');
  },
};
const parameters = {
  type: 'object',
  properties: { at: { type: 'string', enum: ['Oslo'] } },
  required: ['at'],
  additionalProperties: false,
};
const image = `data:image/png;base64,${'A'.repeat(64)}`;

function bodies(seeds: readonly object[], parse: (body: object) => unknown): Target {
  return {
    seeds: seeds.map((seed) => JSON.stringify(seed)),
    run(input) {
      const body = declared(() => parseJsonBody(input));
      if (body !== null) {
        const taken = declared(() => parse(body));
        if (taken !== null)
          insist(
            typeof JSON.stringify(taken, (_, one: unknown) => (typeof one === 'bigint' ? String(one) : one)) ===
              'string',
            'an accepted request can be serialized',
          );
      }
      insist(Object.keys(Object.prototype).length === 0, 'no body pollutes Object.prototype');
    },
  };
}

export const chat = bodies(
  [
    {
      model: 'm',
      max_tokens: 4,
      temperature: 0.5,
      top_p: 0.9,
      top_k: 40,
      min_p: 0.1,
      seed: 7,
      n: 2,
      stop: ['a', 'b'],
      stream: true,
      stream_options: { include_usage: true },
      logit_bias: { 70: 1 },
      logprobs: true,
      top_logprobs: 2,
      metadata: { a: 'b' },
      reasoning_effort: 'low',
      chat_template_kwargs: { enable_thinking: true },
      messages: [
        { role: 'system', content: [{ type: 'text', text: 'Be brief.' }] },
        { role: 'user', content: 'hi', name: 'me' },
      ],
    },
    {
      model: 'm',
      parallel_tool_calls: false,
      tools: [{ type: 'function', function: { name: 'f', description: 'd', parameters, strict: true } }],
      tool_choice: {
        type: 'allowed_tools',
        allowed_tools: { mode: 'auto', tools: [{ type: 'function', function: { name: 'f' } }] },
      },
      messages: [
        { role: 'user', content: 'W' },
        {
          role: 'assistant',
          content: null,
          reasoning_content: 'hm',
          tool_calls: [{ id: 'a', type: 'function', function: { name: 'f', arguments: '{"at":"Oslo"}' } }],
        },
        { role: 'tool', tool_call_id: 'a', content: '14 C' },
      ],
    },
    {
      model: 'm',
      response_format: { type: 'json_schema', json_schema: { name: 'x', schema: parameters, strict: true } },
      messages: [{ role: 'user', content: [{ type: 'image_url', image_url: { url: image, detail: 'low' } }] }],
    },
  ],
  (body) => parseChat(body).content({ maxN: 8 }),
);

export const messages = bodies(
  [
    {
      model: 'm',
      max_tokens: 4_000,
      stream: true,
      temperature: 0.5,
      stop_sequences: ['z'],
      metadata: { user_id: 'u' },
      thinking: { type: 'enabled', budget_tokens: 1_024 },
      system: [{ type: 'text', text: 'Be brief.', cache_control: { type: 'ephemeral' } }],
      messages: [
        { role: 'user', content: 'hi' },
        {
          role: 'assistant',
          content: [
            { type: 'thinking', thinking: 'a', signature: 'b' },
            { type: 'text', text: 'c' },
          ],
        },
        { role: 'user', content: 'd' },
      ],
    },
    {
      model: 'm',
      max_tokens: 4,
      tools: [{ name: 'f', input_schema: parameters }],
      tool_choice: { type: 'auto', disable_parallel_tool_use: true },
      messages: [
        { role: 'user', content: 'W' },
        { role: 'assistant', content: [{ type: 'tool_use', id: 'a', name: 'f', input: { at: 'Oslo' } }] },
        {
          role: 'user',
          content: [
            { type: 'tool_result', tool_use_id: 'a', content: [{ type: 'text', text: '14' }], is_error: false },
            { type: 'image', source: { type: 'base64', media_type: 'image/png', data: 'AAAA' } },
          ],
        },
      ],
    },
    {
      model: 'm',
      max_tokens: 4,
      output_config: { format: { type: 'json_schema', schema: parameters }, effort: 'low' },
      messages: [{ role: 'user', content: 'J' }],
    },
  ],
  (body) => {
    for (const purpose of ['count', 'generate'] as const) {
      const taken = declared(() =>
        parseMessages(
          body,
          { sealer, organizationId: 'org_a', foreignThinking: purpose === 'count' ? 'drop' : 'reject' },
          purpose,
        ).content(),
      );
      if (purpose === 'generate') return taken;
    }
    return null;
  },
);

export const responses = bodies(
  [
    {
      model: 'm',
      max_output_tokens: 16,
      stream: true,
      store: true,
      instructions: 'Be brief.',
      truncation: 'auto',
      include: ['reasoning.encrypted_content'],
      reasoning: { effort: 'low', summary: 'auto' },
      text: { format: { type: 'text' }, verbosity: 'low' },
      input: [
        {
          type: 'message',
          role: 'user',
          content: [
            { type: 'input_text', text: 'hi' },
            { type: 'input_image', image_url: image },
          ],
        },
      ],
    },
    {
      model: 'm',
      parallel_tool_calls: true,
      tool_choice: { type: 'function', name: 'f' },
      tools: [
        { type: 'function', name: 'f', description: 'd', parameters, strict: true },
        { type: 'custom', name: 'g' },
      ],
      input: [
        { role: 'user', content: 'W' },
        { type: 'function_call', call_id: 'a', name: 'f', arguments: '{"at":"Oslo"}' },
        { type: 'function_call_output', call_id: 'a', output: '14' },
        { type: 'reasoning', id: 'rs_1', summary: [], encrypted_content: 'x' },
        { type: 'item_reference', id: 'msg_1' },
      ],
    },
    {
      model: 'm',
      previous_response_id: 'resp_1',
      text: { format: { type: 'json_schema', name: 'x', schema: parameters, strict: true } },
      input: 'J',
      metadata: { a: 'b' },
    },
  ],
  (body) => parseCreate(body, { organizationId: 'org_a', sealer }).content({ model, chain: [] }),
);

export const completions = bodies(
  [
    {
      model: 'm',
      prompt: ['a', 'b'],
      max_tokens: 4,
      n: 2,
      best_of: 3,
      echo: true,
      logprobs: 2,
      stop: 'z',
      suffix: null,
      stream: true,
      stream_options: { include_usage: true },
      user: 'u',
    },
    {
      model: 'm',
      prompt: [[1, 2, 3]],
      temperature: 0,
      response_format: { type: 'json_schema', json_schema: { name: 'x', schema: parameters } },
      prompt_logprobs: 1,
      logit_bias: { 5: -100 },
    },
  ],
  (body) => parseCompletion(body).content({ maxN: 8 }),
);

/** Fuzzes text frames on the Responses WebSocket. A parsed message is handled like the body of a create request. */
export const socket: Target = {
  seeds: [
    { type: 'response.create', model: 'm', input: 'hi', stream_id: 'a.b', generate: false },
    { type: 'response.create', background: false, stream: true, stream_options: {}, input: [] },
    { type: 'response.steer' },
  ].map((seed) => JSON.stringify(seed)),
  run(input) {
    const message = declared(() => parseMessage(input, false));
    if (message === null) return;
    const id = declared(() => ({ id: streamIdOf(message) }));
    const create = declared(() => toCreate(message));
    if (id === null || create === null) return;
    insist(JSON.parse(withStreamId('{"a":1}', id.id)) !== null, 'an event with a stream id is valid JSON');
    insist(JSON.parse(errorMessage(apiError('invalid_body', 'no', null), id.id)) !== null, 'an error is valid JSON');
    declared(() =>
      parseCreate(create.body, { organizationId: 'org_a', sealer }, { prewarm: !create.generate }).content({
        model,
        chain: [],
      }),
    );
  },
};

/** Images inside requests, as data URLs. */
export const data_url: Target = {
  seeds: [image, 'data:image/png;base64,AA==', 'data:;BASE64 ,AAA=', 'data:image/svg+xml,<svg/>'],
  run(input) {
    const text = Buffer.from(input).toString('utf8');
    for (const data of [declared(() => dataOfUrl(text, 'input[0]')), text]) {
      const bytes = data === null ? null : declared(() => decodeBase64(data, 1_000, 'input[0]'));
      if (bytes !== null) insist(bytes.length <= 1_000 && bytes.length > 0, 'no more bytes than allowed');
    }
  },
};
