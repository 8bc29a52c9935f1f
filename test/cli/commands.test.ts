// Runs the commands as an operator would, on a real data directory.

import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import t from 'tap';
import { isDeprecatedNode } from '../../src/shared/deprecated-node.js';
import { openAccounts } from '../../src/storage/lmdb/accounts/directory.js';
import { LmdbAuditLog } from '../../src/storage/lmdb/accounts/audit-log.js';
import { keyStatus } from '../../src/accounts/keys.js';
import { commands } from '../../src/cli/commands.js';
import { accountsOf, ChatKey } from '../../src/cli/chat-key.js';
import { commandName } from '../../src/cli/command-name.js';
import { configWith } from '../../src/config/load.js';
import { makeDatabase, openStore } from '../../src/storage/lmdb/lmdb-store.js';
import { VERSION } from '../../src/shared/version.js';
import { packageRoot } from '../../src/engine/load-addon.js';
import { commandHost } from '../support/command-host.js';
import { embeddedModel, eventually, main, startMonolith } from '../e2e/monolith.js';

t.setTimeout(300_000); // the machine may be busy

const dataDir = mkdtempSync(join(tmpdir(), 'monolith-cli-'));
t.teardown(() => rmSync(dataDir, { recursive: true, force: true }));
/** The commands must not touch the directories of the user who runs the tests. */
const own = { HOME: join(dataDir, 'home'), XDG_STATE_HOME: '', MONOLITH_DATA_DIR: dataDir };

function monolith(args: string[], input = ''): { status: number | null; out: string; err: string } {
  const { status, stdout, stderr } = spawnSync(process.execPath, [main, ...args], {
    input,
    encoding: 'utf8',
    timeout: 240_000,
    maxBuffer: 1 << 28,
    env: { ...process.env, ...own },
  });
  return { status, out: stdout, err: stderr };
}

/** Runs a command that reads no input and starts no server. */
const command = commandHost(t, own);

t.test('prints the command name in the form that can be typed in the working directory', (t) => {
  t.equal(commandName(packageRoot, packageRoot), './monolith');
  t.equal(commandName(packageRoot, join(packageRoot, 'src')), '../monolith');
  t.equal(commandName(packageRoot, '/'), join(packageRoot, 'monolith').replace(/^\//, './'));
  t.equal(commandName(packageRoot, join(packageRoot, 'src', 'cli')), join(packageRoot, 'monolith'));
  t.equal(commandName(tmpdir(), packageRoot), 'monolith', 'an installed package uses the plain name');
  const { status, stdout } = spawnSync(join(packageRoot, 'monolith'), ['--version'], {
    cwd: tmpdir(),
    encoding: 'utf8',
  });
  t.match({ status, stdout }, { status: 0, stdout: `${VERSION}\n` });
  t.end();
});

t.test('prints version and help, and refuses invalid arguments', async (t) => {
  t.match(await command(['--version']), { status: 0, out: `${VERSION}\n` });
  const help = await command(['--help']);
  t.equal(help.status, 0);
  for (const word of ['serve', 'chat', 'keys', 'data', 'inspect', 'debug', '--help --all', 'monolith run'])
    t.match(help.out, word);
  t.ok(help.out.split('\n').length < 45, 'short');
  const serve = await command(['serve', '--help']);
  for (const word of ['Usage: monolith serve [MODEL...]', '--port', 'MONOLITH_HTTP_KEEPALIVE_MS'])
    t.match(serve.out, word);
  t.equal((await command(['serve', '--port', '1', '-h'])).out, serve.out, '--help wins over other arguments');
  t.equal((await command(['help', 'serve'])).out, serve.out);
  t.match((await command(['serve', '--help', '--all'])).out, /\nEngine:\n.*--engine-stall-ms /s);
  t.match(await command(['serv']), { status: 2, out: '', err: /unknown command "serv"\. Did you mean serve\?/ });
  t.match(await command(['a/b']), { status: 2, err: /To serve a model: monolith serve a\/b\./ });
  t.match(await command(['--prot', '1']), { status: 2, err: 'monolith: --prot: unknown flag. Did you mean --port?\n' });
  t.match(monolith(['serve', '--port', '0', '--model', 'x=/nothing.gguf']), {
    status: 1,
    err: 'monolith: /nothing.gguf: does not exist\n',
  });
});

t.test('every command names an unknown flag in the error, and refuses invalid flags and words alike', async (t) => {
  const listed = /^Commands:\n([^]*?)\n\n/m.exec((await command(['--help'])).out)?.[1] ?? '';
  t.same(
    listed.split('\n').map((line) => line.trim().split(' ')[0] ?? ''),
    commands.map(({ name }) => name),
  );
  // The commands run in this process, because starting a process for each case would take a minute.
  process.env['MONOLITH_DATA_DIR'] = dataDir;
  const refused = async ([name = '', ...argv]: readonly string[], message: string): Promise<void> => {
    const { run } = await commands.find((one) => one.name === name)!.load();
    await t.rejects(run([...argv]), { message }, [name, ...argv].join(' '));
  };
  for (const words of [...commands.map(({ name }) => [name]), ['bench', 'serve'], ['bench', 'tune']])
    await refused([...words, '--xyzzy'], '--xyzzy: unknown flag.');
  for (const [words, message] of [
    [['keys', 'list', '--jsom'], '--jsom: unknown flag. Did you mean --json?'],
    [['settings', '--sort'], '--sort: unknown flag. Did you mean --short?'],
    [['inspect', '-x'], '-x: unknown flag.'],
    [['models', '--json=x'], '--json: does not take a value.'],
    [['keys', 'create', '--name'], '--name: requires a value.'],
    [['bench', 'serve', '--url', '--json'], '--url: requires a value.'],
    [['debug', 'tokens', '--model=a', '--model=b'], '--model: must not be repeated.'],
    [['serve', 'what.gguf'], 'serve: what.gguf: no such file'],
    [['logs', '-n', 'x'], 'logs: --lines takes a number of lines, not "x"'],
    [['run'], 'run: a model is required, such as "monolith run qwen3-4b"'],
    [['settings', 'what'], 'unexpected argument "what"'],
    [['data', 'sweep', 'what'], 'unexpected argument "what"'],
    [['keys', 'list', '--', '--json'], 'unexpected argument "--json"'],
    [['chat', '--model', 'a=/x', '--model', 'b'], '--model: must not be repeated.'],
  ] as const)
    await refused(words, message);
  for (const [words, message] of [
    [['keys', '--xyzzy'], '--xyzzy: unknown flag.'],
    [['--help', '--xyzzy'], '--xyzzy: unknown flag.'],
    [['serve', '--help', '--xyzzy'], '--xyzzy: unknown flag.'],
    [['--version', '--xyzzy'], '--xyzzy: unknown flag.'],
    [['--version', 'what'], 'unexpected argument "what"'],
  ] as const)
    t.match(await command([...words]), { status: 2, out: '', err: `monolith: ${message}\n` }, words.join(' '));
});

t.test('every command has its own help, with examples', async (t) => {
  for (const { name } of commands) {
    const { status, out } = await command([name, '--help']);
    t.equal(status, 0, name);
    t.match(out, new RegExp(`^Usage: monolith ${name}\\b`), name);
    t.match(out, new RegExp(`\nExamples?:\n.*monolith ${name}\\b`), name);
  }
});

t.test('inspect describes a model file and reports why it cannot be served', async (t) => {
  const report = await command(['inspect', embeddedModel]);
  t.equal(report.status, 0);
  for (const word of ['llama', 'Q8_0', 'KV pages', 'general.architecture']) t.match(report.out, word);
  const whole = JSON.parse((await command(['inspect', embeddedModel, '--json'])).out) as {
    tensors: unknown[];
    plan: {
      pages: number;
      pageBytes: number;
      kvBytes: number;
      fullPages: number;
      windowPages: number;
      pagesFilled: number;
    };
  };
  t.ok(whole.tensors.length > 10);
  t.equal(whole.plan.pages * whole.plan.pageBytes, whole.plan.kvBytes);
  t.match(whole.plan, { fullPages: 1, windowPages: 0, pagesFilled: 1 });
  t.notMatch(report.out, 'idle');
  // Layers of different sizes share pages.
  const unequal = await command([
    'inspect',
    join(packageRoot, 'test', 'data', 'vectors2', 'models', 'mimo2.q8_0.gguf'),
  ]);
  t.match(unequal.out, /KV pages.*; \d+\.\d % padding, because layers differ in size; /);
  // A vision encoder on its own, and one with a text model that it was not made for.
  const tower = join(packageRoot, 'models', 'hal-1.0-mmproj.gguf');
  const alone = await command(['inspect', tower]);
  t.match(alone, {
    status: 1,
    out: /cannot be served +architecture 'clip' is a vision encoder; serve its text model, .*\n\nVision: /,
  });
  t.notMatch(alone.out, 'does not fit');
  t.match(await command(['inspect', embeddedModel, '--vision', tower]), {
    status: 1,
    out: /does not fit +.* its embedding size is 256, but that of the text model is 160\n/,
  });
  const adapter = join(dataDir, 'adapter.gguf');
  const number = (value: number): Buffer => Buffer.from(BigUint64Array.of(BigInt(value)).buffer);
  const text = (value: string): Buffer => Buffer.concat([number(value.length), Buffer.from(value)]);
  const pair = (key: string, value: string): Buffer =>
    Buffer.concat([text(key), Buffer.from(Uint32Array.of(8).buffer), text(value)]);
  writeFileSync(
    adapter,
    Buffer.concat([
      Buffer.from('GGUF\u0003\0\0\0'),
      number(0),
      number(2),
      pair('general.architecture', 'llama'),
      pair('general.type', 'adapter'),
      Buffer.alloc(64),
    ]),
  );
  t.match(await command(['inspect', adapter]), {
    status: 1,
    out: /cannot be served +the file is an adapter \(LoRA\), which is not supported; /,
  });
  const bad = join(dataDir, 'bad.gguf');
  writeFileSync(bad, 'GGUFxxxx');
  const refused = await command(['inspect', bad]);
  t.equal(refused.status, 2);
  t.match(refused.err, /^monolith: inspect: .+\n$/);
});

t.test('debug prints token IDs and logits', async (t) => {
  const text = 'Hello <|im_end|> wörld';
  const ids = JSON.parse(monolith(['debug', 'tokens', '--model', embeddedModel], text).out) as number[];
  const parsed = JSON.parse(
    monolith(['debug', 'tokens', '--model', embeddedModel, '--parse-special'], text).out,
  ) as number[];
  t.ok(ids.length > parsed.length, 'special tokens in the text are plain text unless --parse-special is given');
  t.ok(parsed.includes(1527));
  const logits = await command([
    'debug',
    'logits',
    '--model',
    embeddedModel,
    '--ids',
    '[1,2,3]',
    '--positions',
    '[0,2]',
    '--continue',
    '4',
    '--exact',
  ]);
  const { positions, continuation, arithmetic } = JSON.parse(logits.out) as {
    positions: { position: number; logits: number[] }[];
    continuation: { tokens: number[] };
    arithmetic: string;
  };
  t.equal(arithmetic, 'exact');
  t.same(
    positions.map(({ position }) => position),
    [0, 2],
  );
  t.equal(positions[0]?.logits.length, 1535);
  t.equal(continuation.tokens.length, 4);
  t.equal(
    positions[1]?.logits.indexOf(Math.max(...positions[1].logits)),
    continuation.tokens[0],
    'greedy decoding takes the largest logit',
  );
  t.match(await command(['debug', 'logits', '--model', embeddedModel, '--ids', '[1.5]']), {
    status: 2,
    err: /--ids takes a JSON array/,
  });
  t.match(await command(['debug', 'logits', '--ids', '[1]']), { status: 2, err: /--model FILE is required/ });
});

t.test('an error is one line, and --log-level debug adds the stack', async (t) => {
  for (const [args, line] of [
    [['debug', 'tokens', '--model', '/nope'], /^monolith: debug: .*\/nope.*\n$/],
    [['debug', 'tokens', '--model', dataDir], /^monolith: debug: .+\n$/],
    [['debug', 'logits', '--model', '/nope', '--ids', '[1]'], /^monolith: debug: .*\/nope.*\n$/],
    [['debug', 'logits', '--model', embeddedModel, '--ids', '[999999]'], /^monolith: debug: .*999999.*\n$/],
    [['debug', 'logits', '--model', embeddedModel, '--ids', '[1]', '--positions', '[7]'], /^monolith: debug: .*7.*\n$/],
    [
      ['chat', '--url', 'http://127.0.0.1:2', '--api-key', 'sk-12345678'],
      /^monolith: chat: http:\/\/127\.0\.0\.1:2 cannot be reached: .+\n$/,
    ],
    [['chat', '--url', 'nowhere', '--api-key', 'sk-12345678'], /^monolith: chat: nowhere cannot be reached: .+\n$/],
    [['inspect', dataDir], /^monolith: inspect: .+\n$/],
    [['serve', '--config', dataDir], /^monolith: .+\n$/],
  ] as const) {
    const { status, out, err } = await command([...args]);
    t.equal(status, 2, args.join(' '));
    t.equal(out, '');
    t.match(err, line);
    t.notMatch(err, /Error|\n./, args.join(' '));
  }
  t.match(
    (await command(['debug', 'tokens', '--model', '/nope', '--log-level', 'debug'])).err,
    /^monolith: UsageError: debug: .*\n +at /,
  );
});

t.test('models lists the models and reports broken files', async (t) => {
  t.match((await command(['models'])).out, /hal-1\.0 .*\nclarke-1\.0 .*\ntycho-1\.0 /);
  t.match(JSON.parse((await command(['models', '--json', '--model', `mine=${embeddedModel}`])).out), [
    { id: 'mine', file: embeddedModel, problem: null },
  ]);
  const cut = join(dataDir, 'cut.gguf');
  writeFileSync(cut, readFileSync(embeddedModel).subarray(0, 200_000));
  t.match(await command(['models', '--model', `whole=${embeddedModel}`, '--model', `cut=${cut}`]), {
    status: 1,
    out: /\nwhole .*starter-q8_0\.gguf\ncut .*cannot be served: .*cut\.gguf: .*truncated/,
  });
});

t.test('chats with a running server, and without one', async (t) => {
  const server = await startMonolith();
  const remote = spawnSync(process.execPath, [main, 'chat', '--url', server.url, '--model', 'tycho-1.0'], {
    input: 'Hello\n/reset\n/nonsense\n/model\n/model nothing\n/model hal-1.0\n/model\n/exit\n',
    encoding: 'utf8',
    timeout: 240_000,
    env: { ...process.env, ...own, MONOLITH_KEY: server.key },
  });
  const state = join(dataDir, 'state');
  const shapes = join(packageRoot, 'test', 'data', 'vision', 'shapes.png');
  // `script` gives the command its own terminal. The pasted lines form one message, which the line break after the
  // paste sends.
  const typed = spawnSync('script', ['-qec', `'${process.execPath}' '${main}' chat --url ${server.url}`, '/dev/null'], {
    input: `/set temperature 0\n/system Be brief.\n\u001b[200~What is the capital\nof France?\u001b[201~\n/image ${shapes} What is this?\n/exit\n`,
    encoding: 'utf8',
    timeout: 240_000,
    env: {
      ...process.env,
      ...own,
      MONOLITH_KEY: server.key,
      XDG_STATE_HOME: state,
      TERM: 'xterm',
    },
  });
  await server.stop();
  t.equal(typed.status, 0, typed.stdout);
  t.match(typed.stdout, /\/help lists the commands/);
  t.match(typed.stdout, /capital of France.*Paris/s, 'pasted lines are one message');
  t.equal(typed.stdout.match(/\d+ tokens, [\d.]+ tokens\/s, first after [\d.]+ s/g)?.length, 2);
  const history = join(state, 'monolith', 'chat-history');
  t.match(
    readFileSync(history, 'utf8'),
    /^\/set temperature 0\n\/system Be brief\.\nWhat is the capital\nof France\?\n\/image /,
  );
  t.equal(statSync(history).mode & 0o777, 0o600);
  t.equal(remote.status, 0, remote.stderr);
  t.match(remote.stdout, /^Hel[^\n]+\n$/, 'with piped input only the response is printed');
  t.match(remote.stderr, /^tycho-1\.0 at http/);
  t.match(remote.stderr, /new conversation/);
  t.match(
    remote.stderr,
    /\/nonsense is not a command; \/help lists the commands\n.*hal-1\.0, clarke-1\.0, tycho-1\.0 \(current\)\n.*there is no model "nothing"; hal-1\.0, .*\n.*switched to hal-1\.0\n.*hal-1\.0 \(current\), clarke/,
  );
  const local = monolith(['chat', '--model', 'tycho-1.0'], 'Hello\n');
  t.equal(local.status, 0, local.err);
  t.match(local, { out: /^[^\n]+\n$/, err: / at http/ });
  t.match(monolith(['chat', '--model', 'nothing'], ''), {
    status: 2,
    err: /there is no model "nothing"; the server has hal-1\.0/,
  });
  t.same(
    (await chatKeys(dataDir)).map(({ status }) => status),
    ['revoked', 'revoked'],
    'the keys of ended conversations are revoked',
  );
  t.notMatch(monolith(['keys', 'list'], '').out, /monolith chat/, 'lists omit the keys of ended conversations');
  t.match(monolith(['keys', 'list', '--all'], '').out, /monolith chat/);
});

/** The API keys of chat conversations with their audit log entries, oldest first. */
async function chatKeys(
  folder: string,
): Promise<{ status: string; minutes: number; scopes: readonly string[]; audit: string[] }[]> {
  const store = await openStore(folder);
  const accounts = openAccounts(store);
  const audit = new LmdbAuditLog(store);
  try {
    return await Promise.all(
      (await accounts.keys.all())
        .filter(({ name }) => name === 'monolith chat')
        .map(async (key) => ({
          status: keyStatus(key, new Date()),
          scopes: key.scopes,
          minutes: Math.round((Date.parse(key.expiresAt ?? '') - Date.parse(key.createdAt)) / 60_000),
          audit: (await audit.list(key.organizationId, 100, null)).data
            .filter(({ target }) => target === key.id)
            .map(({ action, actor }) => `${actor.type} ${action}`)
            .reverse(),
        })),
    );
  } finally {
    await accounts.close();
    await store.close();
  }
}

t.test('the key of a conversation is revoked when it ends, even if a signal ends it', async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'monolith-chat-'));
  t.teardown(() => rmSync(folder, { recursive: true, force: true }));
  const server = await startMonolith({ env: { MONOLITH_DATA_DIR: folder, MONOLITH_API_KEY: '' } });
  for (const signal of ['SIGINT', 'SIGTERM'] as const) {
    const child = spawn(process.execPath, [main, 'chat'], {
      stdio: ['pipe', 'pipe', 'pipe'],
      env: { ...process.env, ...own, MONOLITH_DATA_DIR: folder },
    });
    let said = '';
    child.stderr.setEncoding('utf8').on('data', (text: string) => {
      said += text;
    });
    const exited = once(child, 'exit');
    t.ok(await eventually(() => said.includes(' at http'), 120_000));
    t.match((await chatKeys(folder)).at(-1), { status: 'active', minutes: 60, scopes: ['inference', 'models.read'] });
    child.kill(signal);
    t.same(await exited, [signal === 'SIGINT' ? 130 : 143, null]);
    t.match((await chatKeys(folder)).at(-1), {
      status: 'revoked',
      audit: ['command_line api_key.created', 'command_line api_key.revoked'],
    });
  }
  await server.stop();
});

t.test("a conversation's key is renewed, and replaced if it was revoked", async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'monolith-chat-'));
  t.teardown(() => rmSync(folder, { recursive: true, force: true }));
  makeDatabase(folder);
  const withAccounts = accountsOf({ data_dir: folder, database: configWith({}).database });
  await withAccounts((accounts) => accounts.organizations.ensureFirst());
  let now = Date.now();
  const key = new ChatKey(withAccounts, () => now);
  const first = await key.current();
  now += 20 * 60_000;
  t.equal(await key.current(), first);
  t.match(await chatKeys(folder), [{ minutes: 60 }], 'a key that is valid for long enough is not changed');
  now += 20 * 60_000;
  t.equal(await key.current(), first);
  t.match(await chatKeys(folder), [
    { minutes: 100, audit: ['command_line api_key.created', 'command_line api_key.changed'] },
  ]);
  await withAccounts(async (accounts) => {
    for (const { organizationId, id } of await accounts.keys.all())
      await accounts.keys.revoke(organizationId, id, null);
  });
  now += 50 * 60_000;
  t.not(await key.current(), first, 'a revoked key is replaced by a new one');
  await key.revoke();
  await key.revoke();
  t.same(
    (await chatKeys(folder)).map(({ status }) => status),
    ['revoked', 'revoked'],
  );
});

t.test('reports a port that is in use', async (t) => {
  const taken = createServer().listen(0, '127.0.0.1');
  await once(taken, 'listening');
  const { port } = taken.address() as AddressInfo;
  const file = join(dataDir, 'file');
  writeFileSync(file, '');
  t.match(monolith(['serve', '--port', String(port)]), {
    status: 1,
    err: new RegExp(
      `Cannot listen on 127\\.0\\.0\\.1 port ${port}: the port is in use\\. Choose another one with --port \\(0 = any free port\\)\\.\n$`,
    ),
  });
  t.match(monolith(['serve', '--port', '0', '--admin-token', 'x'.repeat(20), '--admin-port', String(port)]), {
    status: 1,
    err: new RegExp(`port ${port}: the port is in use\\. Choose another one with --admin-port`),
  });
  for (const model of ['/nothing.gguf', 'hf:nobody/nothing']) {
    const early = monolith([
      'serve',
      '--port',
      String(port),
      '--model',
      `x=${model}`,
      '--hub-endpoint',
      'http://127.0.0.1:1',
      '--hub-cache',
      dataDir,
    ]);
    t.match(
      early,
      { status: 1, err: new RegExp(`^monolith: Cannot listen on .* port ${port}: `) },
      'the port is checked before model files and the hub',
    );
  }
  const doctor = await command(['doctor', '--port', String(port), '--data-dir', file, '--hub-offline']);
  t.equal(doctor.status, 1);
  for (const line of [
    `fail  ports  Cannot listen on 127.0.0.1 port ${port}: the port is in use\n  → Choose another one with --port (0 = any free port).\n`,
    `fail  data directory  ${file} is not a directory\n`,
    'ok  hub  not contacted (--hub-offline)\n',
    'ok  model hal-1.0  needs up to ',
    isDeprecatedNode(process.versions.node) ? 'warn  node  20.' : 'ok  node ',
    `\n2 failures, ${isDeprecatedNode(process.versions.node) ? '1 warning' : '0 warnings'}.\n`,
  ])
    t.match(doctor.out.replace(/ {2,}/g, '  '), line);
  t.match(await command(['doctor', '--data-dir', '/proc/none', '--hub-offline']), {
    status: 1,
    out: /fail {2}data directory +user \d+ cannot write to \/proc \(\w+\)\n/,
  });
  taken.close();
  t.match(monolith(['serve', '--port', '0', '--host', '192.0.2.1']), {
    status: 1,
    err: /the address does not belong to this machine\. Choose another one with --host\.\n$/,
  });
});

// Runs as root without the capability to bind low ports, in a new network namespace, where the limit for low ports has
// its default value.
const asPlainUser = ['-rn', 'setpriv', '--bounding-set', '-net_bind_service', '--inh-caps', '-net_bind_service', '--'];
const may = spawnSync('unshare', [...asPlainUser, 'sh', '-c', 'ip link set lo up'], { encoding: 'utf8' });

t.test(
  'reports a port that requires root',
  { skip: may.status === 0 ? false : `unshare is not permitted here: ${may.error?.message ?? may.stderr}` },
  (t) => {
    const folder = mkdtempSync(join(tmpdir(), 'monolith-port-'));
    t.teardown(() => rmSync(folder, { recursive: true, force: true }));
    const { status, stderr } = spawnSync(
      'unshare',
      [
        ...asPlainUser,
        'sh',
        '-c',
        `ip link set lo up; exec ${process.execPath} ${main} serve --port 80 --data-dir ${folder}`,
      ],
      { encoding: 'utf8', timeout: 240_000, env: { ...process.env, ...own } },
    );
    t.match(
      { status, stderr },
      {
        status: 1,
        stderr:
          /Cannot listen on 127\.0\.0\.1 port 80: permission denied; ports below 1024 require root\. Choose another one with --port \(0 = any free port\)\.\n$/,
      },
    );
    t.end();
  },
);
