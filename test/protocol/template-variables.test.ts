import t from 'tap';
import { parseChat } from '../../src/protocol/chat-completions/parse.js';
import { templateSettings } from '../../src/protocol/template-variables.js';
import { ApiError } from '../../src/shared/errors.js';

const base = { model: 'm', messages: [{ role: 'user', content: 'hi' }] };

function outcome(change: object): unknown {
  try {
    const {
      effort,
      reasoningBudget,
      templateVariables = {},
    } = parseChat({ ...base, ...change }).content({
      maxN: 1,
    }).request;
    return [effort, reasoningBudget, templateVariables];
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    return `${error.status} ${error.code} ${error.param}`;
  }
}

t.test('chat parameters and template variables about reasoning agree or are refused', async (t) => {
  const kwargs = (variables: object): object => ({ chat_template_kwargs: variables });
  const rows: [change: object, expected: unknown][] = [
    [{}, [null, null, {}]],
    [{ reasoning_effort: 'low' }, ['low', null, {}]],
    [kwargs({ reasoning_effort: 'low' }), ['low', null, { reasoning_effort: 'low' }]],
    [kwargs({ reasoning_effort: 'ultra' }), [null, null, { reasoning_effort: 'ultra' }]],
    [kwargs({ reasoning_effort: 'no_think' }), ['none', null, { reasoning_effort: 'no_think' }]],
    [{ reasoning_effort: 'low', ...kwargs({ reasoning_effort: 'low' }) }, ['low', null, { reasoning_effort: 'low' }]],
    [
      { reasoning_effort: 'low', ...kwargs({ reasoning_effort: 'high' }) },
      '422 conflicting_parameters chat_template_kwargs.reasoning_effort',
    ],
    [kwargs({ enable_thinking: true }), ['enabled', null, {}]],
    [kwargs({ enable_thinking: false }), ['none', null, {}]],
    [kwargs({ enable_thinking: null }), [null, null, {}]],
    [kwargs({ thinking: true }), ['enabled', null, {}]],
    [kwargs({ thinking: 'deep' }), [null, null, { thinking: 'deep' }]],
    [
      kwargs({ enable_thinking: true, thinking: false }),
      '422 conflicting_parameters chat_template_kwargs.enable_thinking',
    ],
    [
      { reasoning_effort: 'none', ...kwargs({ enable_thinking: true }) },
      '422 conflicting_parameters chat_template_kwargs.enable_thinking',
    ],
    [
      { reasoning_effort: 'low', ...kwargs({ thinking: false }) },
      '422 conflicting_parameters chat_template_kwargs.thinking',
    ],
    [{ enable_thinking: false }, ['none', null, {}]],
    [{ thinking: true, preserve_thinking: true }, ['enabled', null, { preserve_thinking: true }]],
    [
      { enable_thinking: true, ...kwargs({ enable_thinking: false }) },
      '422 conflicting_parameters chat_template_kwargs.enable_thinking',
    ],
    [{ clear_thinking: false }, [null, null, { clear_thinking: false }]],
    [{ thinking: { type: 'disabled' } }, ['none', null, {}]],
    [{ thinking: { type: 'enabled', budget_tokens: 9 } }, ['enabled', 9, {}]],
    [{ thinking: { type: 'enabled', clear_thinking: false } }, ['enabled', null, { clear_thinking: false }]],
    [{ thinking: { type: 'enabled' }, reasoning_effort: 'high' }, ['high', null, {}]],
    [{ thinking: { type: 'disabled' }, reasoning_effort: 'high' }, '422 conflicting_parameters thinking'],
    [
      { thinking: { type: 'disabled' }, ...kwargs({ enable_thinking: true }) },
      '422 conflicting_parameters chat_template_kwargs.enable_thinking',
    ],
    [kwargs({ tools: [] }), '422 unsupported_value chat_template_kwargs.tools'],
    [kwargs({ strftime_now: 'x' }), '422 unsupported_value chat_template_kwargs.strftime_now'],
    [kwargs({ documents: [] }), [null, null, { documents: [] }]],
  ];
  for (const [change, expected] of rows) t.same(outcome(change), expected, JSON.stringify(change));
});

t.test('bounds the number and the size of the variables', async (t) => {
  const many = (count: number): object => Object.fromEntries(Array.from({ length: count }, (_, at) => [`v${at}`, at]));
  t.same(templateSettings(many(64) as Record<string, unknown>).variables, many(64));
  t.throws(() => templateSettings(many(65) as Record<string, unknown>), { code: 'too_many_entries' });
  const long = (bytes: number): Record<string, unknown> => ({ a: 'x'.repeat(bytes - '{"a":""}'.length) });
  t.ok(templateSettings(long(65_536)).variables);
  t.throws(() => templateSettings(long(65_537)), { code: 'value_out_of_range', param: 'chat_template_kwargs' });
});

t.test('reads reasoning under each of its names', async (t) => {
  const read = (message: object): unknown => {
    const [, assistant] = parseChat({
      ...base,
      messages: [...base.messages, { role: 'assistant', content: 'a', ...message }, ...base.messages],
    }).content({ maxN: 1 }).request.messages;
    return (assistant as { reasoning?: string }).reasoning;
  };
  const details = [
    { type: 'reasoning.text', text: 'one ', index: 0 },
    { type: 'reasoning.encrypted', data: 'x' },
    { type: 'reasoning.text', text: 'two' },
  ];
  t.equal(read({ reasoning_content: 'x' }), 'x');
  t.equal(read({ reasoning: 'x' }), 'x');
  t.equal(read({ reasoning_content: 'x', reasoning: 'x' }), 'x');
  t.equal(read({ reasoning_content: null, reasoning: 'x' }), 'x');
  t.equal(read({ reasoning_details: details }), 'one two');
  t.equal(read({ reasoning: 'x', reasoning_details: details }), 'x');
  t.equal(read({}), undefined);
});
