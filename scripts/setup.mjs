// Prepares a fresh clone: installs packages, builds the addon, compiles the TypeScript. Uses only Node's own modules,
// because it runs before node_modules exists. Each step checks first and does nothing on an unchanged tree. All output
// goes to stderr, because stdout is reserved for the server.
import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import {
  cpSync,
  existsSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  realpathSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { availableParallelism, totalmem } from 'node:os';
import { dirname, extname, join } from 'node:path';
import { brotliCompressSync, constants as zlib, gzipSync } from 'node:zlib';
import { root, say, SetupError, which } from './common.mjs';
import { isCurrent, nativeHash, writeStamp } from './native-stamp.mjs';
import { about } from './progress.mjs';
import { logPath, sh } from './run-command.mjs';
import { installMissing, missingBuildPackages, missingTools } from './tools.mjs';

export { about, missingTools, root, say, SetupError, sh, which };

const at = (...parts) => join(root, ...parts);

/**
 * Runs `main`. A SetupError or an unknown option is printed in one or two lines, with exit code 1. `--help` prints the
 * comment at the top of the script or, with `passesHelp`, is passed on to the program that `main` runs.
 */
export async function run(main, { passesHelp = false } = {}) {
  const [, script, ...words] = process.argv;
  if (words.includes('--help') && !passesHelp) return console.log(openingOf(script));
  try {
    await main();
  } catch (error) {
    const isWord = String(error?.code).startsWith('ERR_PARSE_ARGS_');
    if (!isWord && !(error instanceof SetupError)) throw error;
    say(isWord ? `${error.message.split('. ')[0].replace(/\.$/, '')}. --help lists the options.` : error.message);
    process.exitCode = 1;
  }
}

/** The comment at the top of a script. */
function openingOf(script) {
  const lines = readFileSync(script, 'utf8').split('\n');
  const end = lines.findIndex((line) => !line.startsWith('//'));
  return lines
    .slice(0, end)
    .map((line) => line.replace(/^\/\/ ?/, ''))
    .join('\n');
}

// A compiler process needs up to about 1 GiB, so memory limits how many can run.
export const parallel = Math.max(1, Math.min(availableParallelism(), Math.floor(totalmem() / 2 ** 30)));

/**
 * Throws if Node is too old or a build tool is missing, before anything is installed or built. With `addon`, the build
 * tools are needed unless the addon is already built; with `always`, even then. With `installs`, installs what is
 * missing, including the programs for tests in `tests` (missingTestPrograms()).
 */
export async function ensureTools({ addon = true, always = false, installs = false, tests = [] } = {}) {
  const [major] = process.versions.node.split('.').map(Number);
  if (major < 20) throw new SetupError(`Node.js 20.17 to 26 is required (this is ${process.version})`);
  const build = addon && (always || !existsSync(kAddon)) ? missingBuildPackages() : [];
  if (installs) await installMissing({ build, tests });
  else if (build.length > 0) throw new SetupError(missingTools());
}

/** Installs packages if node_modules is absent or out of date with package-lock.json. */
export function ensurePackages() {
  const lock = at('package-lock.json');
  const installed = at('node_modules', '.package-lock.json');
  const stamp = at('node_modules', '.monolith-lock');
  const hash = createHash('sha256').update(readFileSync(lock)).digest('hex');
  if (!existsSync(stamp) || readFileSync(stamp, 'utf8') !== hash) {
    install(lock, installed);
    writeFileSync(stamp, hash);
  }
  // One package contains another version of Node.js, for tests. npm links it as `node`, which would then run the
  // scripts.
  rmSync(at('node_modules', '.bin', 'node'), { force: true });
}

function install(lock, installed) {
  // A manual installation after the last change to the lock file counts too.
  const current = existsSync(installed) && statSync(installed).mtimeMs >= statSync(lock).mtimeMs;
  if (!current) {
    // npm ci would empty the directory that the link points to, but other checkouts use this directory.
    if (lstatSync(at('node_modules'), { throwIfNoEntry: false })?.isSymbolicLink() === true)
      throw new SetupError(
        `node_modules is a link to ${realpathSync(at('node_modules'))}, which does not match package-lock.json. Update it with npm ci there, or remove the link`,
      );
    say('installing packages (npm ci): about a minute, depending on the network');
    const npm = spawnSync('npm', ['ci', '--no-audit', '--no-fund', '--loglevel=error'], {
      cwd: root,
      stdio: ['ignore', 2, 2],
    });
    if (npm.error) throw new SetupError(`npm could not be started: ${npm.error.message}`);
    if (npm.status !== 0) throw new SetupError('npm ci failed; see above');
  }
}

const kAddon = at('build', 'Release', 'monolith.node');
const kNativeBuild = at('build', 'native');
export const kAddonSeconds = 300; // CPU seconds that a full compilation takes

/**
 * Removes a CMake build directory that cannot be reused because it is only partially configured, comes from a tree that
 * has been moved, or uses a tool that no longer exists.
 */
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
    // no cache: nothing to reuse
  }
  rmSync(folder, { recursive: true, force: true });
}

/**
 * Builds the addon, unless it was built from the same sources, here or before the checkout was moved. With `tests`,
 * also builds the native tests; with `slow`, also the tests for npm run test:slow; with `bench`, also the named
 * benchmark in bench/native. All of them link the same libraries. The output is in build/logs/engine.log.
 */
export async function buildNative({ tests = false, slow = false, bench = null } = {}) {
  const hash = nativeHash(root);
  const onlyAddon = !tests && !slow && bench === null;
  if (onlyAddon && isCurrent(kAddon, hash)) return;
  const missing = missingTools();
  if (missing !== null) {
    if (!tests && existsSync(kAddon)) return say(`using the existing addon; ${missing}`);
    throw new SetupError(missing);
  }
  dropStaleBuild(kNativeBuild);
  if (!existsSync(kNativeBuild))
    say(
      `building the engine with ${parallel} compiler${parallel > 1 ? 's' : ''}: about ${about(kAddonSeconds / parallel)} on an idle machine, once`,
    );
  const targets = [
    'monolith',
    ...(tests ? ['native_tests'] : []),
    ...(slow ? ['native_tests_slow'] : []),
    ...(bench === null ? [] : [`${bench}_bench`]),
  ];
  await sh(process.execPath, [at('scripts', 'cmake-js.mjs'), ...targets], 'building the engine', {
    log: logPath('engine'),
    resumes: true,
  });
  if (!existsSync(kAddon)) throw new SetupError('the build succeeded but produced no build/Release/monolith.node');
  writeStamp(kAddon, hash);
}

/** Compiles src/ and, with `tests`, also test/ and bench/. */
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
  copyPdfJs();
}

/** Copies the files of PDF.js that the server uses to dist/pdfjs. The whole package is ten times as large. */
function copyPdfJs() {
  const from = at('node_modules', 'pdfjs-dist');
  const to = at('dist', 'pdfjs');
  const version = JSON.parse(readFileSync(join(from, 'package.json'), 'utf8')).version;
  const stamp = join(to, 'version');
  if (existsSync(stamp) && readFileSync(stamp, 'utf8') === version) return;
  rmSync(to, { recursive: true, force: true });
  mkdirSync(to, { recursive: true });
  for (const name of ['pdf.min.mjs', 'pdf.worker.min.mjs']) cpSync(join(from, 'legacy', 'build', name), join(to, name));
  for (const name of ['cmaps', 'LICENSE']) cpSync(join(from, name), join(to, name), { recursive: true });
  writeFileSync(stamp, version);
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

// A hash of everything that determines the page: its sources, the build script and the packages.
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

// Files are compressed once, at the highest Brotli level, so that the server only has to pick a version. A compressed
// version that is not smaller than the original is not written.
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
 * Returns a sentence if the page would be built with the wrong version of a package, or null. If the tests use a
 * different version of a package, npm installs the page's version below src/dashboard/web. If that directory is
 * missing, Vite bundles the tests' version, and the page fails at runtime.
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
      return `the dashboard's page needs ${name} ${wanted} (found ${version}): src/dashboard/web/node_modules is incomplete. Run npm ci`;
  }
  return null;
}

/** Builds the dashboard's page into dist/web if its sources have changed. With `check`, also checks its types. */
export async function buildWeb({ check = false } = {}) {
  const vite = at('node_modules', 'vite', 'bin', 'vite.js');
  const tsc = at('node_modules', 'typescript', 'bin', 'tsc');
  if (!existsSync(vite)) {
    if (!existsSync(join(kBuiltWeb, 'index.html')))
      say('the dashboard page is not built: Vite is not installed (run npm ci)');
    return;
  }
  const stamp = join(kBuiltWeb, '.sources');
  const checked = join(kBuiltWeb, '.checked');
  const hash = webHash();
  const has = (path) => existsSync(path) && readFileSync(path, 'utf8') === hash;
  if (!has(stamp)) {
    const wrong = wrongWebPackage();
    if (wrong !== null) throw new SetupError(wrong);
    // Build into a temporary directory and rename it, because a starting server may be reading dist/web.
    const folder = at('dist', `.web-${process.pid}`);
    try {
      await sh(
        process.execPath,
        [vite, 'build', kWeb, '--outDir', folder, '--logLevel', 'warn'],
        'building the dashboard page',
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
    await sh(process.execPath, [tsc, '--noEmit', '-p', kWeb], 'checking the types of the dashboard page');
    writeFileSync(checked, hash);
  }
}
