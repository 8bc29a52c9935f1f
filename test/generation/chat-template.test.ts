import t from 'tap';
import { CHATML_TEMPLATE, ChatTemplate } from '../../src/generation/local/template/chat-template.js';
import type { TemplateMessage } from '../../src/generation/local/template/context.js';
import { TemplateError } from '../../src/generation/local/template/limits.js';
import { RenderBudget, stepsFor, TEMPLATE_LIMITS } from '../../src/generation/local/template/limits.js';
import { parseExact } from '../../src/shared/exact-json.js';
import { cpuTime } from '../support/cpu-time.js';
import { hostileTemplate } from '../support/hostile-templates.js';
import { randomFrom } from '../support/random.js';

const tokens = { bos: '<s>', eos: '</s>' };
const user = (content: string): TemplateMessage => ({ role: 'user', content });

t.test('renders ChatML and finds that it supports every probed feature', async (t) => {
  const template = new ChatTemplate(CHATML_TEMPLATE, tokens);
  t.equal(
    template.render({ messages: [user('hi')], tools: null, addGenerationPrompt: true, enableThinking: false }),
    '<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n',
  );
  t.same(template.capabilities, {
    system: 'anywhere',
    alternation: false,
    thinkingSwitch: false,
    tools: false,
    calls: 'none',
    callText: false,
    callArguments: 'object',
    textArguments: false,
    callIds: 'free',
    reasoningField: null,
  });
});

t.test('probing finds the features that a strict template rejects', async (t) => {
  const llama2 = `{% if messages[0].role == 'system' %}{% set loop_messages = messages[1:] %}{% set system = messages[0].content %}{% else %}{% set loop_messages = messages %}{% set system = false %}{% endif %}{% for m in loop_messages %}{% if (m.role == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('roles must alternate') }}{% endif %}{% if m.role == 'user' %}{{ bos_token }}[INST] {% if loop.first and system %}{{ system }} {% endif %}{{ m.content }} [/INST]{% else %} {{ m.content }} {{ eos_token }}{% endif %}{% endfor %}`;
  const template = new ChatTemplate(llama2, tokens);
  t.match(template.capabilities, { system: 'first', alternation: true, thinkingSwitch: false });
  t.throws(
    () =>
      template.render({
        messages: [user('a'), user('b')],
        tools: null,
        addGenerationPrompt: true,
        enableThinking: false,
      }),
    new TemplateError('roles must alternate'),
  );
});

t.test('handles a template that does not render system text', async (t) => {
  const template = new ChatTemplate(
    "{% for m in messages %}{% if m.role == 'system' %}{{ raise_exception('no system') }}{% endif %}{{ m.content }}{% endfor %}",
    tokens,
  );
  t.equal(template.capabilities.system, 'none');
});

t.test('finds a reasoning switch under each of its names', async (t) => {
  const template = new ChatTemplate(
    '{% for m in messages %}{{ m.content }}{% endfor %}{% if enable_thinking %}<think>{% endif %}',
    tokens,
  );
  t.equal(template.capabilities.thinkingSwitch, true);
  const byMode = new ChatTemplate(
    '{% for m in messages %}{{ m.content }}{% endfor %}{% if thinking_mode is defined and thinking_mode == "disabled" %}</mm:think>{% elif thinking_mode == "enabled" %}<mm:think>{% endif %}',
    tokens,
  );
  const one = { messages: [{ role: 'user' as const, content: 'a' }], tools: null, addGenerationPrompt: true };
  t.same(
    [true, false].map((enableThinking) => byMode.render({ ...one, enableThinking })),
    ['a<mm:think>', 'a</mm:think>'],
  );
  const byThinking = new ChatTemplate(
    '{% for m in messages %}{{ m.content }}{% endfor %}{{ "<think>" if thinking else "</think>" }}',
    tokens,
  );
  t.same(
    [true, false].map((enableThinking) => byThinking.render({ ...one, enableThinking })),
    ['a<think>', 'a</think>'],
  );
});

const BASE = '{% for m in messages %}{{ m.content }}{% endfor %}';
const EFFORT_LEVELS = ['none', 'minimal', 'low', 'medium', 'high', 'xhigh', 'max'] as const;

t.test("passes efforts in the template's own words", async (t) => {
  const check = (source: string, known: string, words: (string | undefined)[], standard?: string): void => {
    const { efforts } = new ChatTemplate(BASE + source, tokens);
    t.equal(efforts.withNone().join(' '), known, source);
    t.same(
      EFFORT_LEVELS.map((effort) => efforts.word(effort)),
      words,
      source,
    );
    t.equal(efforts.standard, standard, source);
  };
  const plain = ['minimal', 'low', 'medium', 'high', 'xhigh', 'max'];
  check('', 'none', [undefined, ...plain]);
  check('{{ "Reasoning: " + reasoning_effort|default("medium") }}', 'none low medium high', [
    'low',
    ...['low', 'low', 'medium', 'high', 'high', 'high'],
  ]);
  const only = (list: string): string =>
    `{% if reasoning_effort is not defined %}{% set reasoning_effort = ${list}[0] %}{% endif %}` +
    `{% if reasoning_effort not in ${list} %}{{ raise_exception('unknown') }}{% endif %}` +
    `{{ '[' ~ reasoning_effort ~ ']' }}`;
  check(only("['xhigh', 'medium', 'low']"), 'none low medium xhigh', [
    undefined,
    ...['low', 'low', 'medium', 'xhigh', 'xhigh', 'xhigh'],
  ]);
  check(
    only("['no_think', 'low', 'high']"),
    'none low high',
    ['no_think', 'low', 'low', 'high', 'high', 'high', 'high'],
    'high',
  );
  check('{% if reasoning_effort == "max" %}As long as you can.{% endif %}', 'none max', [undefined, ...plain]);
  check('{% if reasoning_effort in ["low", "high"] %}{{ reasoning_effort }}{% endif %}', 'none low high', [
    undefined,
    ...['low', 'low', 'medium', 'high', 'high', 'high'],
  ]);
});

t.test("the client's variables take precedence and keep their types", async (t) => {
  const template = new ChatTemplate(
    `${BASE}{{ [enable_thinking, thinking_mode, reasoning_effort, budget, exact, flag, nothing] }}`,
    tokens,
  );
  const variables = parseExact(
    '{"thinking_mode":"deep","reasoning_effort":"ultra","budget":9223372036854775808,"exact":1.0,"flag":true,"nothing":null}',
  ) as Record<string, unknown>;
  t.equal(
    template.render({
      messages: [{ role: 'user', content: 'a' }],
      tools: null,
      addGenerationPrompt: true,
      enableThinking: true,
      effort: 'low',
      variables,
    }),
    "a[True, 'deep', 'ultra', 9223372036854775808, 1.0, True, None]",
  );
});

t.test('passes tool-call arguments as an object unless the template fails on it', async (t) => {
  const calls = (inside: string) =>
    `{% for m in messages %}{{ m.content }}{% for c in m.tool_calls or [] %}{{ c.function.name }}${inside}{% endfor %}{% endfor %}`;
  const found = (inside: string) => new ChatTemplate(calls(inside), tokens).capabilities;
  t.match(
    found('{{ c.function.arguments if c.function.arguments is string else c.function.arguments | tojson }}'),
    { callArguments: 'object', textArguments: true },
    'both',
  );
  t.match(found('{{ c.function.arguments | tojson }}'), { callArguments: 'object', textArguments: true }, 'as JSON');
  t.match(
    found('{% for key, value in c.function.arguments | items %}{{ key }}={{ value }}{% endfor %}'),
    { callArguments: 'object', textArguments: false },
    'only an object',
  );
  t.match(found('{{ "" + c.function.arguments }}'), { callArguments: 'text', textArguments: true }, 'only text');
  t.match(found('{{ c.function.arguments }}'), { callArguments: 'text', textArguments: true }, 'a Python literal');
});

t.test('detects how a template renders calls and tools', async (t) => {
  const found = (source: string) => new ChatTemplate(source, tokens).capabilities;
  const calls = '{% for c in m.tool_calls or [] %}{{ c.function.name }}{{ c.function.arguments | tojson }}{% endfor %}';
  const all = `{{ tools | tojson if tools }}{% for m in messages %}{{ m.content }}{{ m.reasoning_content }}${calls}{% endfor %}`;
  t.match(found(all), {
    tools: true,
    calls: 'many',
    callText: true,
    callIds: 'free',
    reasoningField: 'reasoning_content',
  });
  t.match(
    found(
      `{% for m in messages %}{% if m.tool_calls %}{% if m.tool_calls | length != 1 %}{{ raise_exception('one') }}{% endif %}${calls}{% else %}{{ m.content }}{% endif %}{% endfor %}`,
    ),
    { tools: false, calls: 'one', callText: false, reasoningField: null },
  );
  t.match(
    found(
      `{% for m in messages %}{{ m.content }}{% if m.tool_call_id and m.tool_call_id | length != 9 %}{{ raise_exception('id') }}{% endif %}${calls}{% endfor %}`,
    ),
    { calls: 'many', callIds: 'short' },
  );
  t.match(
    found(`{% for m in messages %}{% if m.role != 'tool' %}{{ m.content }}${calls}{% endif %}{% endfor %}`),
    { calls: 'none' },
    'tool results are dropped',
  );
  t.match(
    found(
      `{% for m in messages %}{{ m.content }}{% endfor %}{% if tools %}{% for m in messages %}${calls}{% endfor %}{% endif %}`,
    ),
    { calls: 'none' },
    'calls are dropped if there are no tool definitions',
  );
});

t.test('handles a template that loops over its tools without checking for them', async (t) => {
  const template = new ChatTemplate(
    '{% for tool in tools %}{{ tool | tojson }}{% endfor %}{% for m in messages %}{{ m.content }}{% endfor %}',
    tokens,
  );
  t.equal(
    template.render({ messages: [user('hi')], tools: null, addGenerationPrompt: true, enableThinking: false }),
    'hi',
  );
});

t.test('refuses unusable templates with a reason', async (t) => {
  const cases: [string, RegExp][] = [
    ['{% for m in messages %}', /does not parse/],
    ['{{ raise_exception("never") }}', /never/],
    ['nothing of the message', /drops the user message/],
    ['{% for i in range(10000000) %}{% endfor %}', /range\(\): more than/],
    ['x'.repeat(TEMPLATE_LIMITS.characters + 1), /longer than/],
  ];
  for (const [source, reason] of cases) t.throws(() => new ChatTemplate(source, tokens), { message: reason });
});

const context = (content: string, more: TemplateMessage[] = []) => ({
  messages: [user(content), ...more],
  tools: null,
  addGenerationPrompt: true,
  enableThinking: false,
});

const grown = (start: string, times: number): string => `{% set s = ${start} %}${'{% set s = s + s %}'.repeat(times)}`;
const nested = `{% set ns = namespace(l=[1]) %}${'{% set ns.l = [ns.l, ns.l] %}'.repeat(60)}`;

function errorOf(attempt: () => unknown): unknown {
  try {
    return attempt();
  } catch (error) {
    return error;
  }
}

/** Templates that would crash the process or run for hours without limits. */
const TOO_MUCH: [name: string, source: string][] = [
  ['60 replace filters', `{{ 'a'${" | replace('a', 'aa')".repeat(60)} }}`],
  ['replacing between all characters', `${grown("'a'", 20)}{{ s | replace('', s) }}`],
  ['inserting between all characters of a very long text', `${grown("'ab'", 23)}{{ s | replace('', '') }}`],
  ['characters of a long text with surrogates', `${grown("'a😀'", 16)}{% for i in range(99) %}{{ s[i] }}{% endfor %}`],
  ['breaking a very long word', `${grown("'ab'", 16)}{{ s | wordwrap(2) }}`],
  ['a method under another name', `${grown("'a'", 20)}{% set f = s['re' ~ 'place'] %}{{ f('a', s) }}`],
  ['a text doubled 100 times', `${grown("'a'", 100)}{{ s }}`],
  ['a text doubled by concatenation', `{% set s = 'a' %}${'{% set s = s ~ s %}'.repeat(100)}{{ s }}`],
  ['a block that doubles itself', `{% set s = 'a' %}${'{% set s %}{{ s }}{{ s }}{% endset %}'.repeat(100)}`],
  ['a list doubled 100 times', `{% set s = [1] %}${'{% set s = s + s %}'.repeat(100)}`],
  ['printing a nested list', `${nested}{{ ns.l }}`],
  ['serializing a nested list as JSON', `${nested}{{ ns.l | tojson }}`],
  [
    'comparing nested lists',
    `${nested}{% set other = namespace(l=[1]) %}${'{% set other.l = [other.l, other.l] %}'.repeat(60)}{{ ns.l == other.l }}`,
  ],
  ['joining a nested list', `${nested}{{ ns.l | join(',') }}`],
  ['appending a nested list to a text', `${nested}{{ 'a' ~ ns.l }}`],
  ['a text with a huge indent', "{{ 'a\nb' | indent(999999999, true) }}"],
  ['JSON with a huge indent', '{{ [[[1]]] | tojson(indent=400000000) }}'],
  ['a long separator', `${grown("'a'", 20)}{{ range(99999) | join(s) }}`],
  ['splitting a long text into characters', `${grown("'ab'", 22)}{{ s[::-1] }}`],
  ['splitting a long text into words', `${grown("'a '", 21)}{{ s.split() }}`],
  ['splitting a long text at every character', `${grown("'a'", 20)}{{ s.split('a') }}`],
  ['searching for a text that almost matches everywhere', `${grown("'a'", 20)}{{ ('b' ~ s[:50000]) in s }}`],
  ['replacing a text that almost matches everywhere', `${grown("'a'", 20)}{{ s | replace('b' ~ s[:50000], '') }}`],
  [
    'sorting long texts',
    `${grown("'a'", 21)}{% set l = [s ~ 1, s ~ 2, s ~ 3, s ~ 4, s ~ 5, s ~ 6, s ~ 7, s ~ 8] %}{{ l | sort }}`,
  ],
  ['JSON with every character escaped', `${grown("'é'", 20)}{{ s | tojson(ensure_ascii=true) }}`],
  ['title case of a long text', `${grown("'a '", 20)}{{ s | title }}`],
  ['nested loops', '{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}'],
  [
    'nested loops left immediately',
    '{% set l = range(99999) %}{% for i in l %}{% for j in l %}{% break %}{% endfor %}{% endfor %}',
  ],
  ['slices in a loop', '{% set l = range(99999) | list %}{% for i in l %}{% set x = l[::-1] %}{% endfor %}'],
  [
    'call blocks that double their output',
    `{% macro m() %}{{ caller() }}{{ caller() }}{% endmacro %}${'{% call m() %}'.repeat(60)}a${'{% endcall %}'.repeat(60)}`,
  ],
];

/** Templates with other faults, and the reason reported for each. */
const WRONG: [name: string, source: string, reason: RegExp][] = [
  // Name lookups take more steps in a deeply nested scope. How deep the compiled code can recurse determines whether
  // the depth limit or the step limit is reached first.
  [
    'a macro that calls itself',
    '{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}',
    /recurses endlessly|takes too many steps/,
  ],
  ['a namespace that holds itself', '{% set ns = namespace(a=1) %}{% set ns.a = ns %}{{ ns }}', /nested too deep/],
  ['a range with a list as argument', `${nested}{{ range(ns.l) }}`, /range\(\): arguments must be/],
  ['an exception with a list as message', `${nested}{{ raise_exception(ns.l) }}`, /takes too many steps/],
  ['a long time format', `${grown("'%B'", 20)}{{ strftime_now(s) }}`, /strftime_now\(\): the argument/],
  [
    'a long message',
    `${grown("'ab'", 15)}{{ raise_exception(s) }}`,
    /^(chat template cannot render one user message: )?(ab){200,250}…$/,
  ],
];

t.test('loading refuses a template that exceeds the limits', async (t) => {
  for (const [name, source] of TOO_MUCH) {
    t.throws(
      () => new ChatTemplate(`{{ messages[0].content }}${source}`, tokens),
      { message: /takes too many steps/ },
      name,
    );
  }
  for (const [name, source, message] of WRONG)
    t.throws(() => new ChatTemplate(`{{ messages[0].content }}${source}`, tokens), { message }, name);
  // All probe renders share one budget, so a single excessive probe is enough to refuse the template.
  const loops = (condition: string): string =>
    `{% for m in messages %}{{ m.content }}{% endfor %}{% if ${condition} %}{% for i in range(20000) %}{{ i }}{% endfor %}{% endif %}`;
  t.throws(() => new ChatTemplate(loops('true'), tokens), { message: /takes too many steps/ });
  t.throws(() => new ChatTemplate(loops('messages | length > 2'), tokens), { message: /takes too many steps/ });
});

t.test(
  'a template that exceeds the limits only for some content fails for that content and stays usable',
  async (t) => {
    for (const [name, source] of [...TOO_MUCH, ...WRONG]) {
      const template = new ChatTemplate(
        `{{ messages[0].content }}{% if messages[0].content == 'go' %}${source}{% endif %}`,
        tokens,
      );
      t.ok(errorOf(() => template.render(context('go'))) instanceof TemplateError, name);
      t.equal(template.render(context('hi')), 'hi', name);
    }
  },
);

/**
 * Each operation exceeds a budget that would be sufficient for the rest of its template. `c` has 200,000 characters;
 * `l` and `map` have 10,000 entries.
 */
const PAID: [source: string, budget?: number][] = [
  ['{{ a }}'.repeat(6_000)],
  ['{% set x = {c: 1} %}'],
  ["{{ {'a': 1}[c] }}"],
  ['{% if c is upper %}{% endif %}'],
  ['{{ c[0] }}'],
  ['{% set x = c[1:] %}'],
  ['{% set x = c[::-1] %}'],
  ['{% if c == l[1].content %}{% endif %}'],
  ["{% if 'b' in c %}{% endif %}"],
  ['{% set x = c ~ c %}'],
  ['{% set x = c + c %}'],
  ['{{ c }}'],
  ...['upper', 'trim', 'indent', 'title', "replace('b', '')", "join('')", 'tojson', 'tojson(indent=2)'].map(
    (filter): [string] => [`{% set x = c | ${filter} %}`],
  ),
  ...['upper()', 'strip()', "startswith('a')", "split('b')", "replace('b', '')"].map((method): [string] => [
    `{% set x = c.${method} %}`,
  ]),
  [`{% set x = [${'1, '.repeat(6_000)}] %}`],
  [`{% set x = {${"'a': 1, ".repeat(6_000)}} %}`],
  ['{% macro m() %}{% endmacro %}{% set x = [' + 'm(), '.repeat(300) + '] %}', 3_000],
  ['{% set x = range(6000) | list %}'],
  ["{% set x = 'a'.upper %}{% set y = [" + 'x(), '.repeat(200) + '] %}', 1_000],
  [`${'{% for x in [1] %}'.repeat(30)}${'{{ q }}'.repeat(400)}${'{% endfor %}'.repeat(30)}`],
  ['{{ l }}'],
  ["{% set x = 'a' ~ l %}"],
  ["{% set x = l ~ 'a' %}"],
  ['{% if l == l + [] %}{% endif %}'],
  ['{% set x = l + l %}'],
  ['{% set x = l[1:] %}', 2_000],
  ['{% set x = l[::-1] %}'],
  ["{% if 'a' in l %}{% endif %}"],
  ['{% set x = namespace(l) %}', 2_000],
  ['{% set x = namespace(map) %}', 2_000],
  ...[
    'reverse',
    "map(attribute='role') | unique | list",
    'join',
    'string',
    'tojson',
    "sort(attribute='content')",
    "map(attribute='role') | list",
    "selectattr('role') | list",
  ].map((filter): [string] => [`{% set x = l | ${filter} %}`]),
  ...['items | list', 'dictsort', 'tojson'].map((filter): [string] => [`{% set x = map | ${filter} %}`]),
  ...['items() | list', 'values() | list', 'copy()'].map((method): [string] => [`{% set x = map.${method} %}`]),
];
const CHEAP = [
  "{% set x = c ~ 'a' %}",
  '{{ l | length }}{{ map | length }}',
  '{{ l[0].role }}{{ l[-1].role }}{{ map.k1 }}',
  '{% set x = l | first %}{% set y = map.items() %}{% set z = l | map(attribute="role") %}',
  '{% if c %}{% endif %}',
  "{% if 'a' in map %}{% endif %}",
];

t.test('charges every operation by the size of its operands', async (t) => {
  const map = Object.fromEntries(Array.from({ length: 10_000 }, (_, index) => [`k${index}`, index]));
  const text = 'a '.repeat(100_000);
  const messages = Array.from({ length: 10_000 }, (_, index) => user(index < 2 ? `${text}${index}` : ''));
  const error = (source: string, budget: number): unknown => {
    const set = '{% set l = messages %}{% set c = l[0].content %}{% set map = tools[0].function.parameters %}';
    const template = new ChatTemplate(
      `{% if messages | length < 9 %}{{ messages[0].content }}{% else %}${set}${source}{% endif %}`,
      tokens,
    );
    const tools = [{ type: 'function' as const, function: { name: '', description: '', parameters: map } }];
    return errorOf(() =>
      template.render({ messages, tools, addGenerationPrompt: true, enableThinking: false }, new RenderBudget(budget)),
    );
  };
  for (const [source, budget = 5_000] of PAID) t.match(error(source, budget), { exhausted: true }, source.slice(0, 80));
  for (const source of CHEAP) t.type(error(source, 200), 'string', source);
});

t.test('parses in linear time, and refuses a template that is nested too deeply', async (t) => {
  const took = cpuTime();
  const blank = ' '.repeat(200_000);
  for (const source of [
    `${blank}x`,
    `{{ 1${blank}}}`,
    `{%${blank}raw`,
    `{% raw %}${'{% '.repeat(60_000)}`,
    `{{ ${'1'.repeat(200_000)}`,
  ])
    try {
      new ChatTemplate(`{{ messages[0].content }}${source}`, tokens);
    } catch (error) {
      t.match(error, { message: /does not parse: line 1: / }, source.slice(0, 10));
    }
  t.ok(took() < 1_000, 'takes less than a second');
  for (const source of [
    `{{ ${'('.repeat(100_000)}1${')'.repeat(100_000)} }}`,
    `{{ ${'a + '.repeat(60_000)} a }}`,
    '{% if a %}'.repeat(20_000),
  ])
    t.throws(() => new ChatTemplate(source, tokens), { message: /does not parse: line 1: it is nested too deeply/ });
});

t.test('a larger conversation has a larger budget', async (t) => {
  const source =
    '{% for m in messages %}{{ m.content }}{% for i in range(16) %}{% set x = m.role ~ i %}{% endfor %}{% endfor %}';
  const template = new ChatTemplate(source, tokens);
  const many = Array.from({ length: 12_000 }, () => user('a'));
  t.equal(template.render(context('a', many)).length, 12_001);
  t.throws(
    () => template.render(context('a', many), new RenderBudget()),
    { message: /takes too many steps/ },
    'the budget of a small conversation is not enough',
  );
  const { steps, mostSteps } = TEMPLATE_LIMITS;
  t.equal(stepsFor('a'.repeat(100_000_000)), mostSteps - steps, 'the budget has an upper limit');
});

t.test('prints a namespace in a list with its current values', async (t) => {
  const template = new ChatTemplate(
    '{{ messages[0].content }}{% set ns = namespace(x=1) %}{% set l = [ns] %}{{ l }}{% set ns.x = 2 %}{{ l }}',
    tokens,
  );
  t.equal(template.render(context('')), "[<Namespace {'x': 1}>][<Namespace {'x': 2}>]");
});

t.test('a template that changes its tools changes them for one render only', async (t) => {
  const template = new ChatTemplate(
    "{{ messages[0].content }}{% if tools %}{{ tools | tojson }}{% if messages[0].content == 'go' %}{% set x = tools.pop() %}{{ tools | tojson }}{{ tools[0] | tojson }}{% endif %}{% endif %}",
    tokens,
  );
  const tools = ['a', 'b'].map((name) => ({
    type: 'function' as const,
    function: { name, description: '', parameters: {} },
  }));
  const json = tools.map((tool) => JSON.stringify(tool).replaceAll(':', ': ').replaceAll(',', ', '));
  const all = `[${json.join(', ')}]`;
  const render = (content: string) => template.render({ ...context(content), tools });
  t.equal(render('hi'), `hi${all}`);
  t.equal(render('go'), `go${all}[${json[0]}]${json[0]}`);
  t.equal(render('hi'), `hi${all}`);
});

// To run more templates: HOSTILE_TEMPLATES=10000 node build/test/generation/chat-template.test.js
t.test('random templates end with text or with an error that gives the reason', async (t) => {
  const outcomes = { text: 0, exhausted: 0, refused: 0 };
  let worst = 0;
  for (let seed = 0; seed < Number(process.env['HOSTILE_TEMPLATES'] ?? 50); seed++) {
    const took = cpuTime();
    try {
      new ChatTemplate(hostileTemplate(randomFrom(seed)), tokens).render(context('go'));
      outcomes.text++;
    } catch (error) {
      if (!(error instanceof TemplateError)) throw error;
      outcomes[error.exhausted ? 'exhausted' : 'refused']++;
    }
    worst = Math.max(worst, took());
  }
  t.ok(
    Object.values(outcomes).every((count) => count > 0),
    JSON.stringify(outcomes),
  );
  t.ok(worst < 2_000, `at most ${worst} ms of CPU time each`);
  t.ok(process.resourceUsage().maxRSS < 1 << 20, 'peak memory stays below 1 GiB (in KiB)');
});
