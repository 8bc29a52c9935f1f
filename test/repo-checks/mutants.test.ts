// Tests mutation testing itself: which mutants are created, that they compile, and how survivors are tracked.
import t from 'tap';

interface Mutant {
  start: number;
  end: number;
  text: string;
  line: number;
  what: string;
}
const { mutantsOf, compiled } = (await import(
  new URL('../../../scripts/mutants/operators.mjs', import.meta.url).href
)) as {
  mutantsOf(name: string, text: string): Mutant[];
  compiled(name: string, text: string, mutant: Mutant): string;
};
interface Placed {
  source: string;
  line: number;
  what: string;
  code: string;
}
const { chosen, survivorsIn } = (await import(
  new URL('../../../scripts/mutants/report.mjs', import.meta.url).href
)) as {
  chosen<T>(all: readonly T[], count: number, seed: number): T[];
  survivorsIn<T extends Placed>(before: readonly (Placed & { killer: string | null })[], all: readonly T[]): T[];
};
interface Branch {
  count: number;
  throw: boolean;
  fallthrough: boolean;
}
type Counted = Map<number, boolean[][]>;
const { add, summary } = (await import(new URL('../../../scripts/coverage/native.mjs', import.meta.url).href)) as {
  add(files: Map<string, Counted>, path: string, lines: { line_number: number; branches: Branch[] }[]): void;
  summary(name: string, whole: string, counted: Counted): { name: string; taken: number; all: number; lines: number[] };
};
const { mutantsIn } = (await import(new URL('../../../scripts/mutants/native.mjs', import.meta.url).href)) as {
  mutantsIn(source: string, whole: string): (Placed & { text: string })[];
};

const SOURCE = `import { a } from './a.js';
export interface Limit { readonly most: 5 }
/** Never 7. */
export function f(x: number, list: string[]): number {
  if (x < 3 && list.some((one) => one === 'k')) a('x' + x);
  list.push('more than 1');
  return x > 10n ? -x : Math.min(x, 4);
}
`;

t.test(
  'mutates every operator, condition, constant and statement, but no imports, types, comments or string concatenations',
  (t) => {
    const mutants = mutantsOf('f.ts', SOURCE);
    const done = mutants.map(({ line, what }) => `${line} ${what}`);
    for (const expected of [
      '5 condition is always true',
      '5 condition is always false',
      '5 < is <=',
      '5 3 is one more',
      '5 && is ||',
      '5 some is every',
      '5 === is !==',
      '5 statement is gone',
      '6 statement is gone',
      '7 > is >=',
      '7 10n is one more',
      '7 min is max',
      '7 4 is one more',
    ])
      t.ok(done.includes(expected), expected);
    t.notOk(
      done.some((one) => /^[123] /.test(one)),
      'imports, types and comments are not mutated',
    );
    t.notOk(done.includes('5 + is -'), 'string concatenation is not mutated');
    t.end();
  },
);

t.test('every mutant compiles to JavaScript that differs from the original and from the others', (t) => {
  const whole = compiled('f.ts', SOURCE, { start: 0, end: 0, text: '', line: 1, what: '' });
  const texts = mutantsOf('f.ts', SOURCE).map((mutant) => compiled('f.ts', SOURCE, mutant));
  t.equal(new Set([whole, ...texts]).size, texts.length + 1);
  for (const text of texts)
    t.doesNotThrow(() => new Function(text.replace(/^import.*$/m, '').replace(/^export /gm, '')), text);
  t.end();
});

t.test('the same seed selects the same mutants, in source order', (t) => {
  const all = Array.from({ length: 1_000 }, (_, i) => i);
  const some = chosen(all, 100, 7);
  t.same(some, chosen(all, 100, 7));
  t.same(
    some,
    [...some].sort((a, b) => a - b),
  );
  t.notSame(some, chosen(all, 100, 8));
  t.same(chosen(all, 5_000, 7), all);
  t.end();
});

t.test('matches earlier survivors after lines have moved, each exactly once', (t) => {
  const one = { source: 'src/f.ts', line: 5, what: '< is <=', code: 'if (x < 3) {' };
  const all = [
    { ...one, line: 7 },
    { ...one, line: 30 },
    { ...one, line: 8, what: '3 is one more' },
    { ...one, source: 'src/g.ts' },
  ];
  t.same(survivorsIn([{ ...one, killer: null }], all), [all[0]]);
  t.same(
    survivorsIn(
      [
        { ...one, killer: null },
        { ...one, line: 28, killer: null },
      ],
      all,
    ),
    [all[0], all[1]],
  );
  t.same(
    survivorsIn(
      [
        { ...one, killer: 'some.test.js' },
        { ...one, code: 'gone', killer: null },
      ],
      all,
    ),
    [],
  );
  t.end();
});

t.test('C++ mutants change one place per line, and skip assertions, memory reservations and log output', (t) => {
  const source = [
    '#include <a>',
    'int f(int x) {',
    '  assert(x > 0);',
    '  list.reserve(1);',
    '  say("1 < 2");',
    '  if (x < 3 && !done) ++count;   // 0 < 1',
    '  release(x);',
    '  return x + 10;',
    '}',
  ];
  const found = mutantsIn('f.cc', source.join('\n'));
  t.same(
    found.map(({ line, text }) => `${line} ${text.trim()}`.trim()),
    [
      '6 if (x <= 3 && !done) ++count;',
      '6 if (x < 3 || !done) ++count;',
      '6 if (x < 3 && !done) --count;',
      '7',
      '8 return x - 10;',
    ],
  );
  t.equal(new Set(found.map(({ line, what }) => `${line} ${what}`)).size, found.length);
  t.end();
});

t.test('C++ branch coverage merges template instances and omits exception branches and assertions', (t) => {
  const of = (count: number, more: Partial<Branch> = {}): Branch => ({
    count,
    throw: false,
    fallthrough: false,
    ...more,
  });
  const files = new Map<string, Counted>();
  add(files, 'f.h', [
    { line_number: 1, branches: [of(3, { fallthrough: true }), of(0)] },
    { line_number: 2, branches: [of(9, { fallthrough: true }), of(0, { throw: true })] },
    { line_number: 3, branches: [of(9, { fallthrough: true }), of(0)] },
    { line_number: 4, branches: [of(9, { fallthrough: true }), of(0, { throw: true }), of(0), of(1)] },
  ]);
  add(files, 'f.h', [
    { line_number: 1, branches: [of(0), of(5)] },
    { line_number: 1, branches: [of(0), of(0), of(1)] },
  ]);
  t.same(summary('f.h', 'one\ntwo\n  assert(three);\nfour', files.get('f.h')!), {
    name: 'f.h',
    taken: 4,
    all: 7,
    lines: [1, 4],
  });
  t.end();
});
