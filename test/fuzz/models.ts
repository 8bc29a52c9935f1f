// Fuzzes model files and model output: chat templates, and the tool calls parsed from a model's text.
import { ChatTemplate } from '../../src/generation/local/template/chat-template.js';
import { CallStream } from '../../src/generation/local/tools/call-stream.js';
import { FAMILIES, SPOKEN } from '../../src/generation/local/tools/syntaxes.js';
import type { ToolSyntax } from '../../src/generation/local/tools/syntax.js';
import { TemplateError } from '../../src/generation/local/template/limits.js';
import { declared, insist, pieces, type Target } from './target.js';

const conversation = {
  messages: [
    { role: 'system' as const, content: 'Be kind.' },
    { role: 'user' as const, content: '  Hi there  ' },
    {
      role: 'assistant' as const,
      content: '',
      tool_calls: [
        {
          id: 'a',
          type: 'function' as const,
          function: { name: 'f', arguments: { x: [1, 2.5, null, true], y: { z: '"' } } },
        },
      ],
    },
    { role: 'tool' as const, content: '3', tool_call_id: 'a' },
  ],
  tools: [
    {
      type: 'function' as const,
      function: { name: 'f', description: 'd', parameters: { type: 'object', properties: {} } },
    },
  ],
  addGenerationPrompt: true,
  enableThinking: true,
};
const each = (inner: string): string => `{% for m in messages %}{{ m.content }}|${inner}\n{% endfor %}`;

/** Any chat template must render text or fail with its own error, within its step limit. */
export const template: Target = {
  seeds: [
    each(
      "{{ m | tojson }}{{ tools | tojson(indent=2) if tools }}{{ m.get('role') }}{{ m.keys() | list | join(', ') }}",
    ),
    each(
      '{% set ns = namespace(ids=[]) %}{% for x in range(3) %}{% set ns.ids = ns.ids + [x] %}{% endfor %}{{ ns.ids[::-1] | tojson }}{{ ns.ids.pop() }}{{ loop.index0 }}{{ loop.last }}',
    ),
    each(
      "{% if m.tool_calls is defined and m.tool_calls %}{% for c in m.tool_calls %}{{ c.function.arguments | items | list }}{% endfor %}{% elif m.role == 'tool' %}{{ m.content | trim | upper }}{% else %}{{ raise_exception('no') if false }}{% endif %}",
    ),
    each(
      "{% macro f(a, b=2) %}{{ a ~ b }}{% endmacro %}{{ f(1) }}{{ f(b=3, a='x') }}{% call f(1) %}{% endcall %}{{ 'a' * 3 + 'b' }}{{ 7 // 2 }}{{ 2 ** 3 }}{{ -1 % 3 }}",
    ),
    each(
      "{%- set x = 'a,b'.split(',') -%}{{ x | map('upper') | list }}{{ x | selectattr('a', 'equalto', 1) | list | length }}{{ 'abc'.replace('b', '') | capitalize | indent(2) }}{{ strftime_now('%d %B %Y') }}{{ x | sort | first }}{{ '%5.2f|{:>6}' % 1.5 }}{{ '{:,}'.format(1234) }}{% for y in x if y %}{% break %}{% else %}{{ y is string }}{% endfor %}",
    ),
  ],
  run(input) {
    const source = Buffer.from(input).toString('utf8');
    const made = declared(() => new ChatTemplate(source, { bos: '<s>', eos: '</s>' }), TemplateError);
    if (made === null) return;
    for (const tools of [null, conversation.tools]) {
      const text = declared(() => made.render({ ...conversation, tools }), TemplateError);
      insist(text === null || typeof text === 'string', 'a template renders text');
    }
  },
};

const syntaxes: readonly ToolSyntax[] = [...new Set([...FAMILIES, ...SPOKEN].map(({ usual }) => usual))];
const callable = new Map<string, Record<string, unknown> | null>([
  [
    'f',
    {
      type: 'object',
      properties: {
        at: { type: 'string' },
        n: { type: 'integer' },
        of: { type: 'array', items: { type: 'object', properties: { a: { type: 'boolean' } } } },
      },
    },
  ],
  ['get_weather', null],
  ['f_more', { type: 'object' }],
]);

/**
 * Returns the joined events that a stream emits for the pieces in `cut`. Checks that the events are in order and that
 * complete arguments are JSON.
 */
function told(syntax: ToolSyntax, cut: readonly string[], whole: boolean): string {
  const all: string[] = [];
  let open: string | null = null,
    text = '',
    over = false;
  const stream = new CallStream(syntax, callable, {
    started(name) {
      insist(open === null && !over && callable.has(name), 'a call names a known tool and starts outside other calls');
      if (text !== '') all.push(`text ${text}`);
      text = '';
      open = `${name} `;
    },
    arguments(piece) {
      insist(open !== null && piece !== '' && !over, 'arguments belong to an open call');
      open += piece;
    },
    finished(complete) {
      insist(open !== null, 'a call that ends has started');
      if (complete)
        insist(
          typeof JSON.parse((open as string).slice((open as string).indexOf(' ') + 1)) === 'object',
          'complete arguments are JSON',
        );
      all.push(`${complete ? 'call' : 'cut'} ${open}`);
      open = null;
      over = !complete;
    },
    text(piece) {
      insist(open === null && piece !== '', 'text is emitted only outside calls');
      text += piece;
    },
  });
  for (const piece of cut) stream.push(piece);
  stream.end(whole);
  insist(open === null, 'no call is left open');
  return [...all, `text ${text}`].join('\n');
}

/**
 * Fuzzes the parsing of text that a model might generate, in any tool call syntax. The first byte selects the syntax,
 * and the second determines how the text is split.
 */
export const tool_calls: Target = {
  seeds: syntaxes.flatMap((syntax, index) => {
    const written = syntax.write([
      { name: 'f', arguments: '{"at":"Oslo","n":3,"of":[{"a":true}]}' },
      { name: 'get_weather', arguments: '{}' },
    ]);
    const behind = written.startsWith(syntax.open) ? written.slice(syntax.open.length) : written;
    return [
      Buffer.concat([Buffer.from([index, 1]), Buffer.from(written)]),
      Buffer.concat([Buffer.from([index, 2]), Buffer.from(behind)]),
    ];
  }),
  run(input) {
    const syntax = syntaxes[(input[0] ?? 0) % syntaxes.length] as ToolSyntax;
    const seed = input[1] ?? 0;
    const text = Buffer.from(input.subarray(2)).toString('utf8');
    const whole = seed % 2 === 0;
    insist(
      told(syntax, [text], whole) === told(syntax, pieces(text, seed), whole),
      `${syntax.name}: any split of a text gives the same events`,
    );
  },
};
