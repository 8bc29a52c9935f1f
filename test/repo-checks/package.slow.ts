// Tests the npm packages, packed from this build and installed in a separate directory: their contents, a server
// started from them, and the messages when the engine's package is missing. Part of npm run test:slow.
import { spawn, spawnSync } from 'node:child_process';
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import t from 'tap';
import { addonPackages, packageRoot } from '../../src/engine/load-addon.js';
import { endsWithParent } from '../e2e/monolith.js';

interface Manifest {
  version: string;
  dependencies: Record<string, string>;
  optionalDependencies: Record<string, string>;
  scripts?: unknown;
  os: string[];
  cpu?: string[];
}

const MODELS = 'monolith-server-models';
const KEY = 'sk-package-0123456789abcdef';
const folder = mkdtempSync(join(tmpdir(), 'monolith-package-'));
t.teardown(() => rmSync(folder, { recursive: true, force: true }));

const { status, stderr } = spawnSync(
  process.execPath,
  [join(packageRoot, 'scripts', 'package.mjs'), 'as-built', 'unpacked', `folder=${join(folder, 'node_modules')}`],
  { encoding: 'utf8' },
);
t.equal(status, 0, stderr);

const main = join(folder, 'node_modules', 'monolith-server');
const [, platform = ''] = addonPackages();
const read = (name: string): Manifest =>
  JSON.parse(readFileSync(join(folder, 'node_modules', name, 'package.json'), 'utf8')) as Manifest;

// The dependencies that npm would install.
for (const name of Object.keys(read('monolith-server').dependencies)) {
  if (name === MODELS) continue; // packed as well
  const place = join(folder, 'node_modules', name);
  mkdirSync(dirname(place), { recursive: true });
  symlinkSync(join(packageRoot, 'node_modules', name), place);
}

const command = join(main, 'scripts', 'packaging', 'command.mjs');
const environment = {
  ...process.env,
  MONOLITH_ADDON: '',
  MONOLITH_DATA_DIR: join(folder, 'data'),
  MONOLITH_API_KEY: KEY,
};

t.test('the packages contain the required files and no others', (t) => {
  const manifest = read('monolith-server');
  const engine = read(platform);
  t.equal(manifest.optionalDependencies[platform], engine.version);
  t.same(
    [manifest.scripts, engine.scripts, existsSync(join(main, 'binding.gyp'))],
    [undefined, undefined, false],
    'there is no install script',
  );
  t.same([engine.os, engine.cpu], [['linux'], [process.arch]]);
  t.same(readdirSync(join(folder, 'node_modules', platform)).sort(), [
    'LICENSE',
    'README.md',
    'monolith.node',
    'package.json',
    ...new Set([`uws_linux_${process.arch}_${process.versions.modules}.node`, `uws_linux_${process.arch}_137.node`]),
  ]);
  t.same(
    readdirSync(join(folder, 'node_modules', MODELS)).filter((name) => name.endsWith('.gguf')).length,
    readdirSync(join(packageRoot, 'models')).filter((name) => name.endsWith('.gguf')).length,
  );
  for (const name of ['monolith-server', platform]) {
    const own = join(folder, 'node_modules', name);
    const bytes = readdirSync(own, { recursive: true }).reduce<number>(
      (sum, file) => sum + statSync(join(own, String(file))).size,
      0,
    );
    t.ok(bytes < 25e6, `${name} has ${bytes} bytes`);
  }
  for (const name of [
    'dist/main.js',
    'dist/web/index.html',
    'models/catalog.json',
    'native/CMakeLists.txt',
    'LICENSE',
    'THIRD-PARTY-NOTICES.md',
    'README.md',
  ])
    t.ok(existsSync(join(main, name)), name);
  const files = readdirSync(main, { recursive: true }).map(String);
  t.same(
    files.filter((name) => /\.map$|\.d\.ts$|\.tsbuildinfo$|^models\/training|(^|\/)test\/|node_modules/.test(name)),
    [],
  );
  t.end();
});

t.test('the command serves requests with the engine from the platform package', { timeout: 120_000 }, async (t) => {
  const child = spawn(process.execPath, [...endsWithParent, command, 'serve', '--port', '0', '--log', 'json'], {
    cwd: folder,
    stdio: ['pipe', 'pipe', 'pipe'],
    env: environment,
  });
  let said = '';
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    said += text;
  });
  const ended = new Promise((resolve) => child.on('close', resolve));
  t.teardown(() => child.kill('SIGKILL'));
  const url = await new Promise<string>((resolve, reject) => {
    let text = '';
    child.stdout.setEncoding('utf8').on('data', (more: string) => {
      const ready = /"event":"ready","url":"([^"]+)"/.exec((text += more));
      if (ready?.[1] !== undefined) resolve(ready[1]);
    });
    child.on('close', () => reject(new Error(said)));
  });
  const ask = async (stream: boolean): Promise<string> =>
    (
      await fetch(`${url}/v1/chat/completions`, {
        method: 'POST',
        headers: { authorization: `Bearer ${KEY}`, 'content-type': 'application/json' },
        body: JSON.stringify({
          model: 'tycho-1.0',
          max_tokens: 4,
          stream,
          messages: [{ role: 'user', content: 'Hello!' }],
        }),
      })
    ).text();
  t.match(await ask(false), /"finish_reason":"(length|stop)"/);
  t.match(await ask(true), /data: \[DONE\]/);
  t.match(
    await (await fetch(url, { headers: { accept: 'text/html' } })).text(),
    /<div id="root"/,
    'the web page is served',
  );
  t.notOk(existsSync(join(main, 'build')), 'the package folder is not modified');
  child.kill('SIGTERM');
  t.equal(await ended, 0);
});

t.test('without the platform package the command builds the engine, or names the missing tools', (t) => {
  renameSync(join(folder, 'node_modules', platform), join(folder, 'away'));
  const bare = join(folder, 'bin');
  mkdirSync(bare);
  writeFileSync(join(bare, 'c++'), '', { mode: 0o755 });
  const told = spawnSync(process.execPath, [command, 'serve'], {
    encoding: 'utf8',
    env: { ...environment, PATH: bare, CXX: '' },
  });
  t.equal(told.status, 1);
  t.match(
    told.stderr,
    new RegExp(
      `^monolith: the package with the engine for this machine, ${platform}, is not installed; building the engine from its sources, once\n` +
        'monolith: building the engine \\(C\\+\\+\\) needs cmake and ninja-build, which are not installed\\. On Debian or Ubuntu: (sudo )?apt-get install cmake ninja-build\n$',
    ),
  );
  const version = spawnSync(process.execPath, [command, '--version'], {
    encoding: 'utf8',
    env: { ...environment, PATH: bare },
  });
  t.same(
    [version.status, version.stdout],
    [0, `${read('monolith-server').version}\n`],
    '--version does not build the engine',
  );
  t.end();
});
