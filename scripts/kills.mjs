// npm run kills -- [--rounds N] [--seed N] [--first N] [--ready-ms N]: a real server under load, killed with kill -9 at random
// moments, started again and checked: see docs/internals/simulation.md. Two to three seconds of a processor a round.
import { copyFileSync, mkdirSync, rmSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { buildNative, buildTypeScript, ensurePackages, root, run } from './setup.mjs';

await run(async () => {
  ensurePackages();
  await buildNative();
  await buildTypeScript({ tests: true });
  const main = join(root, 'build', 'test', 'kills', 'all-kills.js');
  process.env.MONOLITH_ADDON = join(root, 'build', 'Release', 'monolith.node');
  process.argv = [process.execPath, main, '--main', await bundled(), ...process.argv.slice(2)];
  await import(pathToFileURL(main).href);
});

/**
 * The modules of dist/ in a few files. Most of what a start costs is to find, read and link a thousand modules, in three
 * threads; so it costs half. Native packages, and what is loaded by its path, stay where they are.
 */
async function bundled() {
  const page = createRequire(join(root, 'src', 'dashboard', 'web', 'package.json'));
  const { rolldown } = await import(pathToFileURL(createRequire(page.resolve('vite')).resolve('rolldown')).href); // what the page is built with
  const folder = join(root, 'build', 'kills');
  const dist = join(folder, 'dist');
  const entries = ['main', 'server/workers/worker', 'storage/lmdb/database-work', 'bench/tune/child'];
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(join(dist, 'server', 'workers'), { recursive: true });
  const build = await rolldown({
    input: Object.fromEntries(entries.map((name) => [name, join(root, 'dist', `${name}.js`)])),
    platform: 'node',
    logLevel: 'warn',
    external: /^(lmdb|sharp|msgpackr|uWebSockets\.js|pg-native|@opentelemetry.*)$/,
  });
  await build.write({
    dir: dist,
    format: 'esm',
    entryFileNames: '[name].js',
    chunkFileNames: 'server/workers/[name]-[hash].js',
  }); // beside worker.js
  for (const place of [folder, dist]) copyFileSync(join(root, 'package.json'), join(place, 'package.json')); // whose version is read
  return join(dist, 'main.js');
}
