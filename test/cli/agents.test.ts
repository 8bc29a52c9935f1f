// Runs `monolith agents` as a user would, with a separate home directory.
import {
  existsSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import t from 'tap';
import { main } from '../e2e/monolith.js';
import { startScripted } from '../support/script-model.js';

t.setTimeout(300_000); // the machine may be busy

const home = mkdtempSync(join(tmpdir(), 'monolith-agents-'));
process.once('exit', () => rmSync(home, { recursive: true, force: true }));

interface Ended {
  status: number | null;
  out: string;
  err: string;
}

async function agents(words: string[], env: Record<string, string> = {}): Promise<Ended> {
  const child = spawn(process.execPath, [main, 'agents', ...words], {
    env: { PATH: process.env['PATH'], HOME: home, MONOLITH_DATA_DIR: join(home, 'data'), ...env },
  });
  const ended: Ended = { status: null, out: '', err: '' };
  child.stdout.setEncoding('utf8').on('data', (text: string) => (ended.out += text));
  child.stderr.setEncoding('utf8').on('data', (text: string) => (ended.err += text));
  [ended.status] = (await once(child, 'close')) as [number | null];
  return ended;
}

const file = (...path: string[]): string => join(home, ...path);
const put = (path: string, text: string): void => {
  mkdirSync(dirname(path), { recursive: true });
  writeFileSync(path, text);
};
const json = (path: string): unknown => JSON.parse(readFileSync(path, 'utf8'));

t.test('prints the configuration of each agent', async (t) => {
  for (const [agent, expected] of [
    ['claude-code', /"ANTHROPIC_BASE_URL": "http:\/\/127\.0\.0\.1:9"[^]*"ANTHROPIC_DEFAULT_HAIKU_MODEL": "my-coder"/],
    [
      'codex',
      /^model = "my-coder"\nmodel_provider = "monolith"\n\n\[model_providers\.monolith\]\n[^]*base_url = "http:\/\/127\.0\.0\.1:9\/v1"\nenv_key = "MONOLITH_KEY"\n/,
    ],
    [
      'opencode',
      /"baseURL": "http:\/\/127\.0\.0\.1:9\/v1",\n\s*"apiKey": "\{env:MONOLITH_KEY\}"[^]*"model": "monolith\/my-coder"/,
    ],
    ['qwen-code', /"id": "my-coder"[^]*"baseUrl": "http:\/\/127\.0\.0\.1:9\/v1",\n\s*"envKey": "MONOLITH_KEY"/],
    [
      'crush',
      /"type": "openai-compat",\n\s*"base_url": "http:\/\/127\.0\.0\.1:9\/v1",\n\s*"api_key": "\$MONOLITH_KEY"/,
    ],
  ] as const) {
    const { status, out, err } = await agents([agent, 'my-coder', '--url', 'http://127.0.0.1:9/v1/']);
    t.equal(status, 0, err);
    t.match(out, expected, agent);
    t.match(err, /export MONOLITH_KEY/, agent);
    if (agent !== 'codex') t.type(JSON.parse(out), 'object', agent);
  }
  t.notOk(existsSync(file('.claude')), 'nothing is written');
  const { out } = await agents(['claude-code', '--host', '0.0.0.0', '--port', '1234']);
  t.match(JSON.parse(out), {
    env: { ANTHROPIC_BASE_URL: 'http://127.0.0.1:1234', ANTHROPIC_DEFAULT_OPUS_MODEL: 'hal-1.0' },
  });
});

t.test('gets the models from the server if the key is set', async (t) => {
  const server = await startScripted({ models: ['hal-1.0', 'org/coder'] });
  t.teardown(() => server.stop());
  const asking = (words: string[]) => agents([...words, '--url', server.url], { MONOLITH_KEY: server.key });
  const { out, err } = await asking(['crush', 'org/coder']);
  t.match(JSON.parse(out), {
    providers: { monolith: { models: [{ id: 'hal-1.0', context_window: 16_384 }, { id: 'org/coder' }] } },
    models: { large: { provider: 'monolith', model: 'org/coder' } },
  });
  t.match(err, /org\/coder has a context of 16384 tokens; agents need at least 32768/);
  t.notMatch(out + err, server.key, 'the key is not printed');
  t.match(
    (await asking(['codex'])).out,
    /^model = "hal-1\.0"\nmodel_provider = "monolith"\nmodel_context_window = 16384\n/,
  );
  const unknown = await asking(['codex', 'other']);
  t.equal(unknown.status, 2);
  t.match(unknown.err, /the server has no model "other"; it has hal-1\.0, org\/coder/);
});

t.test('--write adds to a JSON file and keeps the rest', async (t) => {
  const path = file('.claude', 'settings.json');
  put(path, '{"permissions": {"allow": ["Bash(ls)"]}, "env": {"FOO": "1"}}');
  const first = await agents(['claude-code', 'a', '--url', 'http://h:1', '--write']);
  t.equal(first.status, 0, first.err);
  const expected = {
    permissions: { allow: ['Bash(ls)'] },
    env: {
      FOO: '1',
      ANTHROPIC_BASE_URL: 'http://h:1',
      ANTHROPIC_DEFAULT_OPUS_MODEL: 'a',
      ANTHROPIC_DEFAULT_SONNET_MODEL: 'a',
      ANTHROPIC_DEFAULT_HAIKU_MODEL: 'a',
    },
    apiKeyHelper: 'printenv MONOLITH_KEY',
  };
  t.same(json(path), expected);
  t.match((await agents(['claude-code', 'a', '--url', 'http://h:1', '--write'])).out, /is up to date/);

  const other = await agents(['claude-code', 'a', '--url', 'http://h:2', '--write']);
  t.equal(other.status, 1);
  t.match(other.err, /is unchanged: it already has other values for env\.ANTHROPIC_BASE_URL/);
  t.match(JSON.parse(other.out), { env: { ANTHROPIC_BASE_URL: 'http://h:2' } }, 'the text to paste');
  t.same(json(path), expected);
  const replaced = await agents(['claude-code', 'a', '--url', 'http://h:2', '--write', '--replace']);
  t.equal(replaced.status, 0);
  t.match(replaced.err, /replaced in .*: env\.ANTHROPIC_BASE_URL\n/);
  t.match(json(path), { env: { FOO: '1', ANTHROPIC_BASE_URL: 'http://h:2' } });

  put(path, '{ // mine\n}');
  const commented = await agents(['claude-code', 'a', '--url', 'http://h:1', '--write', '--replace']);
  t.equal(commented.status, 1);
  t.match(commented.err, /it is not plain JSON/);
  t.equal(readFileSync(path, 'utf8'), '{ // mine\n}');
});

t.test('--write updates what it wrote in lists and providers', async (t) => {
  const qwen = file('.qwen', 'settings.json');
  const theirs = { id: 'x', envKey: 'OTHER_KEY', baseUrl: 'http://x' };
  put(qwen, JSON.stringify({ modelProviders: { openai: [theirs] } }));
  for (const url of ['http://h:1', 'http://h:2']) {
    const { status, err } = await agents(['qwen-code', 'a', '--url', url, '--write']);
    t.equal(status, 0, err);
    t.match(json(qwen), {
      modelProviders: { openai: [theirs, { id: 'a', baseUrl: `${url}/v1` }] },
      security: { auth: { selectedType: 'openai' } },
      model: { name: 'a' },
    });
  }
  t.equal((json(qwen) as { modelProviders: { openai: unknown[] } }).modelProviders.openai.length, 2);

  const opencode = file('config', 'opencode', 'opencode.json');
  const env = { XDG_CONFIG_HOME: file('config') };
  for (const url of ['http://h:1', 'http://h:2'])
    t.equal((await agents(['opencode', 'a', '--url', url, '--write'], env)).status, 0);
  t.match(json(opencode), { provider: { monolith: { options: { baseURL: 'http://h:2/v1' } } }, model: 'monolith/a' });
  put(`${opencode}c`, '{}');
  t.match((await agents(['opencode', 'a', '--url', 'http://h:3', '--write'], env)).err, /opencode\.jsonc exists/);
});

t.test('--write adds blocks to a TOML file, or leaves it alone', async (t) => {
  const path = file('.codex', 'config.toml');
  const write = (...words: string[]) => agents(['codex', 'a', '--url', 'http://h:1', '--write', ...words]);
  t.equal((await write()).status, 0);
  t.equal(statSync(path).mode & 0o777, 0o600);
  const own = readFileSync(path, 'utf8');
  t.match(own, /^# begin[^\n]*\nmodel = "a"\n[^]*\n# end[^\n]*\n\n# begin[^\n]*\n\[model_providers\.monolith\]\n/);

  const theirs = 'approval_policy = "never"\n\n[mcp_servers.x]\ncommand = "y"';
  put(path, theirs);
  t.equal((await write()).status, 0);
  const both = readFileSync(path, 'utf8');
  t.ok(both.indexOf('model = "a"') < both.indexOf(theirs), 'settings come before the first table');
  t.ok(both.indexOf(theirs) < both.indexOf('[model_providers.monolith]'));
  t.match((await write()).out, /is up to date/);
  t.equal((await agents(['codex', 'b', '--url', 'http://h:2', '--write'])).status, 0);
  t.equal(
    readFileSync(path, 'utf8'),
    both.replace('model = "a"', 'model = "b"').replace('http://h:1', 'http://h:2'),
    'its own blocks are updated',
  );

  for (const taken of ['model = "o"\n', '[model_providers.monolith]\n', 'model_providers = { x = {} }\n']) {
    put(path, taken);
    const { status, out, err } = await write('--replace');
    t.equal(status, 1, taken);
    t.match(err, /is unchanged: it already sets/);
    t.match(out, /^model = "a"\n/, 'the text to paste');
    t.equal(readFileSync(path, 'utf8'), taken);
  }
});

t.test('--write keeps a symbolic link and the permissions of its target', async (t) => {
  const real = file('dotfiles', 'crush.json');
  put(real, '{}');
  const link = file('link.json');
  symlinkSync(real, link);
  const { status, err } = await agents(['crush', 'a', '--url', 'http://h:1', '--write', '--file', link]);
  t.equal(status, 0, err);
  t.ok(lstatSync(link).isSymbolicLink());
  t.equal(statSync(real).mode & 0o777, 0o644);
  t.match(json(real), { models: { small: { provider: 'monolith', model: 'a' } } });
});

t.test('refuses invalid arguments', async (t) => {
  for (const [words, message] of [
    [[], /expected the name of an agent: claude-code, codex, opencode, qwen-code, crush/],
    [['claude-cod'], /unknown agent "claude-cod"\. Did you mean claude-code\?/],
    [['codex', 'a', 'b'], /unexpected argument "b"/],
    [['codex', 'a', '--replace'], /--replace requires --write/],
    [['codex', 'a', '--url', 'ftp://x'], /--url must be the address of a server/],
    [['codex', '--url', 'http://h:1'], /name the model, or set MONOLITH_KEY/],
    [['codex', 'a', '--key-env', 'A B'], /--key-env must be the name of an environment variable/],
  ] as const) {
    const { status, err } = await agents([...words]);
    t.equal(status, 2, words.join(' '));
    t.match(err, message, words.join(' '));
  }
});
