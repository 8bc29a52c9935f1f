// npm run build [native | ts] [tests]: the addon, dist/, or without a word both; with `tests` also what is
// tested and measured.
import { buildNative, buildTypeScript, ensurePackages, run, SetupError } from './setup.mjs';

const words = process.argv.slice(2);

await run(async () => {
  for (const word of words) {
    if (!['native', 'ts', 'tests'].includes(word)) throw new SetupError(`build: "${word}" is none of native, ts, tests`);
  }
  const tests = words.includes('tests');
  const all = words.includes('native') === words.includes('ts');
  ensurePackages();
  if (all || words.includes('native')) await buildNative({ tests });
  if (all || words.includes('ts')) await buildTypeScript({ tests });
});
