// npm run faults:processes -- [--rounds N] [--seed N] [--file PATH]: three processes, a PostgreSQL and a Redis under faults of
// one seed, and all that must be true of what was answered checked (docs/internals/simulation.md). A history that fails is written to
// PATH, build/rounds-SEED.jsonl by default. Some seconds a round.
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { buildNative, buildTypeScript, ensurePackages, root, run } from './setup.mjs';

await run(async () => {
  ensurePackages();
  await buildNative({});
  await buildTypeScript({ tests: true });
  await import(pathToFileURL(join(root, 'build', 'test', 'processes', 'all-rounds.js')).href);
});
