// The programs that building and testing need. On Debian and Ubuntu, they are installed: immediately if the user is
// root, otherwise after one question on a terminal. Elsewhere, the command to type is printed.
import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, openSync, readdirSync, readFileSync } from 'node:fs';
import { dirname, join, relative, resolve } from 'node:path';
import { createInterface } from 'node:readline/promises';
import { root, say, SetupError, which } from './common.mjs';
import { logPath } from './run-command.mjs';

/** The missing programs that are required to build the engine, as Debian package names. */
export function missingBuildPackages(has = which) {
  const missing = [];
  if (!has('cmake')) missing.push('cmake');
  if (!has(process.env.CXX || 'c++') && !has('g++') && !has('clang++')) missing.push('g++');
  if (!has('ninja') && !has('make')) missing.push('ninja-build');
  return missing;
}

/** Returns a sentence that names the missing build tools, or null if there are none. */
export function missingTools() {
  const missing = missingBuildPackages();
  return missing.length === 0 ? null : `${need(missing)} On Debian or Ubuntu: ${commandFor(missing)}`;
}

const need = (missing) =>
  `building the engine (C++) needs ${listed(missing)}, which ${missing.length > 1 ? 'are' : 'is'} not installed.`;

/** `a`, `a and b`, `a, b and c`. */
export const listed = (names) =>
  names.length < 2 ? names.join('') : `${names.slice(0, -1).join(', ')} and ${names.at(-1)}`;

const commandFor = (packages, isRoot = process.getuid?.() === 0) =>
  `${isRoot ? '' : 'sudo '}apt-get install ${packages.join(' ')}`;

const isThere = (...paths) => paths.some((path) => existsSync(path));

/**
 * Programs that some tests need: the Debian package, whether it is installed, and the modules in test/ that use it.
 */
const kTestPrograms = [
  {
    package: 'chromium',
    modules: ['support/browser'],
    isThere: () =>
      isThere('/usr/bin/chromium', '/usr/bin/chromium-browser', '/usr/bin/google-chrome', process.env.CHROMIUM ?? ''),
  },
  {
    package: 'postgresql',
    modules: ['support/postgres'],
    isThere: () =>
      existsSync('/usr/lib/postgresql') &&
      readdirSync('/usr/lib/postgresql').some((version) => existsSync(`/usr/lib/postgresql/${version}/bin/initdb`)),
  },
  {
    package: 'redis-server',
    modules: ['support/redis'],
    isThere: () => isThere('/usr/bin/redis-server', '/usr/local/bin/redis-server', '/usr/bin/valkey-server'),
  },
  {
    package: 'haproxy',
    modules: ['support/haproxy', 'docs/proxies.test'],
    isThere: () => isThere('/usr/sbin/haproxy'),
  },
  { package: 'nginx-light', modules: ['docs/proxies.test'], isThere: () => isThere('/usr/sbin/nginx') },
  {
    package: 'prometheus',
    modules: ['support/prometheus'],
    isThere: () => which('prometheus') !== null,
  },
];

/**
 * The missing programs that the given test files use, directly or through other files in test/: Debian's package, and
 * the names of the tests, such as `e2e/limits`.
 *
 * @param {readonly string[]} files paths of compiled tests, build/test/NAME.test.js
 * @returns {{ package: string, tests: string[] }[]}
 */
export function missingTestPrograms(files, programs = kTestPrograms) {
  const missing = programs.filter((one) => !one.isThere());
  if (missing.length === 0) return [];
  const known = new Map();
  return missing
    .map((one) => ({
      package: one.package,
      tests: files
        .map((file) => relative(join(root, 'build', 'test'), resolve(root, file)))
        .filter((file) => {
          const reachedBy = modulesOf(file.replace(/\.js$/, ''), known);
          return one.modules.some((module) => reachedBy.has(module));
        })
        .map((file) => file.replace(/\.(test|slow)\.js$/, '')),
    }))
    .filter(({ tests }) => tests.length > 0);
}

/** A module in test/ and all modules in test/ that it imports, directly or indirectly, without their extension. */
function modulesOf(module, known) {
  const all = new Set([module]);
  for (const one of all) for (const imported of importsOf(one, known)) all.add(imported);
  return all;
}

function importsOf(module, known) {
  const before = known.get(module);
  if (before !== undefined) return before;
  const path = join(root, 'test', `${module}.ts`);
  const text = existsSync(path) ? readFileSync(path, 'utf8') : '';
  const imports = [...text.matchAll(/(?:from|import\() ?'(\.[^']+)\.js'/g)]
    .map(([, imported]) => relative(join(root, 'test'), join(dirname(path), imported)))
    .filter((target) => !target.startsWith('..'));
  known.set(module, imports);
  return imports;
}

/** How programs are installed: without a question ('install'), after a question ('ask'), or not at all ('print'). */
export function installMode({ hasApt, isRoot, hasSudo, isTerminal }) {
  if (!hasApt) return 'print';
  if (isRoot) return 'install';
  return hasSudo && isTerminal ? 'ask' : 'print';
}

const thisMode = () =>
  installMode({
    hasApt: which('apt-get') !== null,
    isRoot: process.getuid?.() === 0,
    hasSudo: which('sudo') !== null,
    isTerminal: process.stdin.isTTY === true && process.stderr.isTTY === true,
  });

/**
 * Installs the missing programs, or prints the command to type. Throws SetupError if a build tool is still missing.
 * Tests that need a missing program skip themselves; their names are printed.
 *
 * @param {{ build: readonly string[], tests: readonly { package: string, tests: string[] }[] }} missing
 */
export async function installMissing({ build, tests }) {
  const programs = tests.map((one) => one.package);
  if (build.length + programs.length === 0) return;
  const mode = thisMode();
  // Ninja is optional, but builds faster and shows its progress.
  const tools =
    build.length > 0 && !which('ninja') && !build.includes('ninja-build') ? [...build, 'ninja-build'] : build;
  if (build.length > 0) say(mode === 'print' ? missingTools() : need(build));
  if (programs.length > 0)
    say(
      `some tests need ${listed(programs)}, which ${programs.length > 1 ? 'are' : 'is'} not installed (--without-programs leaves these tests out)`,
    );
  if (mode === 'print') {
    if (build.length > 0) throw new SetupError('install them, then run the same command again');
    say(`to install: ${commandFor(programs)}`);
  } else if (mode === 'install' || (await agreed([...tools, ...programs]))) {
    install(tools, programs, mode === 'ask' ? ['sudo', 'apt-get'] : ['apt-get']);
  } else if (build.length > 0) {
    throw new SetupError(`not installed. To install: ${commandFor(tools)}`);
  }
  sayLeftOut(
    tests.filter((one) => kTestPrograms.some((program) => program.package === one.package && !program.isThere())),
  );
}

/** Prints the names of the tests that are skipped because a program is missing. */
export function sayLeftOut(missing) {
  for (const one of missing) say(`left out without ${one.package}: ${one.tests.join(', ')}`);
}

async function agreed(packages) {
  const terminal = createInterface({ input: process.stdin, output: process.stderr });
  try {
    const answer = await terminal.question(`monolith: install now with "${commandFor(packages, false)}"? [Y/n] `);
    return /^(y|yes|)$/i.test(answer.trim());
  } finally {
    terminal.close();
  }
}

/**
 * Installs `tools`, which are required, and `programs`. If one of the programs cannot be installed, only a message is
 * printed.
 */
function install(tools, programs, [command, ...words]) {
  say(`installing ${listed([...tools, ...programs])} with apt-get; this may take a few minutes`);
  const path = logPath('apt');
  mkdirSync(dirname(path), { recursive: true });
  const log = openSync(path, 'w');
  const apt = (...args) =>
    spawnSync(command, [...words, '-o', 'DPkg::Lock::Timeout=120', '-o', 'Acquire::http::Timeout=20', '-q', ...args], {
      stdio: ['inherit', log, log],
      env: { ...process.env, DEBIAN_FRONTEND: 'noninteractive' },
    }).status === 0;
  const kInstall = ['install', '-y', '--no-install-recommends'];
  if (!apt('update')) say('apt-get update failed; continuing with the known package lists');
  if (tools.length > 0 && !apt(...kInstall, ...tools)) {
    process.stderr.write(`${readFileSync(path, 'utf8').trimEnd().split('\n').slice(-15).join('\n')}\n`);
    throw new SetupError(`installing ${listed(tools)} failed; the lines above are the end of ${relative(root, path)}`);
  }
  // Installs the programs one by one, so that a program that cannot be installed does not block the others.
  for (const one of programs) if (!apt(...kInstall, one)) say(`could not install ${one}; see ${relative(root, path)}`);
}
