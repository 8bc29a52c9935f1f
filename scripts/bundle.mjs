// Bundles the modules that every test loads: tap, and the server that the tests start. Finding and reading hundreds of
// modules takes longer than most tests. Bundling needs Vite; without it, the tests load the separate modules.
import { existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { root } from './setup.mjs';

const build = join(root, 'build');
const hasVite = existsSync(join(root, 'node_modules', 'vite'));

async function bundle(options, output) {
  const { build } = await import('vite');
  await build({
    configFile: false,
    logLevel: 'error',
    root,
    publicDir: false,
    ...options,
    build: { ssr: true, target: 'node20', reportCompressedSize: false, ...output },
  });
}

/** Bundles tap as build/node_modules/tap, which Node.js finds before node_modules/tap. */
export async function bundleTap() {
  const tap = join(root, 'node_modules', 'tap');
  const folder = join(build, 'node_modules', 'tap');
  const description = join(folder, 'package.json');
  const { version } = JSON.parse(readFileSync(join(tap, 'package.json'), 'utf8'));
  if (existsSync(description) && JSON.parse(readFileSync(description, 'utf8')).version === version) return;
  rmSync(folder, { recursive: true, force: true });
  if (!hasVite) return;
  await bundle(
    { ssr: { noExternal: true } },
    {
      outDir: join(folder, 'node_modules', '@tapjs'), // tap leaves this directory out of stack traces
      rollupOptions: {
        input: join(tap, 'dist', 'esm', 'index.js'),
        output: { entryFileNames: 'index.mjs', codeSplitting: false },
      },
    },
  );
  writeFileSync(description, JSON.stringify({ name: 'tap', version, main: './node_modules/@tapjs/index.mjs' }));
}

// Entry points of worker threads and child processes of the server, each as a pair: the module that starts it, and its
// script.
const kThreads = [
  ['server/workers/http-workers.js', 'server/workers/worker.js'],
  ['engine/kv-tier/kv-tier.js', 'engine/kv-tier/tier-worker.js'],
  ['storage/lmdb/database-copy.js', 'storage/lmdb/database-work.js'],
  ['protocol/file-inputs/pdf/pdf-reader.js', 'protocol/file-inputs/pdf/pdf-worker.js'],
];

/** Bundles dist/ as build/server/main.js and returns its path, or dist/main.js if Vite is not installed. */
export async function bundleServer() {
  const dist = join(root, 'dist');
  if (!hasVite) return join(dist, 'main.js');
  const starters = kThreads.map(([starter]) => join(dist, starter));
  const nameOf = (script) => script.split('/').at(-1).replace('.js', '');
  await bundle(
    {
      // Modules look for other files relative to their own path in dist/. Only the bundled scripts are in build/server.
      plugins: [
        {
          name: 'paths',
          enforce: 'pre',
          transform: (code, id) =>
            starters.includes(id) || !code.includes('import.meta.url')
              ? null
              : { code: code.replaceAll('import.meta.url', JSON.stringify(pathToFileURL(id).href)), map: null },
        },
      ],
      ssr: { noExternal: ['zod'] },
    },
    {
      outDir: join(build, 'server'),
      emptyOutDir: true,
      rollupOptions: {
        input: Object.fromEntries(
          ['main.js', ...kThreads.map(([, script]) => script)].map((script) => [nameOf(script), join(dist, script)]),
        ),
        output: { entryFileNames: '[name].js', chunkFileNames: '[name]-[hash].js' },
      },
    },
  );
  return join(build, 'server', 'main.js');
}
