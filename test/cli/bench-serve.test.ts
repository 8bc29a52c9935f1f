// Runs `monolith bench serve` as an operator would: against a real server in each of the three API formats, with an
// interruption, and with invalid arguments.

import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import t from 'tap';
import { StandInServer } from '../../bench/lib/stand-in-server.js';
import type { LoadReport } from '../../src/bench/load/report/report.js';
import { FLAGS, wantedOf } from '../../src/cli/bench-serve-flags.js';
import { loadConfig } from '../../src/config/load.js';
import { apiUrl, prepare } from '../../src/bench/load/prepare.js';
import type { Target } from '../../src/bench/load/types.js';
import { embeddedModel, eventually, main, startMonolith } from '../e2e/monolith.js';

t.setTimeout(300_000); // the machine may be busy

const folder = mkdtempSync(join(tmpdir(), 'monolith-bench-'));
t.teardown(() => rmSync(folder, { recursive: true, force: true }));
const environment = { ...process.env, HOME: folder, MONOLITH_DATA_DIR: join(folder, 'data'), MONOLITH_API_KEY: '' };

function monolith(
  args: string[],
  env: Record<string, string> = {},
): { status: number | null; out: string; err: string } {
  const { status, stdout, stderr } = spawnSync(process.execPath, [main, ...args], {
    encoding: 'utf8',
    timeout: 120_000,
    maxBuffer: 1 << 26,
    cwd: folder,
    env: { ...environment, ...env },
  });
  return { status, out: stdout, err: stderr };
}

t.test('measures a real server in each of the three API formats', async (t) => {
  const server = await startMonolith({ args: ['--model', `tiny=${embeddedModel}`] });
  t.teardown(() => server.stop());
  const schema = join(folder, 'schema.json');
  writeFileSync(
    schema,
    '{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"],"additionalProperties":false}',
  );
  const forms: [name: string, args: string[], requests: number, tokens: number | null][] = [
    ['chat', ['--prefix-tokens', '40', '--prompt-tokens', '30', '--output-tokens', '6', '--ignore-eos'], 4, 24],
    [
      'completions',
      [
        '--prompt-tokens',
        '30..50',
        '--output-tokens',
        '6',
        '--ignore-eos',
        '--rate',
        '20',
        '--slo',
        'e2e=100s,ttft=0.001ms',
      ],
      4,
      24,
    ],
    [
      'responses',
      [
        '--stored',
        '--turns',
        '2',
        '--prompt-tokens',
        '30',
        '--output-tokens',
        '6',
        '--ignore-eos',
        '--slo',
        'e2e=100s',
      ],
      4,
      24,
    ],
    [
      'chat',
      ['--schema', schema, '--prompt-tokens', '160', '--output-tokens', '40', '--body', '{"temperature":0}'],
      2,
      null,
    ],
  ];
  for (const [dialect, args, requests, tokens] of forms) {
    const { status, out, err } = monolith(
      [
        'bench',
        'serve',
        '--url',
        server.url,
        '--dialect',
        dialect,
        '--requests',
        String(requests),
        '--warmup',
        '1',
        '--out',
        'out',
        '--json',
        ...args,
      ],
      { MONOLITH_KEY: server.key },
    );
    t.equal(
      status,
      args.some((word) => word.includes('ttft=0.001ms')) ? 3 : 0,
      `${err}: exit code 3 if an objective is missed, otherwise 0`,
    );
    const {
      runs: [run],
      exactLengths,
      command,
    } = JSON.parse(out) as LoadReport;
    t.same(
      run?.summary.requests,
      { asked: requests, answered: requests, failed: 0, cancelled: 0 },
      `${dialect}: ${JSON.stringify(run?.summary.errors)}`,
    );
    t.ok(exactLengths && !command.includes(server.key));
    t.ok((run?.summary.ttft?.min ?? 0) > 0 && (run?.summary.e2e?.min ?? 0) > (run?.summary.ttft?.min ?? 0));
    if (tokens !== null) t.equal(run?.summary.totals.outputTokens, tokens);
    // The server's own prompt token counts exactly equal the requested lengths.
    const lines = readFileSync(join(folder, 'out', 'run-1', 'requests.jsonl'), 'utf8')
      .trimEnd()
      .split('\n')
      .map(
        (line) => JSON.parse(line) as { turn: number; promptTokens: number; wanted: { promptTokens: number | null } },
      );
    if (!args.includes('--prefix-tokens'))
      for (const { turn, promptTokens, wanted } of lines)
        if (turn === 0) t.equal(promptTokens, wanted.promptTokens, `${dialect}: prompt tokens`);
    if (args.includes('--prefix-tokens'))
      t.ok((run?.summary.totals.cachedTokens ?? 0) > 0, 'the shared prefix is found in the cache');
  }
});

t.test('a second round sends the same requests, and the server finds them in its cache', async (t) => {
  const server = await startMonolith({ args: ['--model', `tiny=${embeddedModel}`] });
  t.teardown(() => server.stop());
  const { status, out, err } = monolith(
    [
      'bench',
      'serve',
      '--url',
      server.url,
      '--requests',
      '6',
      '--rounds',
      '2',
      '--prompt-tokens',
      '160',
      '--output-tokens',
      '2',
      '--ignore-eos',
      '--out',
      'rounds',
      '--json',
    ],
    { MONOLITH_KEY: server.key },
  );
  t.equal(status, 0, err);
  const { runs, laterRounds } = JSON.parse(out) as LoadReport;
  t.same(
    runs.map(({ round, summary }) => [round, summary.requests.answered]),
    [
      [1, 6],
      [2, 6],
    ],
  );
  const [asked = 0, askedAgain] = runs.map(({ summary }) => summary.totals.promptTokens),
    [first = 0, second = 0] = runs.map(({ summary }) => summary.totals.cachedTokens);
  t.ok(asked > 6 * 140 && askedAgain === asked, 'the prompts have the same lengths');
  t.ok(first < asked / 2 && second > asked * 0.7, `${first} and ${second} of ${asked} tokens from the cache`);
  t.match(laterRounds, [{ round: 2, repeated: { ttft_p50_ms: { mean: Number } } }]);
  t.ok(existsSync(join(folder, 'rounds', 'run-1-round-2', 'requests.jsonl')));
});

t.test('Ctrl-C prints and writes the results so far', async (t) => {
  const server = await StandInServer.start({ firstMs: 20, gapMs: 5 });
  t.teardown(() => server.close());
  const child = spawn(
    process.execPath,
    [
      main,
      'bench',
      'serve',
      '--url',
      server.url,
      '--requests',
      '100000',
      '--concurrency',
      '4',
      '--output-tokens',
      '8',
      '--runs',
      '3',
      '--out',
      'stopped',
    ],
    { cwd: folder, env: environment, stdio: ['ignore', 'pipe', 'pipe'] },
  );
  let out = '';
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    out += text;
  });
  t.ok(await eventually(() => server.bodies.length > 20));
  child.kill('SIGINT');
  const [code] = (await once(child, 'exit')) as [number];
  t.equal(code, 130);
  t.match(out, /completed in .*4 cancelled/);
  t.match(out, /! the run was stopped early/);
  const { runs } = JSON.parse(readFileSync(join(folder, 'stopped', 'result.json'), 'utf8')) as LoadReport;
  t.equal(runs.length, 1, 'no further run is started');
  t.ok((runs[0]?.summary.requests.answered ?? 0) > 0 && existsSync(join(folder, 'stopped', 'report.html')));
});

t.test('refuses invalid arguments, and reports unreachable servers', async (t) => {
  const server = await StandInServer.start({
    firstMs: 0,
    gapMs: 0,
    instead: (_, response) => response.writeHead(401).end('{"error":{"message":"no such key"}}') !== undefined,
  });
  t.teardown(() => server.close());
  const closed = await StandInServer.start({ firstMs: 0, gapMs: 0 });
  const gone = { url: closed.url };
  await closed.close();
  writeFileSync(join(folder, 'bad.jsonl'), '{"timestamp":1,"input_length":1,"output_length":1}\nnonsense\n');
  const words: [words: string[], said: RegExp][] = [
    [['--concurrency', '4', '--rate', '3'], /--concurrency and --rate cannot be combined/],
    [['--concurrency', '0'], /--concurrency: "0" is not a whole number of 1 or more/],
    [['--rounds', '2', '--duration', '1s'], /--rounds needs --requests/],
    [['--dialect', 'messages'], /one of chat, completions, responses/],
    [['--slo', 'ttft=5'], /"ttft=5": a latency must be a number above 0/],
    [['--bursts', '5'], /such as 20\/5s/],
    [['--sharegpt', 'absent.json'], /absent\.json: does not exist/],
    [['--header', 'x'], /--header: not "Name: value"/],
    [['--prompt-tokens', 'many'], /--prompt-tokens: "many" is not a length/],
    [['--body', '[1]'], /--body: the value is not a JSON object/],
    [['--max-concurrency', '3'], /--max-concurrency needs --rate/],
    [['--duration', 'long'], /such as 500ms, 30s or 5m/],
    [['--stored'], /--stored needs --dialect responses/],
    [['--as-traced'], /--as-traced needs --mooncake/],
    [['--burstiness', '2'], /--burstiness needs --rate/],
    [['--mooncake', 'x', '--prompt-tokens', '5'], /--prompt-tokens cannot be combined with --mooncake/],
    [['--prefixes', '2'], /--prefixes needs --prefix-tokens/],
  ];
  for (const [argv, said] of words) {
    const { lists } = loadConfig({ argv, env: {} }, FLAGS).own;
    await t.rejects(wantedOf(lists, new Date()), { name: 'UsageError', message: said }, argv.join(' '));
  }
  const mistakes: [words: string[], status: number, said: RegExp][] = [
    [[], 2, /no server runs on .*set --url/],
    [['what'], 2, /unexpected argument "what"/],
    [['--concurency', '4'], 2, /--concurency: unknown flag\. Did you mean --concurrency\?/],
    [['--mooncake', 'bad.jsonl'], 2, /bad\.jsonl:2: is not valid JSON/],
    [['--url', gone.url], 1, /http:\/\/127\.0\.0\.1:[0-9]+\/v1\/models: cannot be reached: .*ECONNREFUSED/],
  ];
  for (const [given, status, said] of mistakes) {
    const done = monolith(['bench', 'serve', ...given]);
    t.match(done, { status, out: '', err: said }, given.join(' '));
    t.equal(done.err.trimEnd().split('\n').length, 1, 'the error is one line');
  }
  const target: Target = {
    url: server.url,
    dialect: 'chat',
    model: 'm',
    headers: {},
    body: {},
    ignoreEos: false,
    capField: 'max_tokens',
    timeoutMs: 5000,
  };
  await t.rejects(prepare(target, { schema: null }), {
    name: 'LoadError',
    message: /failed on a chat request: http_401: no such key/,
  });
  t.match(monolith(['bench', 'serve', '--help']), { status: 0, out: /closed loop/ });
  t.match(monolith(['bench', 'sevre']), { status: 2, err: /bench: expected serve.*not "sevre"/ });
});

t.test('detects how a server counts tokens and which parameters it accepts', async (t) => {
  const target = (url: string): Target => ({
    url,
    dialect: 'chat',
    model: 'm',
    headers: {},
    body: {},
    ignoreEos: false,
    capField: 'max_tokens',
    timeoutMs: 5000,
  });
  const plain = await StandInServer.start({ firstMs: 0, gapMs: 0 });
  const tokenizes = await StandInServer.start({ firstMs: 0, gapMs: 0, tokenizes: true });
  const modern = await StandInServer.start({
    firstMs: 0,
    gapMs: 0,
    instead: (_, response, body) =>
      body.max_tokens !== undefined &&
      response.writeHead(400).end('{"error":{"message":"Use \'max_completion_tokens\' instead."}}') !== undefined,
  });
  t.teardown(async () => {
    await Promise.all([plain, tokenizes, modern].map((one) => one.close()));
  });
  const known = await prepare(target(tokenizes.url), { schema: null });
  t.match(known.measure, { exact: true, overhead: 7 });
  t.match(known.measure.tokens.slice(0, 3), [1, 1, 1]);
  t.ok(
    known.measure.tokens.some((tokens) => tokens > 1),
    'words have the token counts of the server',
  );
  const guessed = await prepare(target(plain.url), { schema: null });
  t.ok(
    !guessed.measure.exact && Math.abs((guessed.measure.tokens[0] ?? 0) - 1.2) < 0.3,
    JSON.stringify(guessed.measure.tokens[0]),
  );
  t.equal((await prepare(target(modern.url), { schema: null })).target.capField, 'max_completion_tokens');
  t.same(['127.0.0.1:80', 'https://x.y', 'http://x/api/v3/', 'localhost:1'].map(apiUrl), [
    'http://127.0.0.1/v1',
    'https://x.y/v1',
    'http://x/api/v3',
    'http://localhost:1/v1',
  ]);
});
