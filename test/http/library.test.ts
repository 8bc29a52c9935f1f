// Tests which binary of the HTTP library is loaded, and how the build patches it.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { text } from 'node:stream/consumers';
import t from 'tap';
import { readElf } from '../../src/http/elf.js';
import { changedBinary, loadUws } from '../../src/http/uws.js';
import { JSON_PAGES } from '../../src/http/uws-pages.js';
import { main } from '../e2e/monolith.js';
import { newerNode } from '../support/newer-node.js';

const installed = dirname(createRequire(import.meta.url).resolve('uWebSockets.js'));

t.test("every Linux binary is patched for JSON error pages and Debian 12's C library", (t) => {
  const names = readdirSync(installed).filter((name) => name.startsWith('uws_linux_'));
  t.same(
    names.map((name) => name.slice('uws_linux_'.length, -'.node'.length)).sort(),
    ['arm64', 'x64'].flatMap((cpu) => [115, 127, 137, 141].map((modules) => `${cpu}_${modules}`)),
    'there are binaries for Node.js 20, 22, 24 and 25',
  );
  for (const name of names) {
    const original = readFileSync(join(installed, name));
    const { content, changed } = changedBinary(original);
    t.ok(changed && content.includes(JSON_PAGES), `${name} has JSON error pages after patching`);
    const versions = (binary: Buffer): string[] =>
      readElf(binary)
        ?.needs()
        .map(({ version }) => version) ?? [];
    t.ok(versions(original).includes('GLIBC_2.38'), `${name} requires glibc 2.38 before patching`);
    t.notOk(versions(content).includes('GLIBC_2.38'), `${name} requires at most glibc 2.36 after patching`);
    const before = readElf(original)?.symbols() ?? [];
    const renamed = (readElf(content)?.symbols() ?? [])
      .map(({ name: now, foreign }, i) => ({ was: before[i]?.name ?? '', now, foreign }))
      .filter(({ was, now }) => was !== now);
    t.same(
      renamed.map(({ now }) => now).sort(),
      [...(name.includes('x64') ? ['sscanf'] : []), 'strtol', 'strtoul'],
      `${name} uses the old symbol names`,
    );
    t.ok(renamed.every(({ was, now, foreign }) => was === `__isoc23_${now}` && foreign));
    t.notOk(changedBinary(content).changed, 'patching is idempotent');
    let different = 0;
    for (let i = 0; i < original.length; i++) if (original[i] !== content[i]) different++;
    t.ok(content.length === original.length && different < 1000, `${name}: ${different} bytes differ`);
  }
  t.end();
});

t.test('damaged binaries are left unchanged or refused, wherever they are cut', (t) => {
  const whole = readFileSync(join(installed, 'uws_linux_x64_127.node'));
  const lying = Buffer.from(whole);
  lying.writeBigUInt64LE(0xffff_ffff_fffen, 0x28); // offset of the section headers
  t.throws(() => changedBinary(lying), RangeError);
  t.throws(() => changedBinary(whole.subarray(0, 6_000_000)), RangeError);
  t.notOk(changedBinary(Buffer.from('no binary at all')).changed);
  t.end();
});

t.test('http.library accepts a file or a package folder', (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'monolith-library-'));
  t.teardown(() => rmSync(folder, { recursive: true, force: true }));
  t.throws(
    () => loadUws(16_384, join(folder, 'none')),
    /^Error: http\.library: .*none does not exist\.$|http\.library: .*none does not exist\.$/,
  );
  t.throws(() => loadUws(16_384, folder), /http\.library: .* has no uws_linux_.*\.node, which Node\.js v/);
  const notBinary = join(folder, 'text.node');
  writeFileSync(notBinary, 'not a binary');
  t.throws(() => loadUws(16_384, notBinary), /failed to load \(.*text\.node/);
  if (existsSync(join(installed, `uws_linux_${process.arch}_${process.versions.modules}.node`))) {
    const { uws, patched } = loadUws(16_384, installed);
    t.ok(patched);
    t.type(uws.App, 'function');
  } else {
    const version = process.version.replaceAll('.', '\\.');
    t.throws(
      () => loadUws(16_384, installed),
      new RegExp(`has no uws_linux_.*\\.node, which Node\\.js ${version} needs`),
    );
  }
  t.end();
});

/** Runs `serve` with a Node.js program and settings that prevent a start. Returns the output. */
async function startFailing(node: string, settings: Record<string, string>): Promise<string> {
  const data = mkdtempSync(join(tmpdir(), 'monolith-library-'));
  const child = spawn(node, [main, 'serve', '--log', 'json'], {
    env: { ...process.env, MONOLITH_DATA_DIR: data, ...settings },
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  const [written, [code]] = await Promise.all([text(child.stderr), once(child, 'exit')]);
  rmSync(data, { recursive: true, force: true });
  return `${String(code)} ${written}`;
}

t.test('the HTTP server is selected, and the log reports why', { timeout: 120_000 }, async (t) => {
  // The process selects an HTTP server and then exits because it finds no model file.
  const failing = { MONOLITH_PORT: '0', MONOLITH_MODEL: 'none=/nowhere/none.gguf', MONOLITH_HTTP_SERVER: 'auto' };
  const here = await startFailing(process.execPath, failing);
  t.match(here, /none\.gguf/);
  const old = process.version.startsWith('v20.');
  t.equal(here.split('Node.js 20 is deprecated').length, old ? 2 : 1, 'Node 20 logs one line');
  const folder = mkdtempSync(join(tmpdir(), 'monolith-library-'));
  t.teardown(() => rmSync(folder, { recursive: true, force: true }));
  t.match(
    await startFailing(process.execPath, { ...failing, MONOLITH_HTTP_LIBRARY: join(folder, 'none') }),
    /^1 .*http\.library: .*none does not exist/s,
    'a library that the operator names must load, even with auto',
  );
  if (old)
    t.match(
      await startFailing(process.execPath, { ...failing, MONOLITH_HTTP_SERVER: 'node', MONOLITH_HTTP_THREADS: '2' }),
      /^1 .*http\.threads: .*need Node\.js 22\.12 or later.*Set http\.threads to 1/s,
    );

  t.test('on Node 26', { skip: existsSync(newerNode) ? false : 'Node 26 is not installed' }, async (t) => {
    const there = await startFailing(newerNode, failing);
    t.match(there, /"msg":"uWebSockets\.js could not be loaded; using http\.server \\"node\\""/);
    t.match(there, /"reason":"The HTTP library uWebSockets\.js has no binary for Node\.js v26\./);
    t.equal(there.split('uWebSockets.js could not be loaded').length, 2, 'in one line');
    t.match(
      await startFailing(newerNode, { ...failing, MONOLITH_HTTP_SERVER: 'uws' }),
      /^1 .*no binary for Node\.js v26\..*Set http\.server to "node"/s,
    );
  });
});
