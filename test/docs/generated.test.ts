// Checks that the generated reference pages match the declarations in src.

import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import t from 'tap';
import { commands } from '../../src/cli/commands.js';
import { packageRoot } from '../../src/engine/load-addon.js';

interface Script {
  pages(built: string): Promise<Readonly<Record<string, string>>>;
  stalePages(wanted: Readonly<Record<string, string>>, at?: string): string[];
}

const { pages, stalePages } = (await import(pathToFileURL(join(packageRoot, 'scripts', 'docs.mjs')).href)) as Script;
const wanted = await pages(join(import.meta.dirname, '..', '..', 'src'));

t.test('the generated pages are up to date (npm run docs writes them)', async (t) => {
  t.same(Object.keys(wanted), ['settings.md', 'errors.md', 'metrics.md', 'cli.md', '../guides/models.md']);
  t.same(stalePages(wanted), []);
});

t.test('the check reports a page that is missing or differs in one character', async (t) => {
  const docs = mkdtempSync(join(tmpdir(), 'monolith-docs-'));
  t.teardown(() => rmSync(docs, { recursive: true, force: true }));
  const folder = join(docs, 'reference');
  for (const name of ['reference', 'guides']) mkdirSync(join(docs, name));
  for (const [name, text] of Object.entries(wanted)) writeFileSync(join(folder, name), text);
  t.same(stalePages(wanted, folder), []);
  writeFileSync(join(folder, 'errors.md'), (wanted['errors.md'] ?? '').replace('429', '428'));
  rmSync(join(folder, 'cli.md'));
  t.same(stalePages(wanted, folder), ['errors.md', 'cli.md']);
});

t.test('the pages contain every command, every error code and every kind of metric', async (t) => {
  for (const { name: command } of commands) {
    t.match(wanted['cli.md'], new RegExp(`^## monolith ${command}$`, 'm'), command);
    t.match(wanted['cli.md'], new RegExp(`^  ${command} `, 'm'), `${command} in the list`);
  }
  t.equal(wanted['cli.md']?.match(/^Usage: monolith/gm)?.length, commands.length + 3, 'a usage line for each section');
  t.match(wanted['errors.md'], /^\| `rpm_limit_exceeded` \| .+ \| .+ \| .+ \|$/m);
  for (const line of [
    /^\| `monolith_outcomes_total` \| counter \| `kind`, `endpoint`, `outcome`, `code` \| /m,
    /^\| `monolith_kv_pages` \| gauge \| `model`, `state` \| /m,
    /^\| `monolith_redis_unavailable` \| gauge \|  \| /m,
    /^\| `vllm:num_requests_running` \| gauge \|/m,
  ]) {
    t.match(wanted['metrics.md'], line);
  }
});
