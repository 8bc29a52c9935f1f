import t from 'tap';
import { ApiError } from '../../src/errors.js';
import { parseChat } from '../../src/protocol/chat-completions/parse.js';

const limits = { maxN: 8 };
const base = { model: 'm', messages: [{ role: 'user', content: 'hi' }] };

function outcome(body: unknown): string {
  try {
    parseChat(body).content(limits);
    return 'ok';
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    return `${error.status} ${error.code} ${error.param}`;
  }
}

t.test('numeric fields: bounds pass, just outside is 422, a wrong type is 400, null is absent', async (t) => {
  const rows: [name: string, low: number, high: number, below: number, above: number][] = [
    ['temperature', 0, 2, -0.01, 2.01],
    ['top_p', 0, 1, -0.01, 1.01],
    ['top_k', -1, 1000, -2, 1001],
    ['min_p', 0, 1, -0.01, 1.01],
    ['repetition_penalty', 0.01, 2, 0, 2.01],
    ['frequency_penalty', -2, 2, -2.01, 2.01],
    ['presence_penalty', -2, 2, -2.01, 2.01],
    ['seed', -(2 ** 63), 2 ** 63, -(2 ** 64), 2 ** 64],   // 2^63 - 1 reads as 2^63
  ];
  for (const [name, low, high, below, above] of rows) {
    for (const good of [low, high, null]) t.equal(outcome({ ...base, [name]: good }), 'ok', `${name}: ${good}`);
    for (const bad of [below, above]) t.equal(outcome({ ...base, [name]: bad }), `422 value_out_of_range ${name}`, `${name}: ${bad}`);
    for (const bad of ['1', true, {}]) t.equal(outcome({ ...base, [name]: bad }), `400 invalid_type ${name}`, `${name}: ${JSON.stringify(bad)}`);
  }
  for (const name of ['max_tokens', 'max_completion_tokens']) {
    t.equal(outcome({ ...base, [name]: 10_000_000 }), 'ok', 'clamped later, not refused');
    t.equal(outcome({ ...base, [name]: 0 }), `422 value_out_of_range ${name}`);
    t.equal(outcome({ ...base, [name]: 1.5 }), `400 invalid_type ${name}`);
    t.equal(outcome({ ...base, [name]: 3.0 }), 'ok');
  }
});

t.test('one line per rule', async (t) => {
  const user = { role: 'user', content: 'hi' };
  const call = (id: string) => ({ id, type: 'function', function: { name: 'f', arguments: '{}' } });
  const calls = (...ids: string[]) => ({ role: 'assistant', content: null, tool_calls: ids.map(call) });
  const answer = (id: string) => ({ role: 'tool', tool_call_id: id, content: 'x' });
  const cases: [change: Record<string, unknown>, expected: string][] = [
    [{ model: undefined }, '400 missing_required_parameter model'],
    [{ model: 1 }, '400 invalid_type model'],
    [{ messages: undefined }, '400 missing_required_parameter messages'],
    [{ messages: [] }, '400 missing_required_parameter messages'],
    [{ messages: 'hi' }, '400 invalid_type messages'],
    [{ messages: [{ role: 'robot', content: 'x' }] }, '400 unknown_variant messages[0].role'],
    [{ messages: [{ content: 'x' }] }, '400 missing_required_parameter messages[0].role'],
    [{ messages: [{ role: 'user' }] }, '400 missing_required_parameter messages[0].content'],
    [{ messages: [{ role: 'user', content: [] }] }, '400 missing_required_parameter messages[0].content'],
    [{ messages: [{ role: 'user', content: 7 }] }, '400 invalid_type messages[0].content'],
    [{ messages: [{ role: 'user', content: '' }] }, 'ok'],
    [{ messages: [{ role: 'user', content: [{ type: 'text', text: 'a' }, { type: 'text', text: 'b' }] }] }, 'ok'],
    [{ messages: [{ role: 'user', content: [{ type: 'odd' }] }] }, '400 unknown_variant messages[0].content[0].type'],
    [{ messages: [{ role: 'user', content: [{ type: 'text', text: 5 }] }] }, '400 invalid_type messages[0].content[0].text'],
    [{ messages: [{ role: 'user', content: [{ type: 'image_url', image_url: { url: 'x' } }] }] }, '422 unsupported_content messages[0].content[0]'],
    [{ messages: [{ role: 'user', content: [{ type: 'input_audio' }] }] }, '422 unsupported_content messages[0].content[0]'],
    [{ messages: [{ role: 'function', content: 'x' }] }, '422 unsupported_parameter messages[0].role'],
    [{ messages: [user, { role: 'assistant' }] }, '400 missing_required_parameter messages[1].content'],
    [{ messages: [user, { role: 'assistant', content: null, refusal: 'no' }] }, 'ok'],
    [{ messages: [user, calls('a', 'b'), answer('b'), answer('a')] }, 'ok'],
    [{ messages: [user, calls('a', 'b'), answer('b')] }, '422 missing_tool_output messages[1].tool_calls[0]'],
    [{ messages: [user, calls('a'), user] }, '422 missing_tool_output messages[1].tool_calls[0]'],
    [{ messages: [user, calls('a'), answer('z')] }, '422 tool_call_not_found messages[2].tool_call_id'],
    [{ messages: [user, answer('z')] }, '422 tool_call_not_found messages[1].tool_call_id'],
    [{ messages: [user, calls('a', 'a')] }, '422 invalid_value messages[1].tool_calls[1].id'],
    [{ messages: [user, calls('a'), answer('a'), answer('a')] }, '422 invalid_value messages[3].tool_call_id'],
    [{ n: 8 }, 'ok'], [{ n: 9 }, '422 unsupported_value n'], [{ n: 129 }, '422 value_out_of_range n'], [{ n: 0 }, '422 value_out_of_range n'],
    [{ stop: 'x' }, 'ok'], [{ stop: Array(16).fill('x') }, 'ok'], [{ stop: Array(17).fill('x') }, '422 array_too_long stop'],
    [{ stop: [] }, '422 invalid_value stop'], [{ stop: '' }, '422 invalid_value stop'], [{ stop: 'x'.repeat(257) }, '422 string_too_long stop'], [{ stop: 5 }, '400 invalid_type stop'],
    [{ logprobs: true, top_logprobs: 20 }, 'ok'], [{ logprobs: true, top_logprobs: 21 }, '422 value_out_of_range top_logprobs'],
    [{ top_logprobs: 2 }, '422 conflicting_parameters top_logprobs'],
    [{ logit_bias: { 5: 100 } }, 'ok'], [{ logit_bias: { 5: 101 } }, '422 value_out_of_range logit_bias.5'],
    [{ logit_bias: { abc: 1 } }, '422 invalid_value logit_bias'], [{ logit_bias: { '05': 1 } }, '422 invalid_value logit_bias'], [{ logit_bias: [] }, '400 invalid_type logit_bias'],
    [{ logit_bias: Object.fromEntries(Array.from({ length: 1025 }, (_, i) => [i, 1])) }, '422 too_many_entries logit_bias'],
    [{ stream_options: { include_usage: true } }, '422 conflicting_parameters stream_options'],
    [{ stream: true, stream_options: { include_usage: true } }, 'ok'],
    [{ stream: 'yes' }, '400 invalid_type stream'],
    [{ response_format: { type: 'text' } }, 'ok'], [{ response_format: { type: 'xml' } }, '400 unknown_variant response_format.type'],
    [{ response_format: { type: 'json_object' } }, '422 unsupported_feature response_format'],
    [{ tools: [] }, 'ok'], [{ tools: [{ type: 'function' }] }, '422 unsupported_feature tools'], [{ tools: [{ type: 'custom' }] }, '422 unsupported_tool_type tools[0].type'],
    [{ tool_choice: 'auto' }, 'ok'], [{ tool_choice: 'required' }, '422 conflicting_parameters tool_choice'],
    [{ tool_choice: { type: 'odd' } }, '400 unknown_variant tool_choice.type'], [{ tool_choice: { type: 'function' } }, '400 missing_required_parameter tool_choice.function'],
    [{ tool_choice: { type: 'function', function: { name: 'x' } } }, '422 tool_not_found tool_choice'], [{ tool_choice: 'sometimes' }, '422 invalid_value tool_choice'],
    [{ reasoning_effort: 'low' }, 'ok'], [{ reasoning_effort: 'huge' }, '422 invalid_value reasoning_effort'], [{ reasoning_effort: 3 }, '400 invalid_type reasoning_effort'],
    [{ audio: {} }, '422 unsupported_feature audio'], [{ functions: [] }, '422 unsupported_parameter functions'], [{ audio: null }, 'ok'],
    [{ modalities: ['text'] }, 'ok'], [{ modalities: ['text', 'audio'] }, '422 unsupported_feature modalities'], [{ modalities: ['smell'] }, '422 invalid_value modalities[0]'], [{ modalities: [] }, '422 invalid_value modalities'],
    [{ metadata: { a: 'b' } }, 'ok'], [{ metadata: { a: 1 } }, '400 invalid_type metadata.a'],
    [{ metadata: { ['k'.repeat(65)]: 'b' } }, '422 string_too_long metadata'],
    [{ continue_final_message: true }, '422 conflicting_parameters continue_final_message'],
    [{ service_tier: 'auto' }, 'ok'], [{ service_tier: 'gold' }, '422 invalid_value service_tier'],
    [{ something_else: { deeply: ['unknown'] } }, 'ok'],
  ];
  for (const [change, expected] of cases) t.equal(outcome({ ...base, ...change }), expected, JSON.stringify(change).slice(0, 90));
  for (const body of [null, [], 'x', 5]) t.equal(outcome(body), '400 invalid_body null');
});

t.test('lists longer than any request is are refused before each entry is looked at', async (t) => {
  const began = performance.now();
  const entries = 2_000_000;
  t.equal(outcome({ ...base, messages: [{ role: 'user', content: new Array(entries).fill(1) }] }), '422 array_too_long messages[0].content');
  t.equal(outcome({ ...base, messages: [{ role: 'assistant', content: 'x', tool_calls: new Array(entries).fill(1) }] }), '422 array_too_long messages[0].tool_calls');
  t.equal(outcome({ ...base, logit_bias: Object.fromEntries(Array.from({ length: 100_000 }, (_, i) => [i, 'x'])) }), '422 too_many_entries logit_bias');
  t.ok(performance.now() - began < 3_000);
});

t.test('a shape error wins over a content error, whatever their order', async (t) => {
  t.equal(outcome({ ...base, temperature: 9, zzz: 1, stop: 5 }), '400 invalid_type stop');
});

t.test('the request comes out as asked, unknown fields are named', async (t) => {
  const chat = parseChat({
    ...base, max_tokens: 5, max_completion_tokens: 7, top_k: -1, seed: -3, logprobs: true, temperature: 0, stop: ['a'], odd: 1,
    messages: [{ role: 'developer', content: [{ type: 'text', text: 'be' }, { type: 'text', text: ' brief' }] }, ...base.messages],
  }).content(limits);
  t.same(chat.ignored, ['odd']);
  t.match(chat.request, { maxTokens: 7, topLogprobs: 0, stop: ['a'], n: 1, sampling: { topK: 0, temperature: 0, seed: -3n } });
  t.same(chat.request.messages[0], { role: 'system', content: 'be brief', name: undefined });
});
