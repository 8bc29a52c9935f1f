// Tests that the setup scripts refuse broken checkouts and unknown options before they build anything, and how they
// decide what to install and build.

import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { pathToFileURL } from 'node:url';
import t from 'tap';
import { packageRoot } from '../../src/engine/load-addon.js';

t.test("refuses to build the page with the tests' version of a package", async (t) => {
  const { wrongWebPackage } = (await import(pathToFileURL(join(packageRoot, 'scripts', 'setup.mjs')).href)) as {
    wrongWebPackage(web?: string): string | null;
  };
  t.equal(wrongWebPackage(), null, 'this checkout is complete');
  const folder = mkdtempSync(join(tmpdir(), 'monolith-setup-'));
  t.teardown(() => rmSync(folder, { recursive: true, force: true }));
  const web = join(folder, 'src', 'web');
  const put = (path: string, version: string): void => {
    mkdirSync(join(path, 'node_modules', 'react'), { recursive: true });
    writeFileSync(join(path, 'node_modules', 'react', 'package.json'), JSON.stringify({ version }));
  };
  mkdirSync(web, { recursive: true });
  writeFileSync(join(web, 'package.json'), JSON.stringify({ dependencies: { react: '19.3.1' } }));
  t.match(wrongWebPackage(web), /needs react 19\.3\.1 \(found none\).* Run npm ci$/);
  put(folder, '18.3.1');
  t.match(wrongWebPackage(web), /needs react 19\.3\.1 \(found 18\.3\.1\).* Run npm ci$/);
  put(web, '19.3.1');
  t.equal(wrongWebPackage(web), null);
});

t.test('scripts print their usage with --help, and report unknown options in one line without a stack trace', (t) => {
  const run = (script: string, ...words: string[]): { status: number | null; stdout: string; stderr: string } =>
    spawnSync(process.execPath, [join(packageRoot, 'scripts', `${script}.mjs`), ...words], { encoding: 'utf8' });
  t.match(run('faults', '--help'), { status: 0, stdout: /^npm run faults /, stderr: '' });
  t.match(run('fuzz', '--nonsense'), {
    status: 1,
    stdout: '',
    stderr: "monolith: Unknown option '--nonsense'. --help lists the options.\n",
  });
  t.match(run('fuzz', 'chat', '--seconds', 'abc'), {
    status: 1,
    stdout: '',
    stderr: 'monolith: --seconds must be a number.\n',
  });
  t.match(run('simulate', '--half', 'third'), {
    status: 1,
    stdout: '',
    stderr: 'monolith: --half must be engine or service.\n',
  });
  t.end();
});

t.test('THIRD-PARTY-NOTICES.md lists every shipped package with its version', async (t) => {
  const { shipped } = (await import(pathToFileURL(join(packageRoot, 'scripts', 'notices.mjs')).href)) as {
    shipped(lock: object): string[];
  };
  const lock = JSON.parse(readFileSync(join(packageRoot, 'package-lock.json'), 'utf8')) as {
    packages: Record<string, { version: string; optional?: boolean }>;
  };
  const places = shipped(lock);
  for (const name of ['lmdb', 'zod', 'sharp', 'uWebSockets.js']) t.ok(places.includes(`node_modules/${name}`), name);
  t.ok(places.includes('src/dashboard/web/node_modules/react'), 'packages bundled into the page are included');
  t.notOk(places.includes('node_modules/typescript'), 'build-only packages are not included');
  const notices = readFileSync(join(packageRoot, 'THIRD-PARTY-NOTICES.md'), 'utf8');
  const missing = places
    .filter((place) => lock.packages[place]?.optional !== true)
    .map(
      (place) =>
        `${place.slice(place.lastIndexOf('node_modules/') + 'node_modules/'.length)} ${lock.packages[place]?.version ?? ''} (`,
    )
    .filter((wanted) => !notices.includes(wanted));
  t.same(missing, [], 'npm run docs:notices');
});

const script = <T>(name: string): Promise<T> =>
  import(pathToFileURL(join(packageRoot, 'scripts', `${name}.mjs`)).href) as Promise<T>;

t.test('installs programs as root, asks first on a terminal, and otherwise only prints them', async (t) => {
  const { installMode, missingBuildPackages } = await script<{
    installMode(machine: { hasApt: boolean; isRoot: boolean; hasSudo: boolean; isTerminal: boolean }): string;
    missingBuildPackages(has: (name: string) => string | null): string[];
  }>('tools');
  const user = { hasApt: true, isRoot: false, hasSudo: true, isTerminal: true };
  t.equal(installMode({ ...user, isRoot: true, hasSudo: false, isTerminal: false }), 'install', 'a container, or CI');
  t.equal(installMode(user), 'ask');
  t.equal(installMode({ ...user, isTerminal: false }), 'print');
  t.equal(installMode({ ...user, hasSudo: false }), 'print');
  t.equal(installMode({ ...user, isRoot: true, hasApt: false }), 'print', 'another distribution');
  const having =
    (...names: string[]) =>
    (name: string): string | null =>
      names.includes(name) ? `/usr/bin/${name}` : null;
  t.same(missingBuildPackages(having()), ['cmake', 'g++', 'ninja-build']);
  t.same(missingBuildPackages(having('cmake', 'clang++', 'make')), [], 'Ninja is optional');
});

t.test('names the tests that need a missing program, including tests that import it indirectly', async (t) => {
  const { missingTestPrograms } = await script<{
    missingTestPrograms(files: string[], programs: object[]): { package: string; tests: string[] }[];
  }>('tools');
  const files = ['cli/keys', 'cli/state-import', 'web/daily'].map((name) => join('build', 'test', `${name}.test.js`));
  const program = (name: string, module: string, isThere: boolean): object => ({
    package: name,
    modules: [module],
    isThere: () => isThere,
  });
  t.same(
    missingTestPrograms(files, [
      program('postgresql', 'support/postgres', false),
      program('chromium', 'support/browser', false),
      program('haproxy', 'support/haproxy', false),
    ]),
    [
      { package: 'postgresql', tests: ['cli/state-import'] },
      { package: 'chromium', tests: ['web/daily'] },
    ],
  );
  t.same(missingTestPrograms(files, [program('postgresql', 'support/postgres', true)]), []);
});

t.test('the addon of a moved checkout is current, that of other sources is not', async (t) => {
  const { nativeHash, isCurrent, writeStamp } = await script<{
    nativeHash(root: string, env?: Record<string, string>): string;
    isCurrent(addon: string, hash: string): boolean;
    writeStamp(addon: string, hash: string): void;
  }>('native-stamp');
  const folder = mkdtempSync(join(tmpdir(), 'monolith-stamp-'));
  t.teardown(() => rmSync(folder, { recursive: true, force: true }));
  const addonOf = (root: string): string => join(root, 'build', 'Release', 'monolith.node');
  const here = join(folder, 'here');
  for (const path of ['native/text', 'scripts', 'build/Release']) mkdirSync(join(here, path), { recursive: true });
  writeFileSync(join(here, 'native', 'text', 'a.cc'), 'int a;');
  writeFileSync(join(here, 'scripts', 'cmake-js.mjs'), '');
  writeFileSync(addonOf(here), 'binary');
  t.equal(isCurrent(addonOf(here), nativeHash(here)), false, 'without a stamp, CMake decides');
  writeStamp(addonOf(here), nativeHash(here));
  const there = join(folder, 'there');
  cpSync(here, there, { recursive: true });
  t.equal(isCurrent(addonOf(there), nativeHash(there)), true);
  t.equal(isCurrent(addonOf(there), nativeHash(there, { CXXFLAGS: '-O0' })), false);
  writeFileSync(join(there, 'native', 'text', 'a.cc'), 'int b;');
  t.equal(isCurrent(addonOf(there), nativeHash(there)), false);
  renameSync(join(here, 'native', 'text', 'a.cc'), join(here, 'native', 'a.cc'));
  t.equal(isCurrent(addonOf(here), nativeHash(here)), false, 'names count too');
  rmSync(addonOf(there));
  t.equal(isCurrent(addonOf(there), nativeHash(there)), false);
});

t.test(
  'a build step with a log shows its output only if it fails, and says how an interrupted one continues',
  async (t) => {
    const folder = mkdtempSync(join(tmpdir(), 'monolith-step-'));
    t.teardown(() => rmSync(folder, { recursive: true, force: true }));
    const log = join(folder, 'logs', 'engine.log');
    const step = (shell: string): string => `
    const { run, sh } = await import(${JSON.stringify(pathToFileURL(join(packageRoot, 'scripts', 'setup.mjs')).href)});
    await run(() => sh('sh', ['-c', ${JSON.stringify(shell)}], 'building the engine', ${JSON.stringify({ log, resumes: true })}));`;
    const node = (shell: string): { status: number | null; stderr: string } =>
      spawnSync(process.execPath, ['--input-type=module', '-e', step(shell)], { encoding: 'utf8' });
    t.match(node('echo -- Looking for pthread.h; echo raw >&2'), { status: 0, stderr: '' });
    t.match(readFileSync(log, 'utf8'), /raw/);
    t.match(node('echo "a.cc:1: warning: unused"'), { stderr: /^monolith: 1 compiler warning: see \S+engine\.log\n$/ });
    const failed = node('for i in $(seq 100); do echo line $i; done; exit 3');
    t.equal(failed.status, 1);
    t.match(
      failed.stderr,
      /^line 61\n(line \d+\n){38}line 100\nmonolith: building the engine failed \(sh exited with 3\); the lines above are the end of \S+engine\.log\n$/,
    );
    const child = spawn(process.execPath, ['--input-type=module', '-e', step(`touch ${folder}/began; sleep 60`)], {
      stdio: ['ignore', 'ignore', 'pipe'],
    });
    let said = '';
    child.stderr.setEncoding('utf8').on('data', (text: string) => {
      said += text;
    });
    while (!existsSync(join(folder, 'began'))) await sleep(20);
    child.kill('SIGINT');
    const [exit] = (await once(child, 'close')) as [number | null];
    t.equal(exit, 130);
    t.equal(said, 'monolith: building the engine was interrupted; the next run continues where it stopped\n');
  },
);

t.test('npm ci does not run through a linked node_modules, which it would empty', (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'monolith-linked-'));
  t.teardown(() => rmSync(folder, { recursive: true, force: true }));
  const checkout = join(folder, 'checkout');
  mkdirSync(join(folder, 'packages'));
  writeFileSync(join(folder, 'packages', 'kept'), '');
  cpSync(join(packageRoot, 'scripts'), join(checkout, 'scripts'), { recursive: true });
  writeFileSync(join(checkout, 'package-lock.json'), '{}');
  symlinkSync(join(folder, 'packages'), join(checkout, 'node_modules'));
  const { status, stderr } = spawnSync(process.execPath, [join(checkout, 'scripts', 'build.mjs'), 'ts'], {
    encoding: 'utf8',
  });
  t.equal(status, 1);
  t.match(
    stderr,
    /^monolith: node_modules is a link to \S+packages, which does not match package-lock\.json\. Update it/,
  );
  t.ok(existsSync(join(folder, 'packages', 'kept')));
  t.end();
});

t.test("npm runs the scripts with the machine's Node.js, not with a package's", (t) => {
  const { scripts } = JSON.parse(readFileSync(join(packageRoot, 'package.json'), 'utf8')) as {
    scripts: Record<string, string>;
  };
  const wrong = Object.entries(scripts).filter(([, command]) =>
    command.split('&&').some((part) => part.includes('scripts/') && !part.includes('"${npm_node_execpath:-node}"')),
  );
  t.same(wrong, []);
  t.end();
});
