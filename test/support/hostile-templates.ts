// Random malicious chat templates. They use every language feature, nested, in loops and macros, on growing texts and
// lists. No template does anything costly unless the first message is `go`, so a server can still load it.
import type { Random } from './random.js';

const TEXTS = [
  "''",
  "'a'",
  "'ab'",
  "'\\n'",
  "'aaaaaaaaaaaaaaaaaaaaaaaaaaaab'",
  "'ä€😀'",
  "'%B%Y'",
  '" x y z "',
  "'\\u0000\\u0001'",
  "'key'",
];
const NUMBERS = [
  '0',
  '1',
  '2',
  '-1',
  '7',
  '60',
  '1000',
  '99999',
  '999999999',
  '9007199254740993',
  '2 ** 900',
  '1 - 2',
  '3.5',
];
const TESTS = [
  'boolean',
  'callable',
  'none',
  'string',
  'number',
  'iterable',
  'mapping',
  'sequence',
  'defined',
  'undefined',
];

export function hostileTemplate(random: Random): string {
  const one = (list: readonly string[]): string => random.pick(list);
  const makers = [text, list, mapping, number];
  const any = (depth: number): string => random.pick(makers)(depth);

  function text(depth: number): string {
    if (depth <= 0) return one(['a', 'b', 'ns.t', 'ns.t', 'big', 'messages[0].content', ...TEXTS]);
    const t = (): string => text(depth - 1);
    const l = (): string => list(depth - 1);
    switch (random.below(22)) {
      case 0:
      case 1:
      case 2:
        return `(${t()} ${one(['+', '~'])} ${t()})`;
      case 3:
        return `(${t()} ~ ${any(depth - 1)})`;
      case 4:
      case 5:
        return `(${t()} | replace(${t()}, ${t()}))`;
      case 6:
        return `(${t()}).replace(${t()}, ${t()}${one(['', ', 3', ', count=999999999'])})`;
      case 7:
        return `(${t()} | replace('', ${t()}))`;
      case 8:
        return `(${l()} | join(${t()}))`;
      case 9:
        return `(${t()} | join(${t()}))`;
      case 10:
        return `(${t()} | indent(${one(NUMBERS)}, true, true))`;
      case 11:
        return `(${any(depth - 1)} | tojson${one(['', '(indent=2)', `(indent=${one(NUMBERS)})`, '(ensure_ascii=true)', `(sort_keys=true, separators=(${t()}, ${t()}))`])})`;
      case 12:
        return `(${t()} | ${one(['upper', 'lower', 'title', 'capitalize', 'trim', 'indent', 'string', 'safe', 'join'])})`;
      case 13:
        return `(${t()}).${one(['upper()', 'lower()', 'strip()', 'lstrip()', 'rstrip()', 'title()', 'capitalize()'])}`;
      case 14:
        return `(${t()})[${one(['1:', ':-1', '::-1', '::2', '0', '-1', `${one(NUMBERS)}:${one(NUMBERS)}`])}]`;
      case 15:
        return `(${l()} | ${one(['join', 'string'])})`;
      case 16:
        return `m(${any(depth - 1)}, ${any(depth - 1)})`;
      case 17:
        return `f(${t()}, ${t()})`;
      case 18:
        return `(${t()} if ${condition(depth - 1)} else ${t()})`;
      case 19:
        return `strftime_now(${t()})`;
      case 20:
        return `(${l()})[${one(['0', '-1'])}] | default(${t()}, true) | string`;
      default:
        return `(${t()})[('re' ~ 'place')](${t()}, ${t()})`;
    }
  }

  function list(depth: number): string {
    if (depth <= 0) return one(['c', 'ns.l', 'ns.l', 'rows', 'messages', '[]']);
    const t = (): string => text(depth - 1);
    const l = (): string => list(depth - 1);
    switch (random.below(13)) {
      case 0:
      case 1:
        return `(${l()} + ${l()})`;
      case 2:
        return `[${any(depth - 1)}, ${any(depth - 1)}]`;
      case 3:
        return `(${t()}).split(${one(['', t(), t(), "'a', 2"])})`;
      case 4:
        return `range(${one(NUMBERS)})`;
      case 5:
        return `(${l()} | ${one(['list', 'reverse', 'unique', 'sort', 'sort(true, true)'])})`;
      case 6:
        return `(${l()})[${one(['1:', ':-1', '::-1', '::2', '0:60', `${one(NUMBERS)}:`])}]`;
      case 7:
        return `(${mapping(depth - 1)} | ${one(['items', 'dictsort', 'keys', 'values', "dictsort(true, 'value')"])})`;
      case 8:
        return `(${mapping(depth - 1)}).${one(['items', 'keys', 'values', 'dictsort'])}()`;
      case 9:
        return `(messages + messages) | ${one(["selectattr('role', 'equalto', 'user')", "rejectattr('key')", "map(attribute='content')", "sort(attribute='content')"])}`;
      case 10:
        return `(range(99999) | map(attribute='0.0.0', default=${t()}))`;
      case 11:
        return `[${l()}, ${l()}]`;
      default:
        return `(${t()} ~ 'a b').split()`;
    }
  }

  function mapping(depth: number): string {
    if (depth <= 0) return one(['messages[0]', "{'key': 1}", '{}']);
    return `{'key': ${any(depth - 1)}, ${text(0)}: ${any(depth - 1)}}`;
  }

  function number(depth: number): string {
    if (depth <= 0) return one([...NUMBERS, 'i', 'ns.n']);
    const n = (): string => number(depth - 1);
    switch (random.below(5)) {
      case 0:
        return `(${n()} ${one(['+', '-', '*', '/', '//', '%'])} ${n()})`;
      case 1:
        return `(${text(depth - 1)} | ${one(['length', 'int', 'float'])})`;
      case 2:
        return `(${list(depth - 1)} | length)`;
      case 3:
        return `(${n()} | ${one(['abs', 'int', 'float'])})`;
      default:
        return `(${text(depth - 1)}).length`;
    }
  }

  function condition(depth: number): string {
    const a = any(depth - 1);
    switch (random.below(6)) {
      case 0:
        return `(${a} ${one(['==', '!=', 'and', 'or'])} ${any(depth - 1)})`;
      case 1:
        return `(${text(depth - 1)} ${one(['in', 'not in'])} ${one([text(depth - 1), list(depth - 1)])})`;
      case 2:
        return `(${a} is ${one(TESTS)})`;
      case 3:
        return `(${text(depth - 1)} is ${one(['lower', 'upper'])})`;
      case 4:
        return `(${text(depth - 1)}).${one(['startswith', 'endswith'])}(${one([text(depth - 1), `(${text(0)}, ${text(0)})`])})`;
      default:
        return `(not ${number(depth - 1)} < ${number(depth - 1)})`;
    }
  }

  function statement(depth: number): string {
    const inner = (): string => statements(depth - 1);
    switch (random.below(depth <= 0 ? 8 : 15)) {
      case 0:
        return `{{ ${any(3)} }}`;
      case 1:
      case 2:
        return random.below(2) === 0
          ? `{% set ${one(['a', 'b', 'ns.t'])} = ${text(3)} %}`
          : `{% set ${one(['c', 'ns.l', 'rows'])} = ${list(3)} %}`;
      case 3:
        return '{% set ns.t = ns.t ~ ns.t %}{% set a = a + a %}';
      case 4:
        return '{% set ns.l = [ns.l, ns.l] %}{% set rows = rows + rows %}';
      case 5:
        return `{% set ns.t = ns.t | replace(${text(0)}, ${text(1)}) %}{% set a = a | replace('', a) %}`;
      case 6:
        return `{% set f = a.${one(['replace', 'replace', 'split', 'startswith'])} %}{% set b = f(b, ns.t) | string %}`;
      case 7:
        return `{% set ns.l = [ns.l, ${any(2)}] %}{% set ns.n = ${number(2)} %}`;
      case 8:
      case 9:
        return `{% for x in ${one(['rows', 'range(99999)', 'range(50)', 'messages', 'ns.l', list(2)])} %}${inner()}${one(['', '', '{% break %}', '{% continue %}'])}{% endfor %}`;
      case 10:
        return `{% for x in ${one(['range(99999)', 'rows'])} if ${condition(2)} %}${inner()}{% else %}${inner()}{% endfor %}`;
      case 11:
        return `{% if ${condition(2)} %}${inner()}{% else %}${inner()}{% endif %}`;
      case 12:
        return `{% set ${one(['a', 'b'])} %}${inner()}{% endset %}`;
      case 13:
        return `{% macro m(x, y=2) %}{{ x }}${inner()}{% endmacro %}{% call(z) m(${any(1)}) %}${inner()}{% endcall %}`;
      default:
        return `{% filter ${one(['upper', 'title', 'trim', 'indent(60, true)', `replace(${text(1)}, ${text(1)})`, 'tojson'])} %}${inner()}{% endfilter %}`;
    }
  }

  function statements(depth: number): string {
    return Array.from({ length: 1 + random.below(3) }, () => statement(depth)).join('');
  }

  const prelude =
    "{% set ns = namespace(t='ab', l=['ab'], n=2) %}{% set a = 'ab cd' %}{% set b = 'x' %}{% set c = ['b', 'a'] %}{% set i = 3 %}" +
    `{% set rows = range(40) %}{% set big = 'abcd ' %}${'{% set big = big ~ big %}'.repeat(random.below(20))}` +
    `{% set f = b.replace %}{% macro m(x, y=1) %}{{ x }}${one(['', '', '{{ m(x, y) }}', '{{ y }}{{ y }}'])}{% endmacro %}`;
  const body = statements(3);
  const repeated =
    random.below(2) === 0
      ? `{% for i in range(${one(['20', '60', '2000', '99999'])}) %}${body}{% endfor %}`
      : body.repeat(1 + random.below(6));
  return `{{ messages[0].content }}{% if messages[0].content == 'go' %}${prelude}${repeated}{% endif %}`;
}
