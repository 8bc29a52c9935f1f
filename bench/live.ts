// Measures the cost of the operators' live view. One run alternates between many open pages and none while the engine
// generates. The engine counts decoded tokens. The kernel reports the CPU time of the main thread (JavaScript) and,
// separately, of all other threads, which include the engine's, so the cost per token can be measured even on a machine
// that is not idle. The pages are plain sockets in this process, which discard what they read.
//
//   npm run bench -- live --json OUT
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { connect } from 'node:net';
import type { Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { parseArgs } from 'node:util';

import { packageRoot } from '../src/engine/load-addon.js';
import { spreadOf } from './lib/statistics.js';

const USAGE = `npm run bench -- live [options]

  --model FILE     GGUF file (default: the embedded model)
  --viewers N      concurrently open pages (default 1000)
  --running N      concurrently generated responses (default 8)
  --seconds S      measured time per turn (default 5)
  --turns N        turns with pages, and as many without (default 5)
  --json OUT       write all results to OUT
`;

const KEY = 'bench-live-00000000';
const MODEL = 'tycho-1.0';

interface Turn {
  viewers: number;
  tokensPerSecond: number;
  stepMs: number;
  engineUsPerToken: number;
  mainThreadShare: number;
  samplesPerViewer: number;
}

export async function liveBenchCommand(args: string[]): Promise<void> {
  const text = { type: 'string' } as const;
  const { values } = parseArgs({
    args,
    strict: true,
    options: {
      model: text,
      viewers: text,
      running: text,
      seconds: text,
      turns: text,
      json: text,
      help: { type: 'boolean' },
    },
  });
  if (values.help === true) {
    process.stdout.write(USAGE);
    return;
  }
  const viewers = positive(values.viewers ?? '1000', '--viewers');
  const running = positive(values.running ?? '8', '--running');
  const seconds = positive(values.seconds ?? '5', '--seconds');
  const turns = positive(values.turns ?? '5', '--turns');

  const data = mkdtempSync(join(tmpdir(), 'monolith-bench-'));
  const flags = [
    join(packageRoot, 'dist', 'main.js'),
    'serve',
    '--log',
    'json',
    '--log-level',
    'silent',
    '--port',
    '0',
    '--data-dir',
    data,
    '--api-key',
    KEY,
    '--engine-threads',
    '1',
    '--limits-rpm',
    'off',
    '--limits-tpm',
    'off',
    '--limits-concurrency',
    'off',
    ...(values.model === undefined ? [] : ['--model', `${MODEL}=${values.model}`]),
  ];
  const server = spawn(process.execPath, flags, { stdio: ['ignore', 'pipe', 'inherit'] });
  try {
    const [line] = (await Promise.race([
      once(createInterface({ input: server.stdout }), 'line'),
      once(server, 'exit').then(() => ['']),
    ])) as [string];
    if (line === '') throw new Error('the server did not start');
    const { port } = JSON.parse(line) as { port: number };
    const pid = server.pid ?? 0;
    const cookie = await signUp(port);
    const load = keepAnswering(port, running);
    await pause(2_000);
    const done: Turn[] = [];
    process.stdout.write('viewers     tokens/s     ms per step  engine us/token   main thread   samples each\n');
    for (let turn = 0; turn < 2 * turns; turn++) {
      const one = await measure(port, pid, cookie, turn % 2 === 0 ? 0 : viewers, seconds);
      done.push(one);
      process.stdout.write(
        `${String(one.viewers).padStart(7)}${one.tokensPerSecond.toFixed(0).padStart(13)}${one.stepMs.toFixed(3).padStart(14)}${one.engineUsPerToken.toFixed(1).padStart(18)}${`${(100 * one.mainThreadShare).toFixed(1)} %`.padStart(14)}${one.samplesPerViewer.toFixed(2).padStart(15)}\n`,
      );
    }
    load.stop();
    const of = (watched: boolean, value: (turn: Turn) => number): number =>
      spreadOf(done.filter((turn) => turn.viewers > 0 === watched).map(value)).median;
    const ratio = of(true, (turn) => turn.tokensPerSecond) / of(false, (turn) => turn.tokensPerSecond);
    const costs = of(true, (turn) => turn.engineUsPerToken) / of(false, (turn) => turn.engineUsPerToken);
    const loopMs = 1_000 * (of(true, (turn) => turn.mainThreadShare) - of(false, (turn) => turn.mainThreadShare));
    process.stdout.write(
      `decode speed with ${viewers} viewers: ${(100 * ratio).toFixed(1)} % of that without viewers; engine cost per token: ${(100 * costs).toFixed(1)} %; ${loopMs.toFixed(1)} ms of main thread time per sample\n`,
    );
    if (values.json !== undefined)
      writeFileSync(
        values.json,
        `${JSON.stringify({ bench: 'live', at: new Date().toISOString(), viewers, running, seconds, decodeRatio: ratio, engineCostRatio: costs, mainThreadMsPerSample: loopMs, turns: done }, null, 2)}\n`,
      );
  } finally {
    server.kill('SIGKILL');
    rmSync(data, { recursive: true, force: true });
  }
}

function positive(text: string, name: string): number {
  const value = Number(text);
  if (!(value > 0)) throw new Error(`${name} must be a number above 0`);
  return value;
}

const pause = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

/** Signs up the first user, who is an operator, and returns the session cookie. */
async function signUp(port: number): Promise<string> {
  const url = `http://127.0.0.1:${port}`;
  const response = await fetch(`${url}/dashboard/api/signup`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', origin: url },
    body: JSON.stringify({ email: 'operator@example.com', password: 'a long enough password', name: 'Operator' }),
  });
  if (response.status !== 200) throw new Error(`sign-up failed: ${response.status} ${await response.text()}`);
  return response.headers
    .getSetCookie()
    .map((line) => line.split(';')[0])
    .join('; ');
}

/** Keeps `running` non-streaming responses in progress. */
function keepAnswering(port: number, running: number): { stop(): void } {
  let over = false;
  for (let i = 0; i < running; i++) {
    void (async () => {
      while (!over) {
        await fetch(`http://127.0.0.1:${port}/v1/chat/completions`, {
          method: 'POST',
          headers: { authorization: `Bearer ${KEY}`, 'content-type': 'application/json' },
          body: JSON.stringify({
            model: MODEL,
            max_tokens: 1_000,
            ignore_eos: true,
            messages: [{ role: 'user', content: `Story ${i}.` }],
          }),
        })
          .then((response) => response.text())
          .catch(() => pause(100));
      }
    })();
  }
  return {
    stop: () => {
      over = true;
    },
  };
}

async function measure(port: number, pid: number, cookie: string, viewers: number, seconds: number): Promise<Turn> {
  let samples = 0;
  const sockets: Socket[] = [];
  for (let i = 0; i < viewers; i++) {
    const socket = connect(port, '127.0.0.1');
    socket.on('error', () => undefined);
    socket.on('data', (bytes) => {
      for (let at = bytes.indexOf('event: sample'); at >= 0; at = bytes.indexOf('event: sample', at + 1)) samples++;
    });
    socket.write(`GET /dashboard/api/operator/live HTTP/1.1\r\nHost: 127.0.0.1:${port}\r\nCookie: ${cookie}\r\n\r\n`);
    sockets.push(socket);
    if (i % 50 === 49) await pause(20);
  }
  await pause(1_500); // wait until the histories have been sent
  samples = 0;
  const before = {
    counters: await engineCounters(port),
    cpu: mainThreadSeconds(pid),
    others: otherThreadsSeconds(pid),
    at: performance.now(),
  };
  await pause(seconds * 1_000);
  const elapsed = (performance.now() - before.at) / 1_000;
  const cpu = mainThreadSeconds(pid) - before.cpu;
  const others = otherThreadsSeconds(pid) - before.others;
  const counted = samples;
  const counters = await engineCounters(port);
  for (const socket of sockets) socket.destroy();
  await pause(300);
  const steps = counters.steps - before.counters.steps;
  const tokens = counters.tokens - before.counters.tokens;
  return {
    viewers,
    tokensPerSecond: tokens / elapsed,
    engineUsPerToken: (1e6 * others) / tokens,
    stepMs: steps === 0 ? 0 : (1_000 * elapsed) / steps,
    mainThreadShare: cpu / elapsed,
    samplesPerViewer: viewers === 0 ? 0 : counted / viewers,
  };
}

async function engineCounters(port: number): Promise<{ tokens: number; steps: number }> {
  const text = await (
    await fetch(`http://127.0.0.1:${port}/metrics`, { headers: { authorization: `Bearer ${KEY}` } })
  ).text();
  const sum = (name: RegExp): number => [...text.matchAll(name)].reduce((total, [, value]) => total + Number(value), 0);
  return {
    tokens: sum(/^monolith_step_tokens_total\{.*phase="decode".*\} (\S+)$/gm),
    steps: sum(/^monolith_steps_total\{.*\} (\S+)$/gm),
  };
}

/** CPU seconds of a process's first thread, on which Node.js runs JavaScript. */
function mainThreadSeconds(pid: number): number {
  return Number(readFileSync(`/proc/${pid}/task/${pid}/schedstat`, 'utf8').split(' ')[0]) / 1e9;
}

function otherThreadsSeconds(pid: number): number {
  return readdirSync(`/proc/${pid}/task`)
    .filter((id) => id !== String(pid))
    .reduce(
      (sum, id) => sum + Number(readFileSync(`/proc/${pid}/task/${id}/schedstat`, 'utf8').split(' ')[0]) / 1e9,
      0,
    );
}
