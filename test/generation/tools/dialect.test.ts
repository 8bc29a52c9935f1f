import type { NativeGrammar } from '../../../src/engine/addon-grammar-types.js';
import t from 'tap';
import { ChatTemplate } from '../../../src/generation/local/template/chat-template.js';
import { callOptions, callableTools } from '../../../src/generation/local/tools/call-options.js';
import { findDialect, describeTools } from '../../../src/generation/local/tools/dialect.js';
import { KIMI } from '../../../src/generation/local/tools/kimi.js';
import type { ToolDefinition } from '../../../src/generation/types.js';

/** A template in a family's style that differs only in how it renders calls. */
const template = (call: string, begin = '', end = ''): ChatTemplate =>
  new ChatTemplate(
    `{{ tools | tojson if tools }}{% for m in messages %}<|{{ m.role }}|>{{ m.content }}{% if m.tool_calls %}${begin}{% for c in m.tool_calls %}${call}{% endfor %}${end}{% endif %}<|end|>{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}`,
    { bos: null, eos: null },
  );
const none = (): boolean => false;

t.test('the template determines the call syntax', async (t) => {
  const cases: [string, ChatTemplate, string, string, tail: string | null][] = [
    [
      'hermes',
      template(
        '<tool_call>\n{"name": "{{ c.function.name }}", "arguments": {{ c.function.arguments | tojson }}}\n</tool_call>',
      ),
      '<tool_call>',
      '\n{"name": "f", "arguments":',
      '}\n</tool_call>',
    ],
    [
      'hermes',
      template('<tool_call>{"name":"{{ c.function.name }}","arguments":{{ c.function.arguments }}}</tool_call>'),
      '<tool_call>',
      '{"name":"f","arguments":',
      '}</tool_call>',
    ],
    [
      'xml',
      template(
        '<tool_call>\n<function={{ c.function.name }}>\n{% for k, v in c.function.arguments | items %}<parameter={{ k }}>\n{{ v }}\n</parameter>\n{% endfor %}</function>\n</tool_call>',
      ),
      '<tool_call>',
      '\n<function=f>\n',
      '</function>\n</tool_call>',
    ],
    [
      'hermes',
      template(
        '<tool_call>\n{"name": "{{ c.function.name }}", "arguments": {{ c.function.arguments | tojson }}, "id": "{{ c.id }}"}\n</tool_call>',
      ),
      '<tool_call>',
      '\n{"name": "f", "arguments":',
      '}\n</tool_call>',
    ],
    [
      'llama',
      template('{"name": "{{ c.function.name }}", "parameters": {{ c.function.arguments | tojson }}}'),
      '{"name": "',
      'f", "parameters":',
      '}',
    ],
    [
      'mistral',
      template(
        '{"name": "{{ c.function.name }}", "arguments": {{ c.function.arguments | tojson }}, "id": "{{ c.id }}"}{{ ", " if not loop.last }}',
        '[TOOL_CALLS] [',
        ']',
      ),
      '[TOOL_CALLS]',
      ' [{"name": "f", "arguments":',
      '}',
    ],
    [
      'mistral-named',
      template('[TOOL_CALLS]{{ c.function.name }}[ARGS]{{ c.function.arguments | tojson }}'),
      '[TOOL_CALLS]',
      'f[ARGS]',
      '',
    ],
    [
      'mistral-numbered',
      template('[TOOL_CALLS]{{ c.function.name }}[CALL_ID]{{ c.id }}[ARGS]{{ c.function.arguments | tojson }}'),
      '[TOOL_CALLS]',
      'f[CALL_ID]',
      '',
    ],
  ];
  for (const [name, source, open, head, tail] of cases) {
    const { syntax, showsTools, showsCalls } = findDialect(source, none);
    t.same(
      [syntax.name, syntax.engineOpen, syntax.head('f'), syntax.tail, showsTools, showsCalls],
      [name, open, head, tail, true, true],
    );
  }
});

t.test('describes the tools if the template renders no calls or an unknown syntax', async (t) => {
  const expected = { showsTools: false, showsCalls: false };
  t.match(
    findDialect(new ChatTemplate('{% for m in messages %}{{ m.content }}{% endfor %}', { bos: null, eos: null }), none),
    { ...expected, syntax: { name: 'hermes' } },
  );
  t.match(findDialect(template('<|call|>{{ c.function.name }}<|args|>{{ c.function.arguments | tojson }}'), none), {
    ...expected,
    syntax: { name: 'hermes' },
  });
  t.match(
    findDialect(
      template('<|call|>{"name": "{{ c.function.name }}", "arguments": {{ c.function.arguments | tojson }}}'),
      none,
    ),
    { ...expected, syntax: { name: 'hermes' } },
    'JSON after an unknown marker is not recognized',
  );
  // This template renders tools but no calls, so the vocabulary shows which syntax the model was trained on.
  for (const [token, name] of [
    ['[TOOL_CALLS]', 'mistral'],
    ['<|tool_calls_section_begin|>', 'kimi'],
    ['<|tool_call_start|>', 'pythonic'],
    ['<|tool_call|>', 'granite'],
    ['<tool_call>', 'hermes'],
  ]) {
    t.match(
      findDialect(template('{{ c.function.name }}'), (one) => one === token),
      { showsTools: true, showsCalls: false, syntax: { name } },
    );
  }
  t.match(findDialect(template('{{ c.function.name }}'), none), { ...expected, syntax: { name: 'hermes' } });
});

const tool = (name: string): ToolDefinition => ({
  name,
  description: 'what it does',
  parameters: null,
  strict: false,
  path: `tools.${name}`,
});
const hermes = findDialect(
  template(
    '<tool_call>\n{"name": "{{ c.function.name }}", "arguments": {{ c.function.arguments | tojson }}}\n</tool_call>',
  ),
  none,
).syntax;
const llama = findDialect(
  template('{"name": "{{ c.function.name }}", "parameters": {{ c.function.arguments | tojson }}}'),
  none,
).syntax;

t.test('passes call options to the engine', async (t) => {
  const tools = [tool('a'), tool('b')];
  const options = (mode: 'none' | 'auto' | 'required', allowed: string[] | null, syntax = hermes) =>
    callOptions({ tools, toolChoice: { mode, allowed }, parallelToolCalls: true }, syntax, grammars);
  const grammarOfA = { bytes: 1 } as NativeGrammar;
  const grammars = new Map([['a', grammarOfA]]);
  const base = { open: '<tool_call>', close: '</tool_call>', atStart: false, required: false, forbidden: false };
  const head = (name: string): string => `\n{"name": "${name}", "arguments":`;
  t.equal(
    callOptions({ tools: [], toolChoice: { mode: 'none', allowed: null }, parallelToolCalls: true }, hermes, grammars),
    null,
  );
  t.same(options('auto', null), { ...base, prefixes: [head('a'), head('b')], grammars: [grammarOfA, null] });
  t.same(options('auto', ['b']), { ...base, prefixes: [head('b')], grammars: [null] });
  t.same(options('required', ['b']), { ...base, prefixes: [head('b')], grammars: [null], required: true });
  t.same(options('none', null), { ...base, prefixes: [], forbidden: true });
  t.same(options('auto', null, llama), {
    open: '{"name": "',
    close: '',
    atStart: true,
    prefixes: [],
    required: false,
    forbidden: false,
  });
  t.same(options('required', null, llama), {
    open: '{"name": "',
    close: '',
    atStart: true,
    prefixes: ['a", "parameters":', 'b", "parameters":'],
    grammars: [grammarOfA, null],
    required: true,
    forbidden: false,
  });
  t.equal(options('none', null, llama)?.open, '<|python_tag|>', 'a response may still start with a brace');
  const tight = findDialect(
    template(
      '<tool_call>{{ c.function.name }}{% for k, v in c.function.arguments | items %}<arg_key>{{ k }}</arg_key><arg_value>{{ v }}</arg_value>{% endfor %}</tool_call>',
    ),
    none,
  ).syntax;
  const prefixes = (...names: string[]) =>
    callOptions(
      { tools: names.map(tool), toolChoice: { mode: 'auto', allowed: null }, parallelToolCalls: true },
      tight,
      new Map(),
    )?.prefixes;
  t.same(
    [prefixes('get', 'set'), prefixes('get_time', 'set', 'get')],
    [
      ['get', 'set'],
      ['get_time\n', 'set\n', 'get\n'],
    ],
    'a name that is a prefix of another is distinguished from it',
  );
  const kimi = callOptions(
    { tools, toolChoice: { mode: 'auto', allowed: null }, parallelToolCalls: true },
    KIMI,
    new Map([
      ['a', grammarOfA],
      ['b', grammarOfA],
    ]),
  );
  t.match(kimi, {
    next: ['<|tool_call_begin|>functions.a:', '<|tool_call_begin|>functions.b:'],
    end: '<|tool_calls_section_end|>',
  });
  t.same(
    callOptions(
      { tools, toolChoice: { mode: 'auto', allowed: null }, parallelToolCalls: false },
      KIMI,
      new Map([
        ['a', grammarOfA],
        ['b', grammarOfA],
      ]),
    )?.next,
    [],
  );
  t.same([...callableTools({ tools, toolChoice: { mode: 'auto', allowed: ['b', 'x'] } }).keys()], ['b']);
});

t.test('a description names the tools and the syntax', async (t) => {
  const text = describeTools(
    [{ type: 'function', function: { name: 'a', description: 'adds', parameters: { type: 'object' } } }],
    hermes,
  );
  for (const part of [
    '{"name":"a","description":"adds","parameters":{"type":"object"}}',
    '<tool_call>\n{"name": "tool-name", "arguments": {"argument-name": "value"}}\n</tool_call>',
  ])
    t.ok(text.includes(part), part);
});
