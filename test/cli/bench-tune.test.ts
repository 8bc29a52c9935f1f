// Runs `monolith bench tune` against a real server and checks its output, its effects, and the arguments it refuses.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import type { EngineTunables } from '../../src/shared/wire/tunables.js';
import type { TuneRun, TuneRunSummary } from '../../src/shared/wire/tuning.js';
import { endsWithParent, eventually, main, startMonolith } from '../e2e/monolith.js';
import { dataFolder } from '../e2e/stored-server.js';

t.setTimeout(300_000); // the machine may be busy

const TOKEN = 'operator-token-0123456789';
const data = dataFolder();
t.teardown(() => data.remove());

interface Ended {
  code: number | null;
  out: string;
  err: string;
}

function command(args: readonly string[]): {
  ended: Promise<Ended>;
  kill(signal: NodeJS.Signals): void;
  err(): string;
} {
  const child = spawn(
    process.execPath,
    [...endsWithParent, main, 'bench', 'tune', '--data-dir', data.path, '--admin-token', TOKEN, ...args],
    { stdio: ['pipe', 'pipe', 'pipe'], env: { ...process.env, HOME: data.path } },
  );
  let [out, err] = ['', ''];
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    out += text;
  });
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    err += text;
  });
  return {
    ended: once(child, 'close').then(([code]) => ({ code: code as number | null, out, err })),
    kill: (signal) => {
      child.kill(signal);
    },
    err: () => err,
  };
}

t.test('tunes a running server', async (t) => {
  // The server has no configured API key, so the command creates a key.
  const server = await startMonolith({
    env: { MONOLITH_DATA_DIR: data.path, MONOLITH_API_KEY: '', MONOLITH_ADMIN_TOKEN: TOKEN, MONOLITH_ADMIN_PORT: '0' },
  });
  t.teardown(async () => {
    await server.stop();
  });
  const admin = /"url":"(http:[^"]+\/admin\/api)"/.exec(server.log())?.[1] ?? '';
  const get = async <T>(path: string): Promise<T> =>
    (await (await fetch(`${admin}${path}`, { headers: { authorization: `Bearer ${TOKEN}` } })).json()) as T;
  const engine = (): Promise<EngineTunables> => get<EngineTunables>('/tunables/hal-1.0');
  const values = async (): Promise<number[]> => (await engine()).tunables.map(({ value }) => value);
  const before = await values();
  const asked = ['--admin-url', admin, '--model', 'hal-1.0', '--slo', 'ttft_p90=60s,errors=1%', '--trials', '16'];
  const short = ['--max-load', '4', '--trial-seconds', '0.3', '--prompt-tokens', '24', '--output-tokens', '6'];

  const file = join(data.path, 'run.json');
  const whole = await command([...asked, ...short, '--out', file]).ended;
  t.equal(whole.code, 0, whole.err);
  t.match(whole.err, /now +max_batch_tokens \d+, max_sequences 32, step_ms 250/);
  t.match(whole.err, / 16 confirm max_batch_tokens/);
  t.match(whole.out, /Best trade-offs[^]+good\/s[^]+good requests per second/);
  const run = JSON.parse(readFileSync(file, 'utf8')) as TuneRun;
  t.match(run, {
    state: 'done',
    objectives: ['ttft_p90=60000ms', 'errors=1%'],
    workload: 'prompts of 24 tokens, outputs of 6 tokens',
    trials: { length: 16 },
  });
  t.ok(run.trials.every(({ errors }) => Object.keys(errors).length === 0));
  t.same(await values(), before);
  t.match(
    (await get<{ data: TuneRunSummary[] }>('/tuning')).data,
    [{ id: run.id, state: 'done', by: 'monolith bench tune', trials_done: 16 }],
    'the server lists the run',
  );

  // The first run's requests are in the request log, so they serve as a workload like the requests of any client. This
  // run uses a rate and is interrupted by Ctrl-C.
  t.ok(
    await eventually(async () => (await get<{ data: unknown[] }>('/request-shapes?model=hal-1.0')).data.length >= 20),
  );
  const cut = command([...asked, '--load', 'rate', '--max-load', '5', '--trial-seconds', '20', '--json']);
  t.ok(await eventually(async () => (await engine()).held_until !== null));
  cut.kill('SIGINT');
  const stopped = await cut.ended;
  t.equal(stopped.code, 130);
  t.match(JSON.parse(stopped.out), {
    state: 'stopped',
    load_kind: 'rate',
    workload: /recent requests: median prompt \d+ tokens/,
  });
  t.equal((await engine()).held_until, null);
  t.same(await values(), before);

  for (const [args, message] of [
    [['--slo', 'ttft=fast'], /"ttft=fast": a latency/],
    [[], /--slo is required/],
    [['--slo', 'ttft=1s', '--admin-url', admin, '--model', 'nobody'], /Model not found/],
    [['--slo', 'ttft=1s', '--admin-url', admin, '--trials', '2'], /--trials: "2" is not a number from 16/],
    [['--slo', 'ttft=1s', '--admin-url', admin, '--load', 'speed'], /needs a trace/],
    [['--slo', 'ttft=1s', '--admin-url', 'http://127.0.0.1:1'], /operator API at .* cannot be reached/],
  ] as const) {
    const { code, err } = await command(args).ended;
    t.match(err, message);
    t.ok(code === 1 || code === 2);
  }
});
