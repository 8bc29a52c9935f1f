// Writes random templates for comparison with Jinja2: node scripts/templates/random.mjs SEED COUNT > FILE
// Each line is {"template", "context"}, the input format of reference.py. Most operands have a type that fits the
// operator.

const [seed = '1', count = '1000'] = process.argv.slice(2);
let state = Number(seed) >>> 0;

function random() {
  state = (state + 0x6d2b79f5) >>> 0;
  let mixed = Math.imul(state ^ (state >>> 15), state | 1);
  mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
  return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
}

const pick = (list) => list[Math.floor(random() * list.length)];
const chance = (probability) => random() < probability;
const words = (text) => text.split(' ');

const context = {
  x: 'abc',
  d: { k: 1, a: 'v', items: [1, 2] },
  messages: [
    { role: 'user', content: 'Hi there' },
    {
      role: 'assistant',
      content: null,
      tool_calls: [{ function: { name: 'f', arguments: { a: 1.5, b: [true, null] } } }],
    },
  ],
  tools: null,
  v: 'V',
};

const ATOMS = {
  text: [
    ...["''", "'a'", "'abc'", "'Hello World'", "'  x y '", "'a,b,,c'", "'é😀b'", "'it\\'s'", "'line1\\nline2\\n'"],
    ...["'<b>&'", "'42'", "'-3.7'", "'ß'", "'ABC'", "'x-y_z'", "' tab\\t'", "'0x1f'", "'1e3'", "'%s-%d'", "'{} {x}'"],
    ...['x', 'messages[0].content', 'd.a', "messages[-1]['role']"],
  ],
  number: [
    ...words('0 1 2 -1 3 7 10 1.5 -2.5 0.1 1e20 9007199254740993 100 2.0 1e-7 -0.0 123456789012345678901234567890'),
    ...['d.k', 'true'],
  ],
  list: [
    ...['[]', '[1, 2, 3]', "['b', 'A', 'c']", '[3, 1.5, 2]', '[none, true]', '[[1, 2], [3]]', "(1, 'a')", '(1,)', '()'],
    ...[
      "[{'n': 1, 'm': 'x'}, {'n': 0, 'm': 'Y'}, {'m': 'y'}]",
      'range(4)',
      "['a', 1, none]",
      '[1, 1.0, true]',
      'messages',
    ],
  ],
  dict: [
    ...['{}', "{'a': 1}", "{'b': 2, 'a': none}", "{'items': [1], 'keys': 'k'}", "{1: 'x', 2.5: 'y', none: 'z'}", 'd'],
    ...["{'x': {'y': [1, {'z': 'w'}]}}", "{'A': 1, 'b': 0, 'c': 3}", 'messages[0]'],
  ],
  other: ['true', 'false', 'none', 'undef', 'tools'],
};
const TYPES = Object.keys(ATOMS);

const TEXT_FILTERS = [
  ...words('upper lower title capitalize trim string reverse indent center(9) escape safe striptags urlencode'),
  ...words('truncate(5) wordwrap(4) forceescape urlize tojson pprint e'),
  ...["trim('ab ')", "replace('a', 'XX')", "replace('', '-')", "replace('b', '1', 1)", 'indent(2, true)', "join('-')"],
  ...["indent('>', first=true, blank=true)", 'default("D")', 'truncate(6, true, "", 0)', 'wordwrap(7, false)'],
];
const TEXT_METHODS = [
  ...words('.upper() .lower() .strip() .title() .capitalize() .swapcase() .zfill(6) .rjust(9) .center(8) .casefold()'),
  ...words('.expandtabs() .lstrip() [1:] [:-1] [::-1] [::2] [none:2] [-3:] [0] .encode().decode()'),
  ...[".strip('a ')", ".replace('a', 'b')", ".ljust(6, '.')", '.rstrip("c")', '.format(1, x=2)', ".join(['p', 'q'])"],
  ...[".removeprefix('a')", ".removesuffix('c')", '.split("x")[0]'],
];
const LIST_FILTERS = [
  ...['sort', 'sort(reverse=true)', 'list', 'unique | list', 'reverse | list', "map('upper') | list", "groupby('m')"],
  ...["map('string') | list", "map(attribute='n') | list", "map(attribute='n', default=0) | list", 'select | list'],
  ...["selectattr('n') | list", "rejectattr('n', 'defined') | list", "selectattr('m', 'equalto', 'x') | list"],
  ...["select('string') | list", "reject('none') | list", 'batch(2) | list', "batch(2, 'f') | list", 'slice(2) | list'],
  ...["slice(3, '-') | list", "sort(attribute='m')", 'sort(case_sensitive=true)', "map('int') | list"],
  ...["map('default', 'Q') | list", "select('in', [1, 'a']) | list", "map('length') | list", "map('first') | list"],
  ...["unique(attribute='m') | list", "groupby('m', default='q')"],
];
const SPLITS = [
  ...words('.split() .splitlines() .splitlines(true)'),
  ...[".split(',')", ".split('a', 1)", ".rsplit(',', 1)", ".partition('b')", ".rpartition('a')", ' | list'],
  ...['.split(none, 1)', '.rsplit(none, 1)'],
];
const VIEWS = [
  ...[' | list', ' | items | list', ' | dictsort', " | dictsort(by='value')", '.items() | list', '.keys() | list'],
  ...['.values() | list', ' | dictsort(reverse=true)', '.items()', '.values()'],
];
const CONVERSIONS = words('%s %d %5s| %-5s| %05d %.2f %x %r %+d %e %g %.3s %i %8.3f| %-8d| %o %X %#x %G %.0f');
const SPECIFICATIONS = words(
  'd >6 <6 ^7 *^9 05 + +.2f .3 , _ x #x b o % .1% e g .2e 08.3f =+8 ,.2f c 10, n G .0f #o -^10 X s .2s >5s',
);
const TESTS = [
  ...words(
    'defined undefined none string number integer float boolean mapping sequence iterable true false lower upper',
  ),
  ...['escaped', "equalto 'a'", "in 'abc'", "ne 'a'", 'sameas none', "in [1, 'a', none]", 'eq 1'],
];
const QUESTIONS = [
  ...words('.isdigit() .isalpha() .isupper() .islower() .isspace() .istitle() .isnumeric() .isalnum() .isidentifier()'),
  ...words('.isdecimal() .isprintable() .isascii()'),
  ...[".startswith('a')", ".endswith(('c', 'd'))"],
];

const inner = (type, depth) => (chance(0.85) ? `(${expression(type, depth - 1)})` : expression(type, depth - 1));
const any = (depth) => inner(pick(TYPES), depth);

/**
 * For each type, the functions that generate expressions of that type. Each function is picked with equal probability.
 */
const MAKERS = {
  text: [
    (depth) => `${inner('text', depth)} | ${pick(TEXT_FILTERS)}`,
    (depth) => `${inner('text', depth)} | ${pick(TEXT_FILTERS)}`,
    (depth) => `${inner('text', depth)}${pick(TEXT_METHODS)}`,
    (depth) => `${inner('text', depth)}${pick(TEXT_METHODS)}`,
    (depth) => `${inner('text', depth)} + ${inner('text', depth)}`,
    (depth) => `${any(depth)} ~ ${any(depth)}`,
    (depth) => `${any(depth)} | ${pick(['string', 'tojson', 'tojson(indent=2)', 'tojson(ensure_ascii=true)', 'safe'])}`,
    (depth) =>
      `${inner('list', depth)} | ${pick(["join(', ')", 'join', "join('-', attribute='m')", 'tojson', 'string'])}`,
    (depth) => `${inner('text', depth)} * ${pick(['0', '2', '3', '-1', 'true'])}`,
    (depth) => `'{:${pick(SPECIFICATIONS)}}'.format(${inner(pick(['number', 'number', 'text']), depth)})`,
    (depth) => `'${pick(CONVERSIONS)}' % ${inner(pick(['number', 'number', 'text']), depth)}`,
    () => `'{!r:>8}|{0}'.format(${pick(ATOMS[pick(TYPES)])})`,
  ],
  number: [
    (depth) => `${inner('number', depth)} ${pick(words('+ - * / // %'))} ${inner('number', depth)}`,
    (depth) => `${inner('number', depth)} ${pick(words('+ - * / // %'))} ${inner('number', depth)}`,
    (depth) => `${inner('number', depth)} ** 2`,
    (depth) =>
      `${inner('number', depth)} | ${pick(['int', 'float', 'abs', 'round', 'round(1)', 'round(2)', 'round(-1)'])}`,
    (depth) => `${inner('number', depth)} | ${pick(['round(1, "ceil")', 'round(0, "floor")'])}`,
    (depth) => `${inner('text', depth)} | ${pick(['length', 'int', 'float', 'int(7)', 'wordcount', 'int(base=16)'])}`,
    (depth) => `${inner('text', depth)}${pick([".count('a')", ".find('b')", ".rfind('a')"])}`,
    (depth) =>
      `${inner('list', depth)} | ${pick(['length', 'sum', 'max', 'min', 'first', 'last', "sum(attribute='n')"])}`,
    (depth) => `-${inner('number', depth)}`,
  ],
  list: [
    (depth) => `${inner('list', depth)} | ${pick(LIST_FILTERS)}`,
    (depth) => `${inner('list', depth)} | ${pick(LIST_FILTERS)}`,
    (depth) => `${inner('list', depth)}${pick(words('[1:] [:-1] [::-1] [::2] [-2:] [none:1] [5:] [2:0:-1]'))}`,
    (depth) => `${inner('list', depth)} + ${inner('list', depth)}`,
    (depth) => `${inner('list', depth)} * 2`,
    (depth) => `${inner('text', depth)}${pick(SPLITS)}`,
    (depth) => `${inner('dict', depth)}${pick(VIEWS)}`,
    (depth) => `[${any(depth)}, ${any(depth)}]`,
  ],
  dict: [
    (depth) => `{'p': ${any(depth)}, 'q': ${any(depth)}}`,
    (depth) => `dict(${expression('dict', depth - 1)}, z=${pick(ATOMS[pick(TYPES)])})`,
    (depth) => `${inner('dict', depth)}.copy()`,
    (depth) => `{${pick(ATOMS[pick(['text', 'number', 'other'])])}: ${any(depth)}}`,
  ],
  other: [
    (depth) => `${any(depth)} is ${chance(0.2) ? 'not ' : ''}${pick(TESTS)}`,
    (depth) =>
      `${inner('number', depth)} is ${pick(['odd', 'even', 'divisibleby 3', 'gt 1', 'le 2', 'integer', 'float'])}`,
    (depth) => compared(pick(['text', 'number', 'list']), depth, words('== != < <= > >=')),
    (depth) => compared('dict', depth, words('== !=')),
    (depth) => `${inner('text', depth)}${pick([' in ', ' not in '])}${inner('text', depth)}`,
    (depth) => `${any(depth)}${pick([' in ', ' not in '])}${inner(pick(['list', 'dict']), depth)}`,
    (depth) => `${any(depth)}${pick([' and ', ' or '])}${any(depth)}`,
    (depth) => `not ${any(depth)}`,
    (depth) => `${inner('text', depth)}${pick(QUESTIONS)}`,
    (depth) => `${any(depth)} if ${any(depth)} else ${any(depth)}`,
  ],
};

const compared = (type, depth, operators) => `${inner(type, depth)} ${pick(operators)} ${inner(type, depth)}`;

function expression(type, depth) {
  if (depth <= 0 || chance(0.12)) return pick(ATOMS[type]);
  return pick(MAKERS[chance(0.03) ? pick(TYPES) : type])(depth);
}

const value = (depth) => expression(pick(TYPES), depth);
const space = () => pick(['', '', ' ', '\n', '\n  ', '  \n', 'text ', '\t', ' \n\n']);
const sign = () => pick(['', '', '', '-', '+']);
const tag = (head) => `{%${sign()} ${head} ${sign()}%}`;
const minus = () => pick(['', '', '', '-']);

const ITERABLES = [...ATOMS.list, 'd.items()', 'd', "'ab'", 'd | dictsort', '[1, 2, 3, 4]'];
const IN_LOOP = [
  ...['', '{{ loop.index }}', '{{ loop.last }}{{ loop.length }}', '{% if loop.first %}F{% endif %}', '{{ x }}'],
  ...[
    '{% if loop.index == 2 %}{% break %}{% endif %}',
    '{% if x %}{% continue %}{% endif %}c',
    '{{ loop.changed(x) }}',
  ],
  ...['{{ loop.previtem }}{{ loop.nextitem }}', '{{ loop.revindex0 }}{{ loop.cycle(1, 2) }}', '{% set x = 5 %}{{ x }}'],
  ...['{% set ns.n = ns.n + 1 %}{{ ns.n }}', '{% set v = v ~ 1 %}{{ v }}'],
];
const CALLS = [
  '{{ m(1) }}',
  '{{ m(x, q=2) }}',
  '{{ m(1, 2, 3) }}',
  '{{ m(z=1) }}',
  '{% call m(1) %}C{{ x }}{% endcall %}',
];
const SPECIAL = ['', '{{ varargs }}', '{{ kwargs }}', '{{ caller() if caller }}'];

const STATEMENTS = [
  (depth) =>
    `${tag(`if ${value(2)}`)}${space()}${statement(depth)}${chance(0.5) ? tag(`elif ${value(2)}`) + statement(depth) : ''}${chance(0.5) ? tag('else') + space() + statement(depth) : ''}${tag('endif')}${space()}`,
  (depth) =>
    `${space()}${tag(`for ${pick(['x', 'i', 'a, b', 'x'])} in ${pick(ITERABLES)}${chance(0.2) ? ` if ${value(2)}` : ''}`)}${space()}${statement(depth)}${pick(IN_LOOP)}${chance(0.3) ? '{% else %}E' : ''}${tag('endfor')}`,
  () => `${tag(`set ${pick(['x', 'v', 'd', 'y'])} = ${value(2)}`)}${space()}`,
  (depth) => `${tag(`set x ${pick(['', '| upper', '| trim | length'])}`)}${statement(depth)}${tag('endset')}{{ x }}`,
  (depth) =>
    `${tag(`macro m(p, q=${pick(['1', 'none', 'x', 'p'])})`)}${statement(depth)}{{ p }}{{ q }}${pick(SPECIAL)}${tag('endmacro')}${pick(CALLS)}`,
  () => `{#${sign()} comment ${sign()}#}${space()}`,
  (depth) => `{% with x = ${value(2)} %}${statement(depth)}{% endwith %}`,
  (depth) => `{% filter ${pick(['upper', 'trim', "replace('a', 'b')"])} %}${statement(depth)}{% endfilter %}`,
  () => `${tag('raw').replace('{%+', '{%')}${space()}{{ x }}${space()}${tag('endraw')}${space()}`,
  (depth) => statement(depth) + statement(depth),
];

function statement(depth) {
  if (depth <= 1 || chance(0.3)) return `${space()}{{${minus()} ${value(2)} ${minus()}}}${space()}`;
  return pick(STATEMENTS)(depth - 1);
}

for (let index = 0; index < Number(count); index++) {
  const template = chance(0.5)
    ? `{{ ${value(2 + Math.floor(random() * 3))} }}`
    : `{% set ns = namespace(n=0) %}${statement(4)}${statement(3)}`;
  process.stdout.write(`${JSON.stringify({ template, context })}\n`);
}
