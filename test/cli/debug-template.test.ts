// Tests `monolith debug template`, which renders a template for each context on stdin.
import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import t from 'tap';
import { packageRoot } from '../../src/engine/load-addon.js';

t.setTimeout(120_000);

const scratch = mkdtempSync(join(tmpdir(), 'monolith-template-'));
t.teardown(() => rmSync(scratch, { recursive: true, force: true }));
const env = { ...process.env, HOME: scratch, MONOLITH_DATA_DIR: scratch };

function rendered(template: string, lines: string): { status: number | null; out: unknown[]; err: string } {
  const file = join(scratch, 'template.jinja');
  writeFileSync(file, template);
  const args = [join(packageRoot, 'dist', 'main.js'), 'debug', 'template', '--template', file];
  const { status, stdout, stderr } = spawnSync(process.execPath, args, { input: lines, encoding: 'utf8', env });
  const out = stdout.split('\n').slice(0, -1);
  return { status, out: out.map((line) => JSON.parse(line) as unknown), err: stderr };
}

t.test('prints the text or the error of each context', async (t) => {
  const template =
    "{% for m in messages %}{{ m.content }}{% if m.content == 'no' %}{{ raise_exception('Not this!') }}{% endif %}{% endfor %}|{{ x }}|{{ strftime_now('%d %b %Y') }}|{{ now is defined }}";
  const { status, out } = rendered(
    template,
    [
      '{"messages": [{"content": "a\u2028b"}], "x": [9007199254740993, 1.0, 1e21], "now": "2026-03-09T14:05:07"}',
      '{"messages": [{"content": "no"}]}',
      '{"messages": 5}',
      '[]',
      '{"messages": [',
      '{"messages": [], "now": "2026-12-31T00:00:00"}',
    ].join('\n'),
  );
  t.equal(status, 0);
  t.match(out, [
    { text: 'a\u2028b|[9007199254740993, 1.0, 1e+21]|09 Mar 2026|False' },
    { error: 'Not this!' },
    { error: "'int' object is not iterable" },
    { error: 'the context is not a JSON object' },
    { error: /the text is not JSON at position 14/ },
    { text: '||31 Dec 2026|False' },
  ]);
});

t.test('prints the same error for each context if the template does not parse', async (t) => {
  const { status, out } = rendered('a\n{% if %}', '{}\n{}\n');
  t.equal(status, 0);
  t.match(out, [{ error: /^line 2: / }, { error: /^line 2: / }]);
});

t.test('needs a template that can be read', async (t) => {
  const main = join(packageRoot, 'dist', 'main.js');
  for (const [args, reason] of [
    [[], /--template FILE is required/],
    [['--template', join(scratch, 'none')], /cannot read .*none/],
  ] as const) {
    const { status, stderr } = spawnSync(process.execPath, [main, 'debug', 'template', ...args], {
      encoding: 'utf8',
      env,
    });
    t.equal(status, 2);
    t.match(stderr, reason);
  }
});
