// The commands as an operator runs them: real processes on a real data folder.

import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import t from 'tap';
import { VERSION } from '../../src/version.js';
import { embeddedModel, main, startMonolith } from '../e2e/monolith.js';

const dataDir = mkdtempSync(join(tmpdir(), 'monolith-cli-'));
t.teardown(() => rmSync(dataDir, { recursive: true, force: true }));

function monolith(args: string[], input = ''): { status: number | null; out: string; err: string } {
  const { status, stdout, stderr } = spawnSync(process.execPath, [main, ...args], {
    input, encoding: 'utf8', timeout: 60_000, maxBuffer: 1 << 28, env: { ...process.env, MONOLITH_DATA_DIR: dataDir },
  });
  return { status, out: stdout, err: stderr };
}

t.test('version, help, mistakes', (t) => {
  t.match(monolith(['--version']), { status: 0, out: `${VERSION}\n` });
  const help = monolith(['--help']);
  t.equal(help.status, 0);
  for (const word of ['serve', 'chat', 'keys', 'inspect', 'debug', '--http-keepalive-ms', 'MONOLITH_HTTP_KEEPALIVE_MS']) t.match(help.out, word);
  t.match(monolith(['serv']), { status: 2, out: '', err: /no command "serv"\. Did you mean serve\?/ });
  t.match(monolith(['--prot', '1']), { status: 2, err: 'monolith: --prot: no such flag. Did you mean --port?\n' });
  t.match(monolith(['serve', 'what']), { status: 2, err: /unexpected argument "what"/ });
  t.match(monolith(['serve', '--model', 'x=/nothing.gguf']), { status: 1, err: 'monolith: /nothing.gguf: is not there\n' });
  t.end();
});

t.test('inspect', (t) => {
  const report = monolith(['inspect', embeddedModel]);
  t.equal(report.status, 0);
  for (const word of ['llama', 'Q8_0', 'KV pages', 'general.architecture']) t.match(report.out, word);
  const whole = JSON.parse(monolith(['inspect', embeddedModel, '--json']).out) as { tensors: unknown[]; plan: { pages: number; pageBytes: number; kvBytes: number; fullPages: number; windowPages: number } };
  t.ok(whole.tensors.length > 10);
  t.equal(whole.plan.pages * whole.plan.pageBytes, whole.plan.kvBytes);
  t.match(whole.plan, { fullPages: 1, windowPages: 0 });
  const bad = join(dataDir, 'bad.gguf');
  writeFileSync(bad, 'GGUFxxxx');
  const refused = monolith(['inspect', bad]);
  t.equal(refused.status, 2);
  t.match(refused.err, /^monolith: inspect: .+\n$/);
  t.end();
});

t.test('debug', (t) => {
  const text = 'Hello <|im_end|> wörld';
  const ids = JSON.parse(monolith(['debug', 'tokens', '--model', embeddedModel], text).out) as number[];
  const parsed = JSON.parse(monolith(['debug', 'tokens', '--model', embeddedModel, '--parse-special'], text).out) as number[];
  t.ok(ids.length > parsed.length, 'a special token in the text is text unless asked otherwise');
  t.ok(parsed.includes(1527));
  const logits = monolith(['debug', 'logits', '--model', embeddedModel, '--ids', '[1,2,3]', '--positions', '[0,2]', '--continue', '4', '--exact']);
  const { positions, continuation, arithmetic } = JSON.parse(logits.out) as { positions: { position: number; logits: number[] }[]; continuation: { tokens: number[] }; arithmetic: string };
  t.equal(arithmetic, 'exact');
  t.same(positions.map(({ position }) => position), [0, 2]);
  t.equal(positions[0]?.logits.length, 1535);
  t.equal(continuation.tokens.length, 4);
  t.equal(positions[1]?.logits.indexOf(Math.max(...positions[1].logits)), continuation.tokens[0], 'greedy takes the largest');
  t.match(monolith(['debug', 'logits', '--model', embeddedModel, '--ids', '[1.5]']), { status: 2, err: /--ids takes a JSON array/ });
  t.match(monolith(['debug', 'logits', '--ids', '[1]']), { status: 2, err: /--model FILE is needed/ });
  t.end();
});

t.test('an error is one line; where it was thrown shows on request', (t) => {
  for (const [args, line] of [
    [['debug', 'tokens', '--model', '/nope'], /^monolith: debug: .*\/nope.*\n$/],
    [['debug', 'tokens', '--model', dataDir], /^monolith: debug: .+\n$/],
    [['debug', 'logits', '--model', '/nope', '--ids', '[1]'], /^monolith: debug: .*\/nope.*\n$/],
    [['debug', 'logits', '--model', embeddedModel, '--ids', '[999999]'], /^monolith: debug: .*999999.*\n$/],
    [['debug', 'logits', '--model', embeddedModel, '--ids', '[1]', '--positions', '[7]'], /^monolith: debug: .*7.*\n$/],
    [['chat', '--url', 'http://127.0.0.1:2', '--api-key', 'sk-12345678'], /^monolith: chat: http:\/\/127\.0\.0\.1:2 cannot be reached: .+\n$/],
    [['chat', '--url', 'nowhere', '--api-key', 'sk-12345678'], /^monolith: chat: nowhere cannot be reached: .+\n$/],
    [['inspect', dataDir], /^monolith: inspect: .+\n$/],
    [['serve', '--config', dataDir], /^monolith: .+\n$/],
  ] as const) {
    const { status, out, err } = monolith([...args]);
    t.equal(status, 2, args.join(' '));
    t.equal(out, '');
    t.match(err, line);
    t.notMatch(err, /Error|\n./, args.join(' '));
  }
  t.match(monolith(['debug', 'tokens', '--model', '/nope', '--log-level', 'debug']).err, /^monolith: UsageError: debug: .*\n +at /);
  t.end();
});

t.test('models', (t) => {
  t.match(monolith(['models']).out, /hal-1\.0 .*\nclarke-1\.0 .*\ntycho-1\.0 /);
  t.match(JSON.parse(monolith(['models', '--json', '--model', `mine=${embeddedModel}`]).out), [{ id: 'mine', file: embeddedModel }]);
  t.end();
});

t.test('chat with a running server, and without one', async (t) => {
  const server = await startMonolith();
  const remote = spawnSync(process.execPath, [main, 'chat', '--url', server.url, '--model', 'tycho-1.0'], {
    input: 'Hello\n/reset\n/nonsense\n/exit\n', encoding: 'utf8', timeout: 60_000, env: { ...process.env, MONOLITH_DATA_DIR: dataDir, MONOLITH_API_KEY: server.key },
  });
  await server.stop();
  t.equal(remote.status, 0, remote.stderr);
  t.match(remote.stdout, /^tycho-1\.0 at http/);
  t.match(remote.stdout, /forgotten/);
  const local = monolith(['chat', '--model', 'tycho-1.0'], 'Hello\n');
  t.equal(local.status, 0, local.err);
  t.ok(local.out.split('\n').length > 2, 'an answer was printed');
  t.match(monolith(['chat', '--model', 'nothing'], ''), { status: 2, err: /there is no model "nothing"; it serves hal-1\.0/ });
});
