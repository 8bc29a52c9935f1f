// Deletes downloaded weights from a cache on disk.

import { existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import t from 'tap';
import type { Test } from 'tap';
import { HubCache } from '../../src/hub/hub-cache.js';
import { parseModelRef } from '../../src/hub/model-ref.js';
import { removable, remove } from '../../src/hub/remove.js';

const REPO = 'acme/two-GGUF';
const [NEW, OLD] = ['a'.repeat(40), 'b'.repeat(40)];

/** A cache with two quantizations in two revisions; Q8_0 is the same file in both. */
function filledCache(t: Test): HubCache {
  const root = mkdtempSync(join(tmpdir(), 'monolith-remove-'));
  t.teardown(() => rmSync(root, { recursive: true, force: true }));
  const cache = new HubCache(root);
  const put = (commit: string, path: string, letter: string, bytes: number): void => {
    const file = { path, bytes, hash: letter.repeat(64) };
    mkdirSync(dirname(cache.blob(REPO, file.hash)), { recursive: true });
    writeFileSync(cache.blob(REPO, file.hash), Buffer.alloc(bytes));
    cache.link(REPO, commit, file);
  };
  put(OLD, 'two-Q8_0.gguf', '8', 800);
  put(OLD, 'two-Q4_0.gguf', '4', 400);
  put(NEW, 'two-Q8_0.gguf', '8', 800);
  put(NEW, 'two-Q4_0.gguf', '5', 500);
  put(NEW, 'mmproj-F16.gguf', '1', 100);
  cache.setRef(REPO, 'main', NEW);
  return cache;
}

const has = (cache: HubCache, letter: string): boolean => existsSync(cache.blob(REPO, letter.repeat(64)));

t.test('deletes one quantization in all revisions, and keeps what other weights use', (t) => {
  const cache = filledCache(t);
  const found = removable(cache, parseModelRef(`${REPO}:q4_0`));
  t.match(found, { isWhole: false, bytes: 900 });
  remove(cache, found);
  t.same(
    ['8', '4', '5', '1'].map((letter) => has(cache, letter)),
    [true, false, false, true],
  );
  t.throws(() => removable(cache, parseModelRef(`${REPO}:Q4_0`)), {
    message: `${REPO}:Q4_0 is not on disk; ${REPO} has Q8_0`,
  });
  t.end();
});

t.test('keeps a file that another revision still links to', (t) => {
  const cache = filledCache(t);
  remove(cache, removable(cache, parseModelRef(`${REPO}:Q8_0@${OLD}`)));
  t.ok(has(cache, '8'));
  t.equal(removable(cache, parseModelRef(`${REPO}:Q8_0`)).entries.length, 1);
  t.end();
});

t.test('deletes the whole repository, but not during a download', (t) => {
  const cache = filledCache(t);
  const found = removable(cache, parseModelRef(REPO));
  t.match(found, { isWhole: true, bytes: 1_800 });
  const partial = cache.partial(REPO, 'c'.repeat(64));
  writeFileSync(partial, 'x');
  t.throws(() => remove(cache, found), { message: /is being downloaded/ });
  t.ok(has(cache, '8'));
  rmSync(partial);
  remove(cache, found);
  t.notOk(existsSync(cache.folder(REPO)));
  t.end();
});
