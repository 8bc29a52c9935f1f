// npm run faults:processes -- [--rounds N] [--seed N] [--file PATH]: runs three servers, PostgreSQL and Redis under
// seeded faults, and checks the history of responses against the rules in docs/internals/simulation.md. If a history
// breaks a rule, it is written to PATH (default build/rounds-SEED.jsonl). A round takes a few seconds.
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { buildNative, buildTypeScript, ensurePackages, root, run } from './setup.mjs';

await run(async () => {
  ensurePackages();
  await buildNative({});
  await buildTypeScript({ tests: true });
  await import(pathToFileURL(join(root, 'build', 'test', 'processes', 'all-rounds.js')).href);
});
