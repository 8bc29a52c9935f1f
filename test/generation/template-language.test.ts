// Compares the template language with Jinja2. test/data/templates/README.md describes how the expected texts were made.
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { gunzipSync } from 'node:zlib';
import t, { type Test } from 'tap';
import { packageRoot } from '../../src/engine/load-addon.js';
import { parseJson } from '../../src/generation/local/template/json.js';
import { RenderBudget, TemplateError } from '../../src/generation/local/template/limits.js';
import { Program } from '../../src/generation/local/template/program.js';
import { Run } from '../../src/generation/local/template/run.js';
import { TemplateFault, type Dict, type List, type Value } from '../../src/generation/local/template/values.js';

const folder = join(packageRoot, 'test/data/templates');
const NOW = '2026-03-09T14:05:07';

/** The text, or null if rendering fails. */
function rendered(template: string, context: Dict): string | null {
  const run = new Run(new RenderBudget(16_000_000), () => new Date(NOW));
  try {
    return new Program(template).render(run, [
      ['documents', null],
      ...(context.entries() as Iterable<[string, Value]>),
    ]);
  } catch (error) {
    if (error instanceof TemplateFault || error instanceof TemplateError) return null;
    throw error;
  }
}

function compare(t: Test, cases: readonly Value[], contextOf: (one: Dict) => Dict): void {
  let different = 0;
  for (const one of cases as readonly Dict[]) {
    const template = one.get('template') as string;
    const expected = (one.get('expected') as string | undefined) ?? null;
    const text = rendered(template, contextOf(one));
    if (text === expected) continue;
    different++;
    t.equal(text, expected, template);
  }
  t.equal(different, 0, `${cases.length} templates`);
}

t.test('each part of the language', async (t) => {
  const cases = parseJson(readFileSync(join(folder, 'language.json'), 'utf8')) as readonly Value[];
  compare(t, cases, (one) => one.get('context') as Dict);
});

t.test('random templates', async (t) => {
  const { context, cases } = Object.fromEntries(
    (parseJson(gunzipSync(readFileSync(join(folder, 'random.json.gz'))).toString()) as Dict).entries(),
  ) as { context: Dict; cases: readonly Value[] };
  compare(t, cases, () => context);
});

const published = [process.env['MONOLITH_TEMPLATES'], join(packageRoot, '../shared/templates')].find(
  (path) => path !== undefined && existsSync(join(path, 'cases')),
);

t.test(
  'published templates',
  { skip: published === undefined && 'MONOLITH_TEMPLATES does not name a folder of published templates' },
  async (t) => {
    for (const file of readdirSync(join(published as string, 'cases'))) {
      const name = file.replace(/\.json$/, '');
      const template = readFileSync(join(published as string, 'templates', `${name}.jinja`), 'utf8');
      const cases = parseJson(readFileSync(join(published as string, 'cases', file), 'utf8')) as List as Dict[];
      const different = cases.filter((one) => {
        const context = one.get('context') as Dict;
        return rendered(template, context) !== ((one.get('expected') as string | undefined) ?? null);
      });
      t.same(
        different.map((one) => one.get('case')),
        [],
        `${name}: ${cases.length} conversations`,
      );
    }
  },
);
