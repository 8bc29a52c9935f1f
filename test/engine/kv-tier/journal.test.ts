// Tests the journal with real files: it is read in chunks, and reports when it should be rewritten.
import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import t from 'tap';
import { Journal, type JournalEntry } from '../../../src/engine/kv-tier/journal.js';
import { nodeFiles } from '../../../src/engine/kv-tier/page-files.js';

const entriesOf = (count: number): JournalEntry[] =>
  Array.from({ length: count }, (_, i) => ['d', `entry ${i} ${'ä'.repeat(200)}`, i]);

t.test('a long journal is read back and is rewritten when it has grown', async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'kv-journal-'));
  t.teardown(() => rmSync(folder, { recursive: true, force: true }));
  const journal = new Journal(folder, nodeFiles, 10_000);
  const entries = entriesOf(6_000);
  await journal.rewrite(entries.slice(0, 1_000));
  t.notOk(journal.isLarge);
  for (let from = 1_000; from < 6_000; from += 1_000) await journal.append(entries.slice(from, from + 1_000));
  t.ok(journal.isLarge);
  t.ok(journal.bytes > 2 * 1024 ** 2, 'several chunks');
  t.same(await new Journal(folder, nodeFiles).read(), entries);
  await journal.rewrite(entries.slice(0, 10));
  t.notOk(journal.isLarge);
  t.ok(journal.bytes < 10_000);
  await journal.append([['x', 'last']]);
  await journal.close();
  t.equal(readdirSync(folder).length, 1);
  t.same(await new Journal(folder, nodeFiles).read(), [...entries.slice(0, 10), ['x', 'last']]);
});
