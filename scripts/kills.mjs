// npm run kills -- [--rounds N] [--seed N] [--first N] [--ready-ms N]: kills a real server under load with SIGKILL at
// random moments, restarts it and checks its data. See docs/internals/simulation.md. A round takes two to three seconds
// of CPU time.
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
 * Bundles the modules of dist/ into a few files. This halves the startup time, most of which is spent finding, reading
 * and linking a thousand modules in three threads. Native packages and modules loaded by path are not bundled.
 */
async function bundled() {
  const page = createRequire(join(root, 'src', 'dashboard', 'web', 'package.json'));
  // Rolldown is Vite's bundler.
  const { rolldown } = await import(pathToFileURL(createRequire(page.resolve('vite')).resolve('rolldown')).href);
  const folder = join(root, 'build', 'kills');
  const dist = join(folder, 'dist');
  const entries = ['main', 'server/workers/worker', 'storage/lmdb/database-work', 'bench/tune/child'];
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(join(dist, 'server', 'workers'), { recursive: true });
  const build = await rolldown({
    input: {
      ...Object.fromEntries(entries.map((name) => [name, join(root, 'dist', `${name}.js`)])),
      // Started by a chunk, so it must be in the chunks' directory.
      'server/workers/tier-worker': join(root, 'dist', 'engine', 'kv-tier', 'tier-worker.js'),
    },
    platform: 'node',
    logLevel: 'warn',
    external: /^(lmdb|sharp|msgpackr|uWebSockets\.js|pg-native|@opentelemetry.*)$/,
  });
  await build.write({
    dir: dist,
    format: 'esm',
    entryFileNames: '[name].js',
    chunkFileNames: 'server/workers/[name]-[hash].js',
  }); // in the same directory as worker.js
  // The server reads its version from this file.
  for (const place of [folder, dist]) copyFileSync(join(root, 'package.json'), join(place, 'package.json'));
  return join(dist, 'main.js');
}
