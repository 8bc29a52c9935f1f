// The finder of missing tests: which small faults it makes, and that it compiles them.
import t from 'tap';

interface Mutant { start: number; end: number; text: string; line: number; what: string }
const { mutantsOf, compiled } = await import(new URL('../../../scripts/mutants/operators.mjs', import.meta.url).href) as {
  mutantsOf(name: string, text: string): Mutant[];
  compiled(name: string, text: string, mutant: Mutant): string;
};
const { chosen } = await import(new URL('../../../scripts/mutants/report.mjs', import.meta.url).href) as { chosen<T>(all: readonly T[], count: number, seed: number): T[] };

const SOURCE = `import { a } from './a.js';
export interface Limit { readonly most: 5 }
/** Never 7. */
export function f(x: number, list: string[]): number {
  if (x < 3 && list.some((one) => one === 'k')) a('x' + x);
  list.push('more than 1');
  return x > 10n ? -x : Math.min(x, 4);
}
`;

t.test('each place where a person slips, and nothing that no test could see', (t) => {
  const mutants = mutantsOf('f.ts', SOURCE);
  const done = mutants.map(({ line, what }) => `${line} ${what}`);
  for (const expected of ['5 condition is always true', '5 condition is always false', '5 < is <=', '5 3 is one more', '5 && is ||', '5 some is every', '5 === is !==', '5 statement is gone',
    '6 statement is gone', '7 > is >=', '7 10n is one more', '7 min is max', '7 4 is one more']) t.ok(done.includes(expected), expected);
  t.notOk(done.some((one) => /^[123] /.test(one)), 'imports, types and comments stay');
  t.notOk(done.includes('5 + is -'), 'words joined to words stay');
  t.end();
});

t.test('each is JavaScript that differs from what there was', (t) => {
  const whole = compiled('f.ts', SOURCE, { start: 0, end: 0, text: '', line: 1, what: '' });
  const texts = mutantsOf('f.ts', SOURCE).map((mutant) => compiled('f.ts', SOURCE, mutant));
  t.equal(new Set([whole, ...texts]).size, texts.length + 1);
  for (const text of texts) t.doesNotThrow(() => new Function(text.replace(/^import.*$/m, '').replace(/^export /gm, '')), text);
  t.end();
});

t.test('a seed takes the same ones again, in their order', (t) => {
  const all = Array.from({ length: 1_000 }, (_, i) => i);
  const some = chosen(all, 100, 7);
  t.same(some, chosen(all, 100, 7));
  t.same(some, [...some].sort((a, b) => a - b));
  t.notSame(some, chosen(all, 100, 8));
  t.same(chosen(all, 5_000, 7), all);
  t.end();
});
