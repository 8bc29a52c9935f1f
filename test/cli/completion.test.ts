// The completion scripts, in real shells.

import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import t from 'tap';
import { bashScript, fishScript, zshScript } from '../../src/cli/completion-scripts.js';
import { completionTable } from '../../src/cli/completion-table.js';
import { commands } from '../../src/cli/commands.js';

const table = await completionTable(commands);
const folder = mkdtempSync(join(tmpdir(), 'monolith-completion-'));
t.teardown(() => rmSync(folder, { recursive: true, force: true }));
writeFileSync(join(folder, 'bash'), bashScript(table));
writeFileSync(join(folder, 'zsh'), zshScript(table));
writeFileSync(join(folder, 'fish'), fishScript(table));
writeFileSync(join(folder, 'weights.gguf'), '');

/** The completions that each shell must offer (`offers`) and must not offer (`not`) for a command line. */
const CASES: readonly { line: string[]; offers: string[]; not?: string[] }[] = [
  { line: ['ser'], offers: ['serve'], not: ['chat'] },
  { line: [''], offers: commands.map(({ name }) => name) },
  { line: ['keys', ''], offers: ['create', 'change', 'list', 'revoke', 'rotate'] },
  { line: ['keys', 'create', '--exp'], offers: ['--expires'], not: ['--port'] },
  { line: ['serve', '--p'], offers: ['--port'], not: ['--host', '--expires'] },
  { line: ['--por'], offers: ['--port'] },
  { line: ['serve', '--log', ''], offers: ['json', 'text'], not: ['qwen3-4b'] },
  { line: ['run', 'qwen3-4'], offers: ['qwen3-4b'], not: ['gemma-3-4b'] },
  { line: ['serve', '--engine-device', ''], offers: ['auto', 'cpu', 'cuda'] },
  { line: ['help', 'key'], offers: ['keys'], not: ['chat'] },
  { line: ['completion', ''], offers: ['bash', 'fish', 'zsh'] },
  { line: ['bench', 'tune', '--s'], offers: ['--slo'], not: ['--sharegpt'] },
  { line: ['bench', 'serve', '--s'], offers: ['--slo', '--sharegpt'] },
  { line: ['settings', '--'], offers: ['--short'], not: ['--port'] },
  { line: ['inspect', 'weig'], offers: ['weights.gguf'] },
  { line: ['serve', 'weig'], offers: ['weights.gguf'] },
];

type Shell = (line: readonly string[]) => string[];

const run = (program: string, args: readonly string[]): string[] => {
  const { status, stdout, stderr } = spawnSync(program, args, {
    cwd: folder,
    encoding: 'utf8',
    timeout: 60_000,
    env: { ...process.env, HOME: folder, XDG_CONFIG_HOME: '', XDG_DATA_HOME: '' },
  });
  if (status !== 0 || stderr !== '') throw new Error(`${program}: status ${status}: ${stderr}`);
  return stdout.split('\n').filter((one) => one !== '');
};

const bash: Shell = (line) =>
  run('bash', [
    '--norc',
    '-c',
    // Files that bash itself would offer (-o default) are not part of COMPREPLY.
    'source ./bash; COMP_WORDS=(monolith "$@"); COMP_CWORD=$#; _monolith; printf "%s\\n" "${COMPREPLY[@]}"',
    'bash',
    ...line,
  ]);

const fish: Shell = (line) =>
  run('fish', [
    '--no-config',
    '-c',
    'source ./fish; complete -C (string join " " -- monolith $argv)',
    '--',
    ...line,
  ]).map((one) => one.split('\t')[0] ?? '');

/** zsh completes only in a line editor, so the function runs with the words and the builtins that collect matches. */
const zsh: Shell = (line) =>
  run('zsh', [
    '-f',
    '-c',
    `compadd() { shift; print -rl -- "$@" }
_describe() { print -rl -- "\${(@)\${(@P)4}%%:*}" }
_files() { print -rl -- *(N) }
source ./zsh
words=(monolith "$@"); CURRENT=$#words; _monolith`,
    'zsh',
    ...line,
  ]).filter((one) => one.startsWith(line.at(-1) ?? ''));

for (const [name, shell] of Object.entries({ bash, zsh, fish })) {
  const isInstalled = spawnSync(name, ['--version']).status === 0;
  t.test(`${name} completes commands, subcommands, flags, values and files`, { skip: !isInstalled }, (t) => {
    for (const { line, offers, not = [] } of CASES) {
      const offered = new Set(shell(line).map((one) => one.trim()));
      for (const one of offers) t.ok(offered.has(one), `${line.join(' ')}: ${one}`);
      for (const one of not) t.notOk(offered.has(one), `${line.join(' ')}: not ${one}`);
    }
    t.end();
  });
}

t.test('bash completes the value in --flag=value, which it splits into three words', (t) => {
  t.same(bash(['serve', '--log', '=', 'js']), ['json']);
  t.same(bash(['serve', '--log', '=']), ['text', 'json']);
  t.end();
});
