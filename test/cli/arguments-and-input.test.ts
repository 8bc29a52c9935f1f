// The parts of the command line that need no server: arguments, chat input, the log file and the recommended models.

import { mkdirSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import t from 'tap';
import { appendHistory, historyPath, readHistory } from '../../src/cli/chat-history.js';
import { MessageInput, parseCommand } from '../../src/cli/chat-input.js';
import { readImage } from '../../src/cli/chat-image.js';
import { speed } from '../../src/cli/chat-loop.js';
import { isInRange } from '../../src/cli/doctor-checks.js';
import { lastLines, LogFollower } from '../../src/cli/logs.js';
import { modelArgument } from '../../src/cli/model-argument.js';
import { duration } from '../../src/cli/ps.js';
import { recommendedText } from '../../src/cli/recommended-text.js';
import { didYouMean } from '../../src/config/did-you-mean.js';
import { packageRoot } from '../../src/engine/load-addon.js';
import { parseModelRef } from '../../src/hub/model-ref.js';
import { RECOMMENDED } from '../../src/shared/recommended-models.js';
import { LogFile, logPath, rotatedLogPath } from '../../src/telemetry/log-file.js';
import { eventually } from '../e2e/monolith.js';

const folder = mkdtempSync(join(tmpdir(), 'monolith-input-'));
t.teardown(() => rmSync(folder, { recursive: true, force: true }));

t.test('suggests only names that are close', (t) => {
  const flags = ['--port', '--log', '--host', '--json', '--help'];
  for (const [name, suggestion] of [
    ['--prot', '--port'],
    ['--jsom', '--json'],
    ['--hst', '--host'],
    ['--foo', ''],
    ['--pwd', ''],
    ['--xyzzy', ''],
    ['-x', ''],
  ] as const)
    t.equal(didYouMean(name, flags), suggestion === '' ? '' : ` Did you mean ${suggestion}?`, name);
  t.end();
});

t.test('a model argument is a file, a repository, a recommended name or NAME=SOURCE', (t) => {
  const files = ['Llama-3-8B-Q4_K_M.gguf', 'big-00001-of-00003.gguf', 'a=b.gguf', 'qwen3-4b'];
  for (const name of files) writeFileSync(join(folder, name), '');
  mkdirSync(join(folder, 'My Model'));
  const at = (name: string): string => join(folder, name);
  for (const [word, name, source] of [
    [at('Llama-3-8B-Q4_K_M.gguf'), 'llama-3-8b', at('Llama-3-8B-Q4_K_M.gguf')],
    [at('big-00001-of-00003.gguf'), 'big', at('big-00001-of-00003.gguf')],
    [at('a=b.gguf'), 'a-b', at('a=b.gguf')],
    [at('My Model'), 'my-model', at('My Model')],
    ['Qwen/Qwen3-8B-GGUF:Q4_K_M', 'qwen3-8b', 'hf:Qwen/Qwen3-8B-GGUF:Q4_K_M'],
    ['hf:Qwen/Qwen3-8B-GGUF@v1', 'qwen3-8b', 'hf:Qwen/Qwen3-8B-GGUF@v1'],
    ['qwen3-4b', 'qwen3-4b', 'hf:Qwen/Qwen3-4B-GGUF:Q4_K_M'],
    ['small=Qwen/Qwen3-8B-GGUF', 'small', 'hf:Qwen/Qwen3-8B-GGUF'],
    [`mine=${at('qwen3-4b')}`, 'mine', at('qwen3-4b')],
    ['far=http://127.0.0.1:9/v1', 'far', 'http://127.0.0.1:9/v1'],
  ] as const)
    t.same(modelArgument('serve', word), { name, source }, word);
  for (const [word, message] of [
    ['none.gguf', 'serve: none.gguf: no such file'],
    ['./none', 'serve: ./none: no such file'],
    ['x=none.gguf', 'serve: none.gguf: no such file'],
    ['http://127.0.0.1:9/v1', 'serve: give the upstream model a name: NAME=http://127.0.0.1:9/v1'],
    ['qwen3-4c', /^serve: "qwen3-4c" is not a file, .*Did you mean qwen3-4b\?/],
    ['a/b/c', /is not OWNER\/REPO/],
  ] as const)
    t.throws(() => modelArgument('serve', word), { message }, word);
  t.end();
});

t.test('every recommended model has an architecture that the engine reads, and fits into its memory', (t) => {
  const page = readFileSync(join(packageRoot, 'docs', 'reference', 'models.md'), 'utf8');
  const list = /<!-- architectures -->([^]*)<!-- \/architectures -->/.exec(page)?.[1] ?? '';
  const architectures = new Set([...list.matchAll(/^\| `(\S+)` \|/gm)].map(([, name]) => name));
  t.ok(architectures.size > 50);
  t.match(RECOMMENDED.date, /^\d{4}-\d\d-\d\d$/);
  const kinds = RECOMMENDED.models.map(({ memoryGb, purpose }) => `${memoryGb} ${purpose}`);
  t.same(
    kinds,
    [8, 16, 24, 64].flatMap((memory) => ['text', 'code', 'vision'].map((purpose) => `${memory} ${purpose}`)),
  );
  for (const { name, ref, architecture, memoryGb, downloadGb, source } of RECOMMENDED.models) {
    t.ok(architectures.has(architecture), `${name}: ${architecture}`);
    t.equal(source, `https://huggingface.co/${parseModelRef(ref).repo}`);
    t.ok(downloadGb <= 0.55 * memoryGb, `${name} leaves room for the KV cache`);
    t.match(recommendedText('monolith'), `${ref}\n`);
  }
  t.equal(new Set(RECOMMENDED.models.map(({ name }) => name)).size, RECOMMENDED.models.length);
  t.end();
});

t.test('a chat message can have several lines', (t) => {
  const messages = (lines: (string | { pasted: string })[]): { sent: (string | null)[]; rest: string } => {
    const input = new MessageInput();
    const sent = lines.map((line) => (typeof line === 'string' ? input.push(line) : input.push(line.pasted, true)));
    return { sent, rest: input.take() };
  };
  for (const [lines, sent, rest] of [
    [['Hello'], ['Hello'], ''],
    [['"""', 'a', '  b', '"""', 'c'], [null, null, null, 'a\n  b', 'c'], ''],
    [['"""a', 'b"""'], [null, 'a\nb'], ''],
    [['"""a b"""'], ['a b'], ''],
    [['a\\', 'b\\', 'c'], [null, null, 'a\nb\nc'], ''],
    [[{ pasted: 'a\\' }, { pasted: '"""' }, 'c'], [null, null, 'a\\\n"""\nc'], ''],
    [['"""', 'a'], [null, null], 'a'],
    [['say """ twice'], ['say """ twice'], ''],
  ] as const)
    t.same(messages([...lines]), { sent, rest }, JSON.stringify(lines));
  t.end();
});

t.test('parses the commands of a chat, and leaves other messages unchanged', (t) => {
  for (const [message, command] of [
    ['Hello', null],
    ['/etc/hosts: what is it?', null],
    ['/ a slash', null],
    ['/quit', { name: 'exit' }],
    ['/model', { name: 'model', model: '' }],
    ['/system', { name: 'system', text: null }],
    ['/system ""', { name: 'system', text: '' }],
    ['/system Be brief.\nAlways.', { name: 'system', text: 'Be brief.\nAlways.' }],
    ['/set', { name: 'set', field: null, value: null }],
    ['/set seed 7', { name: 'set', field: 'seed', value: 7 }],
    ['/set seed', { name: 'set', field: 'seed', value: null }],
    ['/set reasoning_effort low', { name: 'set', field: 'reasoning_effort', value: 'low' }],
    ['/set seed x', { name: 'wrong', problem: '/set: seed takes a number, not "x"' }],
    ['/set model x', { name: 'wrong', problem: /^\/set: unknown field "model"; known: temperature, / }],
    ['/image a.png', { name: 'image', path: 'a.png', text: '' }],
    ['/image "my cat.png" What is it?', { name: 'image', path: 'my cat.png', text: 'What is it?' }],
    ['/image my\\ cat.png What?', { name: 'image', path: 'my cat.png', text: 'What?' }],
    ['/image', { name: 'wrong', problem: '/image needs the path of a file' }],
    ['/nonsense', { name: 'wrong', problem: '/nonsense is not a command' }],
  ] as const)
    if (command === null) t.equal(parseCommand(message), null, message);
    else t.match(parseCommand(message), command, message);
  t.end();
});

t.test('detects the image type from the content, and reports why a file is refused', (t) => {
  const shapes = join(packageRoot, 'test', 'data', 'vision', 'shapes.png');
  t.match(readImage(shapes), { url: /^data:image\/png;base64,iVBOR/, bytes: statSync(shapes).size });
  const text = join(folder, 'text.png');
  writeFileSync(text, 'not an image');
  t.throws(() => readImage(text), { message: `${text}: not a PNG, JPEG, GIF or WebP image` });
  t.throws(() => readImage(folder), { message: `${folder}: not a file` });
  t.throws(() => readImage('/none.png'), { message: '/none.png: no such file' });
  t.end();
});

t.test('the chat history is private and bounded', (t) => {
  t.equal(historyPath({ XDG_STATE_HOME: '/s' }), '/s/monolith/chat-history');
  t.match(historyPath({}), /\/\.local\/state\/monolith\/chat-history$/);
  const path = historyPath({ XDG_STATE_HOME: join(folder, 'state') });
  t.same(readHistory(path), []);
  appendHistory(path, ['first', '', 'x'.repeat(5_000), 'second']);
  t.same(readHistory(path), ['first', 'second']);
  t.equal(statSync(path).mode & 0o777, 0o600);
  appendHistory(
    path,
    Array.from({ length: 1_200 }, (_, at) => `${at} ${'y'.repeat(2_000)}`),
  );
  t.ok(readHistory(path).length <= 1_000);
  t.ok(statSync(path).size <= 1_048_576);
  t.match(readHistory(path).at(-1), /^1199 y/);
  t.end();
});

t.test('the log file is written after open(), without colors, and stays below its limit', async (t) => {
  const file = new LogFile(folder, 20_000);
  file.write('\u001b[33mearly\u001b[0m\n');
  t.equal(lastLines(folder, 10), '', 'nothing is written before the directory belongs to the server');
  file.open();
  t.ok(await eventually(() => lastLines(folder, 10) === 'early\n'));
  let followed = '';
  const follower = new LogFollower(folder, (bytes) => {
    followed += bytes.toString();
  });
  for (let at = 0; at < 1_000; at++) {
    file.write(`line ${at} ${'z'.repeat(50)}\n`);
    if (at % 50 === 49) {
      await eventually(() => lastLines(folder, 1).startsWith(`line ${at} `));
      follower.step();
    }
  }
  t.match(lastLines(folder, 2), /^line 998 .*\nline 999 .*\n$/);
  t.ok(statSync(logPath(folder)).size + statSync(rotatedLogPath(folder)).size <= 20_000);
  t.equal(lastLines(folder, 150).split('\n').length, 151, 'the rotated file is shown too');
  t.same(
    followed.match(/^line \d+/gm),
    Array.from({ length: 1_000 }, (_, at) => `line ${at}`),
    'a follower sees every line once, across rotations',
  );
  writeFileSync(logPath(folder), 'after truncation\n');
  follower.step();
  t.match(followed, /line 999 z+\nafter truncation\n$/, 'a follower sees the lines of a truncated file');
  t.equal(statSync(logPath(folder)).mode & 0o777, 0o600);
  t.equal(file.dropped, 0);
});

t.test('numbers are shown in the units that people use', (t) => {
  t.equal(speed(43, 210, 1_000), '43 tokens, 42.0 tokens/s, first after 0.21 s');
  t.equal(speed(1, 210, 0), '1 token, first after 0.21 s');
  t.equal(speed(null, 210, 50), 'first after 0.21 s');
  t.same([41, 60, 3_599, 7_500, 273_600].map(duration), ['41 s', '1 min', '59 min 59 s', '2 h 5 min', '3 d 4 h']);
  t.same(
    ['20.16.9', '20.17.0', '25.9.1', '26.0.0'].map((version) => isInRange(version, '>=20.17 <26')),
    [false, true, true, false],
  );
  t.end();
});
