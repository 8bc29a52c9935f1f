// Tests that the setup scripts refuse broken checkouts and unknown options before they build anything.

import { spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
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
