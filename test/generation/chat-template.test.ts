import t from 'tap';
import { CHATML_TEMPLATE, ChatTemplate, TemplateError, type TemplateMessage } from '../../src/generation/chat-template.js';

const tokens = { bos: '<s>', eos: '</s>' };
const user = (content: string): TemplateMessage => ({ role: 'user', content });

t.test('renders ChatML and finds that it takes everything', async (t) => {
  const template = new ChatTemplate(CHATML_TEMPLATE, tokens);
  t.equal(
    template.render({ messages: [user('hi')], tools: null, addGenerationPrompt: true, enableThinking: false }),
    '<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n',
  );
  t.same(template.capabilities, {
    system: 'anywhere', alternation: false, thinkingSwitch: false, tools: false, calls: 'none', callText: false,
    callArguments: 'object', shortCallIds: false, reasoningField: false,
  });
});

t.test('probes find what a strict template cannot take', async (t) => {
  const llama2 = `{% if messages[0].role == 'system' %}{% set loop_messages = messages[1:] %}{% set system = messages[0].content %}{% else %}{% set loop_messages = messages %}{% set system = false %}{% endif %}{% for m in loop_messages %}{% if (m.role == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('roles must alternate') }}{% endif %}{% if m.role == 'user' %}{{ bos_token }}[INST] {% if loop.first and system %}{{ system }} {% endif %}{{ m.content }} [/INST]{% else %} {{ m.content }} {{ eos_token }}{% endif %}{% endfor %}`;
  const template = new ChatTemplate(llama2, tokens);
  t.match(template.capabilities, { system: 'first', alternation: true, thinkingSwitch: false });
  t.throws(() => template.render({ messages: [user('a'), user('b')], tools: null, addGenerationPrompt: true, enableThinking: false }),
    new TemplateError('roles must alternate'));
});

t.test('a template without a place for system text', async (t) => {
  const template = new ChatTemplate("{% for m in messages %}{% if m.role == 'system' %}{{ raise_exception('no system') }}{% endif %}{{ m.content }}{% endfor %}", tokens);
  t.equal(template.capabilities.system, 'none');
});

t.test('a thinking switch is found', async (t) => {
  const template = new ChatTemplate('{% for m in messages %}{{ m.content }}{% endfor %}{% if enable_thinking %}<think>{% endif %}', tokens);
  t.equal(template.capabilities.thinkingSwitch, true);
});

t.test('tool-call arguments as text, where the template shows what it got', async (t) => {
  const calls = (inside: string) => `{% for m in messages %}{{ m.content }}{% for c in m.tool_calls or [] %}{{ c.function.name }}${inside}{% endfor %}{% endfor %}`;
  const found = (inside: string) => new ChatTemplate(calls(inside), tokens).capabilities.callArguments;
  t.equal(found('{{ c.function.arguments if c.function.arguments is string else c.function.arguments | tojson }}'), 'text');
  t.equal(found('{{ c.function.arguments | tojson }}'), 'string');
  t.equal(found('{% for key, value in c.function.arguments | items %}{{ key }}={{ value }}{% endfor %}'), 'object');
});

t.test('what a template does with calls and tools', async (t) => {
  const found = (source: string) => new ChatTemplate(source, tokens).capabilities;
  const calls = '{% for c in m.tool_calls or [] %}{{ c.function.name }}{{ c.function.arguments | tojson }}{% endfor %}';
  const all = `{{ tools | tojson if tools }}{% for m in messages %}{{ m.content }}{{ m.reasoning_content }}${calls}{% endfor %}`;
  t.match(found(all), { tools: true, calls: 'many', callText: true, shortCallIds: false, reasoningField: true });
  t.match(found(`{% for m in messages %}{% if m.tool_calls %}{% if m.tool_calls | length != 1 %}{{ raise_exception('one') }}{% endif %}${calls}{% else %}{{ m.content }}{% endif %}{% endfor %}`),
    { tools: false, calls: 'one', callText: false, reasoningField: false });
  t.match(found(`{% for m in messages %}{{ m.content }}{% if m.tool_call_id and m.tool_call_id | length != 9 %}{{ raise_exception('id') }}{% endif %}${calls}{% endfor %}`),
    { calls: 'many', shortCallIds: true });
  t.match(found(`{% for m in messages %}{% if m.role != 'tool' %}{{ m.content }}${calls}{% endif %}{% endfor %}`), { calls: 'none' }, 'results are dropped');
  t.match(found(`{% for m in messages %}{{ m.content }}{% endfor %}{% if tools %}{% for m in messages %}${calls}{% endfor %}{% endif %}`), { calls: 'none' }, 'dropped without definitions');
});

t.test('a template that walks through its tools without asking', async (t) => {
  const template = new ChatTemplate('{% for tool in tools %}{{ tool | tojson }}{% endfor %}{% for m in messages %}{{ m.content }}{% endfor %}', tokens);
  t.equal(template.render({ messages: [user('hi')], tools: null, addGenerationPrompt: true, enableThinking: false }), 'hi');
});

t.test('unusable templates are refused with a reason', async (t) => {
  const cases: [string, RegExp][] = [
    ['{% for m in messages %}', /does not parse/],
    ['{{ raise_exception("never") }}', /never/],
    ['nothing of the message', /drops the user message/],
    ['{% for i in range(10000000) %}{% endfor %}', /range\(\): more than/],
    ['x'.repeat((1 << 20) + 1), /longer than/],
  ];
  for (const [source, reason] of cases) t.throws(() => new ChatTemplate(source, tokens), { message: reason });
});

t.test('an endless template is stopped', async (t) => {
  const endless = '{% for m in messages %}{{ m.content }}{% endfor %}{% for i in range(100000) %}{% for j in range(100000) %}{% endfor %}{% endfor %}';
  t.throws(() => new ChatTemplate(endless, tokens), { message: /ran longer than/ });
});
