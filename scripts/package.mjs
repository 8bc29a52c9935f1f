// npm run package [-- as-built] [-- unpacked] [-- cuda] [-- folder=PATH]: builds the npm packages, as directories and
// tarballs, in build/package:
//
//   monolith-server                     compiled TypeScript, page, C++ sources
//   monolith-server-models              the demonstration models
//   monolith-server-linux-<cpu>         the engine for this machine's processor type, one file for all Node versions
//                                       (Node-API); the HTTP library for the Node version that packs it and for the
//                                       container image's (another version's server runs on node:http)
//   monolith-server-linux-<cpu>-cuda    with `cuda`: the same with the CUDA backend, an optional package
//
// No package has an install script. `as-built` packs the existing build; `unpacked` creates only the directories.
import { spawnSync } from 'node:child_process';
import { cpSync, existsSync, mkdirSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join, resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import {
  buildNative,
  buildTypeScript,
  buildWeb,
  ensurePackages,
  ensureTools,
  root,
  run,
  say,
  SetupError,
} from './setup.mjs';

const kName = 'monolith-server';
const kModels = `${kName}-models`;
const kProcessors = ['x64', 'arm64'];
// Dependencies that are not needed outside a checkout, or that are included in the platform package.
const kNotShipped = ['cmake-js', 'uWebSockets.js'];
const kScripts = [
  'setup.mjs',
  'common.mjs',
  'native-stamp.mjs',
  'progress.mjs',
  'run-command.mjs',
  'tools.mjs',
  'packaging/command.mjs',
];
/** `process.versions.modules` of the Node version in the Containerfile. */
const kImageModules = '137';

const words = process.argv.slice(2);
const has = (word) => words.includes(word);
const unknown = words.find((word) => !/^(as-built|unpacked|cuda|folder=.+)$/.test(word));
const out = resolve(
  words.find((word) => word.startsWith('folder='))?.slice('folder='.length) ?? join(root, 'build', 'package'),
);
const own = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));
const common = { version: own.version, license: own.license, os: ['linux'], libc: ['glibc'] };
const platform = `${kName}-linux-${process.arch}${has('cuda') ? '-cuda' : ''}`;

function fresh(name) {
  const folder = join(out, name);
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder, { recursive: true });
  return folder;
}

function write(folder, manifest, readme) {
  writeFileSync(join(folder, 'package.json'), `${JSON.stringify(manifest, null, 2)}\n`);
  if (readme !== undefined) writeFileSync(join(folder, 'README.md'), readme);
  cpSync(join(root, 'LICENSE'), join(folder, 'LICENSE'));
}

function mainPackage() {
  const folder = fresh(kName);
  const copy = (path, filter = () => true) =>
    cpSync(join(root, path), join(folder, path), {
      recursive: true,
      filter: (from) => filter(from.slice(root.length)),
    });
  copy('dist', (path) => !/(\.tsbuildinfo|\.map|\.d\.ts|\/\.sources|\/\.checked)$|dist\/\.web-/.test(path));
  copy('native');
  copy(join('models', 'catalog.json'));
  for (const name of kScripts) copy(join('scripts', name));
  for (const name of ['THIRD-PARTY-NOTICES.md', 'docs']) copy(name, (path) => !path.startsWith('docs/images'));
  const engines = Object.fromEntries(kProcessors.map((cpu) => [`${kName}-linux-${cpu}`, own.version]));
  const withCuda = Object.keys(engines).map((name) => `${name}-cuda`);
  write(folder, {
    name: kName,
    ...common,
    description: own.description,
    type: 'module',
    engines: own.engines,
    bin: { monolith: 'scripts/packaging/command.mjs', [kName]: 'scripts/packaging/command.mjs' },
    dependencies: {
      ...Object.fromEntries(Object.entries(own.dependencies).filter(([name]) => !kNotShipped.includes(name))),
      [kModels]: own.version,
    },
    optionalDependencies: engines,
    peerDependencies: Object.fromEntries(withCuda.map((name) => [name, own.version])),
    peerDependenciesMeta: Object.fromEntries(withCuda.map((name) => [name, { optional: true }])),
  });
  cpSync(join(root, 'README.md'), join(folder, 'README.md'));
  return folder;
}

function modelsPackage() {
  const folder = fresh(kModels);
  const files = readdirSync(join(root, 'models')).filter((name) => name.endsWith('.gguf'));
  for (const name of files) cpSync(join(root, 'models', name), join(folder, name));
  write(
    folder,
    {
      name: kModels,
      version: own.version,
      license: own.license,
      description: `The demonstration models of ${kName} (${megabytes(folder)} MB).`,
    },
    readFileSync(join(root, 'models', 'README.md'), 'utf8'),
  );
  return folder;
}

/** Total size of a directory's files, in MB (10^6 bytes). */
function megabytes(folder) {
  const files = readdirSync(folder, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile());
  return Math.ceil(files.reduce((sum, { parentPath, name }) => sum + statSync(join(parentPath, name)).size, 0) / 1e6);
}

/** Copies the HTTP library, already patched (docs/reference/security.md): an installed package may be read-only. */
async function addHttpLibrary(folder) {
  const { changedBinary } = await import(pathToFileURL(join(root, 'dist', 'http', 'uws.js')).href);
  const library = dirname(createRequire(import.meta.url).resolve('uWebSockets.js'));
  for (const modules of new Set([process.versions.modules, kImageModules])) {
    const name = `uws_linux_${process.arch}_${modules}.node`;
    if (!existsSync(join(library, name))) continue; // there is no binary for this Node version
    const { content, changed } = changedBinary(readFileSync(join(library, name)));
    if (!changed) throw new SetupError(`package: ${name} does not have the layout that src/http/uws-pages.ts expects`);
    writeFileSync(join(folder, name), content, { mode: 0o755 });
  }
}

async function platformPackage() {
  const folder = fresh(platform);
  const addon = join(root, 'build', 'Release', 'monolith.node');
  if (!existsSync(addon)) throw new SetupError('package: the engine is not built; run without "as-built"');
  // MONOLITH_CUDA=ON without nvcc builds no CUDA backend.
  const cache = join(root, 'build', 'native', 'CMakeCache.txt');
  if (has('cuda') && !/^MONOLITH_CUDART:[A-Z]+=\//m.test(existsSync(cache) ? readFileSync(cache, 'utf8') : ''))
    throw new SetupError('package: nvcc, which builds the CUDA backend, was not found');
  cpSync(addon, join(folder, 'monolith.node'));
  await addHttpLibrary(folder);
  write(
    folder,
    {
      name: platform,
      ...common,
      description: `The engine of ${kName}${has('cuda') ? ', with its CUDA backend,' : ''} for Linux on ${process.arch}.`,
      cpu: [process.arch],
      main: 'monolith.node',
    },
    `# ${platform}\n\nThe engine of ${kName} for this platform${has('cuda') ? ', with the CUDA backend. Install it next to' : ', installed automatically with'} ${kName}. It is not used on its own.\n`,
  );
  return folder;
}

function pack(folder) {
  const { status, stdout, stderr } = spawnSync('npm', ['pack', '--pack-destination', out, '--loglevel=error', folder], {
    cwd: out,
    encoding: 'utf8',
  });
  if (status !== 0) throw new SetupError(`npm pack failed: ${stderr}`);
  const tarball = join(out, stdout.trim().split('\n').at(-1));
  say(`${tarball}: ${(statSync(tarball).size / 1e6).toFixed(1)} MB, unpacked ${megabytes(folder)} MB`);
}

await run(async () => {
  if (unknown !== undefined)
    throw new SetupError(`package: unknown argument "${unknown}"; expected as-built, unpacked, cuda or folder=PATH`);
  if (!has('as-built')) {
    await ensureTools();
    ensurePackages();
    if (has('cuda')) process.env.MONOLITH_BUILD_CUDA = '1';
    await buildNative();
    await buildTypeScript();
    await buildWeb();
  }
  const folders = [mainPackage(), modelsPackage(), await platformPackage()];
  if (!has('unpacked')) folders.forEach(pack);
});
