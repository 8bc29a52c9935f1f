import { Template } from '@huggingface/jinja';
import t from 'tap';
import { ChatTemplate } from '../../src/generation/local/template/chat-template.js';
import type { TemplateMessage, TemplateTool } from '../../src/generation/local/template/context.js';

/** Template fragments. Each must render as in the reference library. */
const pieces = [
  "{{ m.role }}:{{ m['content'] }};",
  '{{ loop.index }}{{ loop.index0 }}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.first }}{{ loop.last }}{{ loop.length }}',
  '{{ loop.previtem.role }}>{{ loop.nextitem.role if loop.nextitem }}',
  "{% if m.role == 'user' and not loop.first or m.content %}a{% elif m.missing %}b{% else %}c{% endif %}",
  "{% if m.missing is defined or m['tool_calls'] is none %}x{% endif %}{{ m.missing }}{{ nobody }}{{ m.missing == none }}",
  '{% set ns = namespace(n=0) %}{% for x in [1, 2, 3] %}{% set ns.n = ns.n + x %}{% endfor %}{{ ns.n }}',
  '{% for x in [1, 2, 3, 4] %}{% if x == 2 %}{% continue %}{% endif %}{% if x == 4 %}{% break %}{% endif %}{{ x }}{% endfor %}',
  '{% for x in [] %}x{% else %}none{% endfor %}{% for key, value in m.items() %}{{ key }}={{ value }},{% endfor %}{% for key in m %}{{ key }}{% endfor %}',
  '{% for other in messages if other.role == m.role %}{{ other.content | length }}{% endfor %}',
  "{{ 'a' + m.role + 'b' }}{{ 1 + 2 }}{{ ([1] + [2]) | length }}{{ 'n' ~ 1 }}{{ 1 == 1.0 }}{{ '1' == 1 }}{{ none == nobody }}{{ [] or 'empty' }}{{ {} and 1 }}",
  "{{ m.content.strip().upper().split(' ')[0].lower() }}{{ m.content[0] }}{{ m.content[1:] }}{{ messages[-1].content }}{{ messages[0]['role'] }}",
  "{% macro show(x, y='d') %}<{{ x }}{{ y }}>{% endmacro %}{{ show(m.role) }}{{ show(m.role, y=1) }}",
  "{{ m | tojson }}{{ tools | tojson(indent=2) if tools }}{{ m.get('role') }}{{ m.get('nothing', 'else') }}{{ m.keys | length if false }}",
  "{% set x = 'outer' %}{% if true %}{% set x = 'inner' %}{% endif %}{{ x }}{% set y %}{{ x }}!{% endset %}{{ y }}",
  '{% for a, b in [[1, 2], [3, 4]] %}{{ a }}{{ b }}{{ loop.index }}{% endfor %}{{ true }}{{ 1.5 }}{{ 2.0 }}{{ none }}{{ -1 }}{{ 300 + 1 }}',
];

const messages: TemplateMessage[] = [
  { role: 'system', content: 'Be kind.' },
  { role: 'user', content: '  Hi there  ' },
  {
    role: 'assistant',
    content: '',
    tool_calls: [
      { id: 'a', type: 'function', function: { name: 'f', arguments: { x: [1, 2.5, null, true], y: { z: '"' } } } },
    ],
  },
  { role: 'tool', content: '3', tool_call_id: 'a' },
];
const tools: TemplateTool[] = [
  { type: 'function', function: { name: 'f', description: 'd', parameters: { type: 'object', properties: {} } } },
];

t.test('renders templates like the reference library', async (t) => {
  const names = { bos: '<s>', eos: '</s>' };
  for (const piece of pieces) {
    const source = `{% for m in messages %}{{ m.content }}|${piece}\n{% endfor %}{{ bos_token }}{% if add_generation_prompt %}{{ enable_thinking }}{% endif %}`;
    const ours = new ChatTemplate(source, names);
    const reference = new Template(source) as { render(variables: Record<string, unknown>): string };
    for (const given of [null, tools]) {
      const expected = reference.render({
        messages,
        tools: given,
        add_generation_prompt: true,
        enable_thinking: true,
        bos_token: '<s>',
        eos_token: '</s>',
      });
      t.equal(
        ours.render({ messages, tools: given, addGenerationPrompt: true, enableThinking: true }),
        expected,
        piece,
      );
    }
  }
});

t.test('renders like Python where the reference library fails', async (t) => {
  const rendered = (source: string): string =>
    new ChatTemplate(`{{ messages[0].content }}|${source}`, { bos: null, eos: null })
      .render({
        messages: [{ role: 'user', content: 'probe-one' }],
        tools,
        addGenerationPrompt: false,
        enableThinking: false,
      })
      .slice('probe-one|'.length);
  const cases: [string, string][] = [
    [
      '{{ none | string }}{{ true | string }}{{ false | string }}{{ nobody | string }}{{ nobody | upper }}{{ nobody | trim }}{{ "a" | string }}{{ {"a": true} | string }}',
      'NoneTrueFalsea{"a": true}',
    ],
    [
      '{% set ns = namespace(ids=[]) %}{% for x in [1, 2, 3] %}{% set _ = ns.ids.append(x) %}{% endfor %}{{ ns.ids | tojson }}{{ ns.ids.pop(0) }}{{ ns.ids.pop() }}{{ ns.ids | tojson }}',
      '[1, 2, 3]13[2]',
    ],
    [
      '{% set map = {0: "a", 512: "b"} %}{{ map[512] }}{{ map[1] }}{% for k, v in map | dictsort %}{{ k }}{{ v }}{{ 100 <= k }}{% endfor %}{{ map[nobody] is defined }}',
      'b0afalse512btruefalse',
    ],
    [
      '{% set end = ":x" %}{{ "<a{}>".format(end) }}{{ "{}{}".format(1, true) }}{{ "{1}{0}{b}".format("c", "d", b="e") }}{{ "{{{}}}".format("f") }}{{ "".format() }}',
      '<a:x>1Truedce{f}',
    ],
    ['{{ "a" in nobody }}{{ nobody in ["a"] }}{{ "a" not in nobody }}', 'falsefalsetrue'],
  ];
  for (const [source, expected] of cases) t.equal(rendered(source), expected, source);
  for (const [source, reason] of [
    ['"{}".format()', /no argument for \{0\}/],
    ['"{a}".format(1)', /no argument for \{a\}/],
    ['"{:>9}".format(1)', /does not support the field \{:>9\}/],
    ['"}".format(1)', /single \}/],
  ] as const)
    t.throws(() => rendered(`{{ ${source} }}`), reason, source);
  // All requests share one list of tools, so templates must not modify it.
  for (const method of ['append(1)', 'pop()'])
    t.throws(() => rendered(`{% set _ = tools.${method} %}{% set _ = messages.${method} %}`), /not a function/, method);
});
