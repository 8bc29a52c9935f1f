// Kills a process that writes pages at a random moment, in many rounds. All pages that the process had reported as
// stored must be found after that, and no page that is read may be wrong.
import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { createInterface } from 'node:readline';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import t from 'tap';
import { organizationKeys, type PositionText } from '../../../src/engine/kv-tier/page-content.js';
import { nodeFiles } from '../../../src/engine/kv-tier/page-files.js';
import { PageStore } from '../../../src/engine/kv-tier/page-store.js';

const ENGINE = { key: Buffer.alloc(32, 7), tokenMs: 1 };
const ORGANIZATION = organizationKeys('org_a', Buffer.alloc(32, 1));
const PAGES = 4;
const ROUNDS = 5;

const textOf = (seed: number): PositionText => ({
  tokens: Int32Array.from({ length: 16 * PAGES }, (_, i) => seed * 1000 + i),
  spans: [],
});
const bytesOf = (page: number, seed: number): Buffer => Buffer.alloc(20_000, `page ${page} of ${seed}. `);
const opened = (folder: string): Promise<PageStore> => PageStore.open({ folder, files: nodeFiles, maxBytes: 1 << 27 });

async function write(folder: string, first: number): Promise<void> {
  const store = await opened(folder);
  for (let seed = first; ; seed++) {
    await store.put({
      engine: ENGINE,
      organization: ORGANIZATION,
      text: textOf(seed),
      pages: Array.from({ length: PAGES }, (_, index) => ({ index, parts: { full: bytesOf(index, seed) } })),
      label: `org_a resp_${seed}`,
      keepS: 0,
    });
    process.stdout.write(`${seed}\n`);
    if (seed % 7 === 3) await store.eraseLabels([`org_a resp_${seed}`]);
  }
}

if (process.argv[2] === 'write') {
  await write(process.argv[3]!, Number(process.argv[4]));
} else {
  t.setTimeout(300_000);
  t.test(`${ROUNDS} rounds of kill -9`, async (t) => {
    const folder = mkdtempSync(join(tmpdir(), 'kv-kill-'));
    t.teardown(() => rmSync(folder, { recursive: true, force: true }));
    const stored: number[] = [];
    for (let round = 0; round < ROUNDS; round++) {
      const first = round * 10_000;
      const child = spawn(process.execPath, [fileURLToPath(import.meta.url), 'write', folder, String(first)], {
        stdio: ['ignore', 'pipe', 'inherit'],
      });
      const exited = new Promise((resolve) => child.once('exit', resolve));
      // Half of the rounds are killed right after an acknowledgement, the others at any time.
      const wanted = 3 + Math.floor(Math.random() * 20);
      let last = -1;
      for await (const line of createInterface({ input: child.stdout })) {
        last = Number(line);
        stored.push(last);
        if (last - first >= wanted) {
          if (round % 2 === 1) await new Promise((done) => setTimeout(done, Math.random() * 20));
          child.kill('SIGKILL');
          break;
        }
      }
      await exited;
      const store = await opened(folder);
      for (const seed of stored) {
        const found = store.find(ENGINE, ORGANIZATION, textOf(seed), PAGES);
        const read = await store.read(ENGINE, ORGANIZATION, textOf(seed), new Map(found.map((parts, i) => [i, parts])));
        // It is not known how much of the last response was erased before the kill.
        const expected = seed % 7 !== 3 ? PAGES : seed === last ? read.size : 0;
        if (read.size !== expected) t.fail(`round ${round}: ${read.size} pages of ${seed}`);
        for (const [page, { full }] of read)
          if (!bytesOf(page, seed).equals(full!)) t.fail(`round ${round}: page ${page} of ${seed} is wrong`);
        // In later rounds, it is known whether the response was erased.
        if (seed === last && seed % 7 === 3) stored.splice(stored.indexOf(seed), 1);
      }
      t.ok(stored.length >= 3 * (round + 1));
      // Pages whose erasure was interrupted are overwritten but still in the index.
      const { corrupt, ...others } = store.counts.dropped;
      if (last % 7 !== 3) t.equal(corrupt, 0);
      t.same(others, { unreadable: 0, interrupted: 0 });
      await store.close();
    }
  });
}
