// npm run build [native | ts | web] [tests]: builds the addon, dist/ or the dashboard's web page; without an argument,
// all three. With `tests`, also builds the tests and benchmarks.
import { buildNative, buildTypeScript, buildWeb, ensurePackages, ensureTools, run, SetupError } from './setup.mjs';

const words = process.argv.slice(2);

await run(async () => {
  for (const word of words) {
    if (!['native', 'ts', 'web', 'tests'].includes(word))
      throw new SetupError(`build: unknown argument "${word}"; expected native, ts, web or tests`);
  }
  const tests = words.includes('tests');
  const all = !['native', 'ts', 'web'].some((word) => words.includes(word));
  await ensureTools({ addon: all || words.includes('native') });
  ensurePackages();
  if (all || words.includes('native')) await buildNative({ tests });
  if (all || words.includes('ts')) await buildTypeScript({ tests });
  if (all || words.includes('web')) await buildWeb({ check: true });
});
