// npm run build [native | ts | tests]: without a word, the addon and dist/; `tests` adds everything that is
// tested or measured.
import { buildNative, buildTypeScript, ensurePackages, run, SetupError } from './setup.mjs';

const what = process.argv[2] ?? 'all';

await run(async () => {
  if (!['all', 'native', 'ts', 'tests'].includes(what)) throw new SetupError(`build: "${what}" is none of native, ts, tests`);
  ensurePackages();
  if (what !== 'ts') await buildNative({ tests: what === 'tests' });
  if (what !== 'native') await buildTypeScript({ tests: what === 'tests' });
});
