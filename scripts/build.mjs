// npm run build [native | ts | web] [tests]: the addon, dist/, the dashboard's page, or without a word all; with
// `tests` also what is tested and measured.
import { buildNative, buildTypeScript, buildWeb, ensurePackages, ensureTools, run, SetupError } from './setup.mjs';

const words = process.argv.slice(2);

await run(async () => {
  for (const word of words) {
    if (!['native', 'ts', 'web', 'tests'].includes(word))
      throw new SetupError(`build: "${word}" is none of native, ts, web, tests`);
  }
  const tests = words.includes('tests');
  const all = !['native', 'ts', 'web'].some((word) => words.includes(word));
  ensureTools({ addon: all || words.includes('native') });
  ensurePackages();
  if (all || words.includes('native')) await buildNative({ tests });
  if (all || words.includes('ts')) await buildTypeScript({ tests });
  if (all || words.includes('web')) await buildWeb({ check: true });
});
