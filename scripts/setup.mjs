// What a fresh clone needs before anything of it can run: packages, the addon, the compiled TypeScript.
// Plain Node, no packages: this runs when node_modules is not there yet. Each step looks first and does
// nothing on an unchanged tree. All output goes to stderr: stdout belongs to the server.
import { spawn, spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import {
  accessSync,
  constants as access,
  existsSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { availableParallelism, constants, totalmem } from 'node:os';
import { delimiter, dirname, extname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { brotliCompressSync, constants as zlib, gzipSync } from 'node:zlib';
import { about, progress } from './progress.mjs';

export { about };

export const root = fileURLToPath(new URL('..', import.meta.url));
const at = (...parts) => join(root, ...parts);

/** A failure whose message says all there is to say; printed without a stack. */
export class SetupError extends Error {}

export function say(text) {
  process.stderr.write(`monolith: ${text}\n`);
}

/**
 * Runs `main`, turning a SetupError, or words that no option is, into a line or two and exit code 1. `--help` prints what the
 * script says of itself at its beginning; with `passesHelp` it is for what `main` runs.
 */
export async function run(main, { passesHelp = false } = {}) {
  const [, script, ...words] = process.argv;
  if (words.includes('--help') && !passesHelp) return console.log(openingOf(script));
  try {
    await main();
  } catch (error) {
    const isWord = String(error?.code).startsWith('ERR_PARSE_ARGS_');
    if (!isWord && !(error instanceof SetupError)) throw error;
    say(isWord ? `${error.message.split('. ')[0].replace(/\.$/, '')}. --help tells which there are.` : error.message);
    process.exitCode = 1;
  }
}

/** The comment that a script begins with. */
function openingOf(script) {
  const lines = readFileSync(script, 'utf8').split('\n');
  const end = lines.findIndex((line) => !line.startsWith('//'));
  return lines
    .slice(0, end)
    .map((line) => line.replace(/^\/\/ ?/, ''))
    .join('\n');
}

/** The path of an executable, or null. */
export function which(name) {
  if (name.includes('/')) return existsSync(name) ? name : null;
  for (const folder of (process.env.PATH ?? '').split(delimiter)) {
    if (folder === '') continue;
    const path = join(folder, name);
    try {
      accessSync(path, access.X_OK);
      if (statSync(path).isFile()) return path;
    } catch {
      // not here
    }
  }
  return null;
}

// Compilers need up to about 1 GiB each: no more of them than memory carries.
export const parallel = Math.max(1, Math.min(availableParallelism(), Math.floor(totalmem() / 2 ** 30)));

// What build tools say when there was nothing to do.
const kIdle =
  /^(ninja: (no work to do|Entering directory)|\[\s*\d+%\] Built target|(gmake|make)(\[\d+\])?: |Consolidate compiler generated|\[0\/\d+\] Re-checking globbed|\[\d+\/\d+\] Re-checking|-- GLOB mismatch|info (CMD|RUN|TOOL) |\s*$)/;

/**
 * Runs a command with its output on stderr, idle chatter left out, and the steps of a build as progress. Throws
 * SetupError if it fails. A signal that ends this process ends all that the command has started.
 */
export async function sh(command, args, what) {
  const steps = progress(what);
  const stops = ['SIGINT', 'SIGTERM', 'SIGHUP'];
  let stop;
  const code = await new Promise((resolve, reject) => {
    const child = spawn(command, args, { cwd: root, stdio: ['ignore', 'pipe', 'pipe'], detached: true });
    stop = (signal) => {
      process.kill(-child.pid, signal);
      process.exit(128 + constants.signals[signal]);
    };
    for (const signal of stops) process.on(signal, stop);
    for (const stream of [child.stdout, child.stderr]) {
      let rest = '';
      const print = (line) => {
        if (kIdle.test(line) || steps.line(line)) return;
        steps.end();
        process.stderr.write(`${line}\n`);
      };
      stream
        .setEncoding('utf8')
        .on('data', (text) => {
          const lines = (rest + text).split('\n');
          rest = lines.pop();
          lines.forEach(print);
        })
        .on('end', () => rest === '' || print(rest));
    }
    child.on('error', reject).on('close', (exit, signal) => resolve(signal ?? exit));
  }).finally(() => {
    steps.end();
    stops.forEach((signal) => process.off(signal, stop));
  });
  if (code !== 0) throw new SetupError(`${what} failed (${command.split('/').at(-1)} ended with ${code}); see above`);
}

/** Names what is missing before anything is installed or built: with `addon`, what builds it too, where it is not built yet. */
export function ensureTools({ addon = true } = {}) {
  const [major] = process.versions.node.split('.').map(Number);
  if (major < 20) throw new SetupError(`Node 20 to 25 is needed; this is ${process.version}`);
  const missing = addon && !existsSync(kAddon) ? missingTools() : null;
  if (missing !== null) throw new SetupError(missing);
}

/** Installs packages if node_modules is absent or does not belong to package-lock.json. */
export function ensurePackages() {
  const lock = at('package-lock.json');
  const installed = at('node_modules', '.package-lock.json');
  const stamp = at('node_modules', '.monolith-lock');
  const hash = createHash('sha256').update(readFileSync(lock)).digest('hex');
  if (existsSync(stamp) && readFileSync(stamp, 'utf8') === hash) return;
  // Someone may have run npm by hand since the lock last changed: that is as good.
  const current = existsSync(installed) && statSync(installed).mtimeMs >= statSync(lock).mtimeMs;
  if (!current) {
    say('installing packages (npm ci): about a minute, or what the network takes');
    const npm = spawnSync('npm', ['ci', '--no-audit', '--no-fund', '--loglevel=error'], {
      cwd: root,
      stdio: ['ignore', 2, 2],
    });
    if (npm.error) throw new SetupError(`npm could not be started: ${npm.error.message}`);
    if (npm.status !== 0) throw new SetupError('npm ci failed; see above');
  }
  writeFileSync(stamp, hash);
}

const kAddon = at('build', 'Release', 'monolith.node');
const kNativeBuild = at('build', 'native');
export const kAddonSeconds = 300; // of one core, to compile it from nothing

/** The build tools that are missing, as a sentence, or null. */
export function missingTools() {
  const missing = [];
  if (!which('cmake')) missing.push('cmake');
  if (!which(process.env.CXX || 'c++') && !which('g++') && !which('clang++')) missing.push('g++');
  if (!which('ninja') && !which('make')) missing.push('ninja-build');
  if (missing.length === 0) return null;
  return (
    `the engine is C++ and is built on this machine, but ${missing.join(' and ')} ${missing.length > 1 ? 'are' : 'is'} not installed. ` +
    `On Debian or Ubuntu: sudo apt-get install ${missing.join(' ')}`
  );
}

/** Removes a CMake folder that cannot be used again: half configured, of a moved tree, of a tool that is gone. */
export function dropStaleBuild(folder) {
  if (!existsSync(folder)) return;
  const read = (cache, key) => new RegExp(`^${key}:[A-Z]+=(.*)$`, 'm').exec(cache)?.[1] ?? '';
  try {
    const cache = readFileSync(join(folder, 'CMakeCache.txt'), 'utf8');
    const usable =
      read(cache, 'CMAKE_HOME_DIRECTORY') === at('native') &&
      existsSync(read(cache, 'CMAKE_MAKE_PROGRAM')) &&
      existsSync(read(cache, 'CMAKE_CXX_COMPILER')) &&
      (existsSync(join(folder, 'build.ninja')) || existsSync(join(folder, 'Makefile')));
    if (usable) return;
  } catch {
    // no cache: nothing worth keeping
  }
  rmSync(folder, { recursive: true, force: true });
}

/** Builds the addon, with `tests` the native test executables too, and with `bench` that one of bench/native, from one set of libraries. */
export async function buildNative({ tests = false, bench = null } = {}) {
  const missing = missingTools();
  if (missing !== null) {
    if (!tests && existsSync(kAddon)) return say(`using the addon built before; ${missing}`);
    throw new SetupError(missing);
  }
  dropStaleBuild(kNativeBuild);
  if (!existsSync(kNativeBuild))
    say(
      `building the engine with ${parallel} compiler${parallel > 1 ? 's' : ''}: about ${about(kAddonSeconds / parallel)} on an idle machine, once`,
    );
  const targets = ['monolith', ...(tests ? ['native_tests'] : []), ...(bench === null ? [] : [`${bench}_bench`])];
  await sh(process.execPath, [at('scripts', 'cmake-js.mjs'), ...targets], 'building the engine');
  if (!existsSync(kAddon)) throw new SetupError('the build ended well but left no build/Release/monolith.node');
}

/** Compiles src/, and with `tests` test/ and bench/ too. */
export async function buildTypeScript({ tests = false } = {}) {
  const tsc = at('node_modules', 'typescript', 'bin', 'tsc');
  if (!existsSync(tsc)) {
    if (!tests && existsSync(at('dist', 'main.js'))) return; // an image without development packages
    throw new SetupError('the TypeScript compiler is not installed: run npm ci');
  }
  if (tests) {
    mkdirSync(at('build'), { recursive: true });
    if (!lstatSync(at('build', 'src'), { throwIfNoEntry: false })) symlinkSync('../dist', at('build', 'src'));
  }
  await sh(
    process.execPath,
    [tsc, '-b', tests ? 'tsconfig.test.json' : 'tsconfig.src.json'],
    'compiling the TypeScript',
  );
}

const kWeb = at('src', 'dashboard', 'web');
const kBuiltWeb = at('dist', 'web');
const kCompressible = new Set(['.html', '.js', '.css', '.svg', '.json']);

function filesUnder(folder) {
  return readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name))
    .sort();
}

// What the page is made of: its sources, how it is built, and the packages.
function webHash() {
  const hash = createHash('sha256');
  const own = ['index.html', 'package.json', 'tsconfig.json', 'vite.config.ts'].map((name) => join(kWeb, name));
  for (const path of [at('package-lock.json'), at('scripts', 'setup.mjs'), ...own, ...filesUnder(join(kWeb, 'src'))]) {
    hash
      .update(`${path.slice(root.length)}\0`)
      .update(readFileSync(path))
      .update('\0');
  }
  return hash.digest('hex');
}

// Brotli at its slowest, once: the server only chooses. What does not get smaller is left as it is.
function compressWeb(folder) {
  for (const path of filesUnder(folder)) {
    if (!kCompressible.has(extname(path))) continue;
    const plain = readFileSync(path);
    const br = brotliCompressSync(plain, {
      params: { [zlib.BROTLI_PARAM_QUALITY]: 11, [zlib.BROTLI_PARAM_SIZE_HINT]: plain.length },
    });
    const gzip = gzipSync(plain, { level: 9 });
    if (br.length < plain.length) writeFileSync(`${path}.br`, br);
    if (gzip.length < plain.length) writeFileSync(`${path}.gz`, gzip);
  }
}

/**
 * What the page would be built with instead of a package of its own, as a sentence, or null. npm puts packages that the
 * tests have in another version below src/dashboard/web; without that folder Vite takes the tests', and the page fails where it runs.
 */
export function wrongWebPackage(web = kWeb) {
  const { dependencies } = JSON.parse(readFileSync(join(web, 'package.json'), 'utf8'));
  for (const [name, wanted] of Object.entries(dependencies)) {
    let folder = web;
    while (!existsSync(join(folder, 'node_modules', name, 'package.json')) && folder !== dirname(folder))
      folder = dirname(folder);
    const found = join(folder, 'node_modules', name, 'package.json');
    const version = existsSync(found) ? JSON.parse(readFileSync(found, 'utf8')).version : 'none';
    if (version !== wanted)
      return `the page of the dashboard needs ${name} ${wanted}, and ${version} is what it would be built with: src/dashboard/web/node_modules is not whole. Run npm ci`;
  }
  return null;
}

/** Builds the dashboard's page into dist/web if its sources have changed; with `check` its types are checked first. */
export async function buildWeb({ check = false } = {}) {
  const vite = at('node_modules', 'vite', 'bin', 'vite.js');
  const tsc = at('node_modules', 'typescript', 'bin', 'tsc');
  if (!existsSync(vite)) {
    if (!existsSync(join(kBuiltWeb, 'index.html')))
      say('the page of the dashboard is not built: Vite is not installed (npm ci)');
    return;
  }
  const stamp = join(kBuiltWeb, '.sources');
  const checked = join(kBuiltWeb, '.checked');
  const hash = webHash();
  const has = (path) => existsSync(path) && readFileSync(path, 'utf8') === hash;
  if (!has(stamp)) {
    const wrong = wrongWebPackage();
    if (wrong !== null) throw new SetupError(wrong);
    // Beside the built one, which is whole at any time: a server may be starting.
    const folder = at('dist', `.web-${process.pid}`);
    try {
      await sh(
        process.execPath,
        [vite, 'build', kWeb, '--outDir', folder, '--logLevel', 'warn'],
        'building the page of the dashboard',
      );
      compressWeb(folder);
      writeFileSync(join(folder, '.sources'), hash);
      rmSync(kBuiltWeb, { recursive: true, force: true });
      renameSync(folder, kBuiltWeb);
    } finally {
      rmSync(folder, { recursive: true, force: true });
    }
  }
  if (check && !has(checked)) {
    await sh(process.execPath, [tsc, '--noEmit', '-p', kWeb], 'checking the types of the page');
    writeFileSync(checked, hash);
  }
}
