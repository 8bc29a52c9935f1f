// Runs the fuzz targets on their seeds and on the committed corpus, so that bugs found earlier stay fixed. The native
// tests replay the engine's targets (test/native/fuzz/replay_test.cc).
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import t from 'tap';
import { packageRoot } from '../../src/engine/load-addon.js';
import { targets } from './targets.js';

const { packOf, readPack } = (await import(
  pathToFileURL(join(packageRoot, 'scripts', 'fuzz', 'corpus-pack.mjs')).href
)) as {
  packOf(target: string): string;
  readPack(path: string): { name: string; bytes: Buffer }[];
};

const MAX_MS = 1_000;
const MAX_CORPUS = 100_000;

for (const [name, { seeds, run }] of Object.entries(targets)) {
  t.test(name, async (t) => {
    const corpus = readPack(packOf(name));
    const inputs = [
      ...seeds.map((seed, at) => [`seed ${at}`, Buffer.from(seed)] as const),
      ...corpus.map((input) => [input.name, input.bytes] as const),
    ];
    const bytes = inputs.reduce((sum, [, input]) => sum + input.length, 0);
    const failures: string[] = [];
    for (const [label, input] of inputs) {
      const before = process.cpuUsage();
      try {
        await run(new Uint8Array(input));
      } catch (error) {
        failures.push(`${label}: ${String(error)}`);
      }
      const { user, system } = process.cpuUsage(before);
      if ((user + system) / 1_000 > MAX_MS) failures.push(`${label}: ${(user + system) / 1_000} ms`);
    }
    t.same(failures, [], `${inputs.length} inputs of ${bytes} bytes`);
    t.ok(bytes < MAX_CORPUS, 'the corpus is small');
  });
}

t.test('the committed corpora are found', (t) => {
  t.equal(Object.keys(targets).filter((name) => readPack(packOf(name)).length > 0).length, 9);
  t.end();
});
