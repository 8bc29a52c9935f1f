// How many stream events a second the server's JavaScript carries: many open streams from one server
// process, whose main thread's processor time is read from the kernel. Events per second of that time is what one core
// of JavaScript could carry if the engine were never the limit. The clients run in this process.
//
//   npm run bench -- streams --json OUT
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { Agent, request as httpRequest } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { parseArgs } from 'node:util';

import { packageRoot } from '../src/engine/load-addon.js';

const USAGE = `npm run bench -- streams [options]

  --model FILE     a GGUF file (default: the embedded model)
  --streams N      streams open at once (default 256)
  --seconds S      measured time per format (default 5), after 1 that is not counted
  --threads N      threads that answer (--http-threads, default 1); with several the main thread's time says nothing of them
  --formats LIST   of chat, messages, responses (default all)
  --json OUT       write every figure to OUT
`;

const KEY = 'bench-streams-0000000';
const MODEL = 'tycho-1.0';
const QUESTION = 'Tell me a long story about a lighthouse.';

const FORMATS = {
  chat: { path: '/v1/chat/completions', body: { stream: true, max_tokens: 1_000, ignore_eos: true, messages: [{ role: 'user', content: QUESTION }] } },
  messages: { path: '/v1/messages', body: { stream: true, max_tokens: 1_000, ignore_eos: true, messages: [{ role: 'user', content: QUESTION }] } },
  responses: { path: '/v1/responses', body: { stream: true, store: false, max_output_tokens: 1_000, ignore_eos: true, input: QUESTION } },
} as const;

type Format = keyof typeof FORMATS;

interface Figure { format: Format; events: number; seconds: number; mainThreadSeconds: number; eventsPerSecond: number; eventsPerCoreSecond: number; mainThreadShare: number }

export async function streamsBenchCommand(args: string[]): Promise<void> {
  const text = { type: 'string' } as const;
  const { values } = parseArgs({ args, strict: true, options: { model: text, streams: text, seconds: text, threads: text, formats: text, json: text, help: { type: 'boolean' } } });
  if (values.help === true) {
    process.stdout.write(USAGE);
    return;
  }
  const streams = positive(values.streams ?? '256', '--streams');
  const seconds = positive(values.seconds ?? '5', '--seconds');
  const threads = positive(values.threads ?? '1', '--threads');
  const formats = (values.formats ?? Object.keys(FORMATS).join(',')).split(',').map((name) => {
    if (!(name in FORMATS)) throw new Error(`--formats: ${name} is none of ${Object.keys(FORMATS).join(', ')}`);
    return name as Format;
  });

  const data = mkdtempSync(join(tmpdir(), 'monolith-bench-'));
  const flags = [
    join(packageRoot, 'dist', 'main.js'), 'serve', '--log', 'json', '--log-level', 'silent', '--port', '0', '--data-dir', data, '--api-key', KEY,
    '--http-threads', String(threads), '--limits-rpm', 'off', '--limits-tpm', 'off', '--limits-concurrency', 'off', '--engine-max-sequences', String(streams),
    '--engine-max-batch-tokens', String(Math.max(streams, 256)), '--engine-step-ms', '0', '--kv-bytes', '4GiB',
    ...(values.model === undefined ? [] : ['--model', `${MODEL}=${values.model}`]),
  ];
  const server = spawn(process.execPath, flags, { stdio: ['ignore', 'pipe', 'inherit'] });
  try {
    const [line] = (await Promise.race([once(createInterface({ input: server.stdout }), 'line'), once(server, 'exit').then(() => [''])])) as [string];
    if (line === '') throw new Error('the server did not start');
    const { port } = JSON.parse(line) as { port: number };
    const figures: Figure[] = [];
    process.stdout.write(`${streams} streams       events/s   main thread   events/s per core\n`);
    for (const format of formats) {
      const figure = await measure(format, port, server.pid ?? 0, streams, seconds);
      figures.push(figure);
      process.stdout.write(`${format.padEnd(14)}${figure.eventsPerSecond.toFixed(0).padStart(12)}${`${(100 * figure.mainThreadShare).toFixed(0)} %`.padStart(14)}${figure.eventsPerCoreSecond.toFixed(0).padStart(20)}\n`);
    }
    if (values.json !== undefined) writeFileSync(values.json, `${JSON.stringify({ bench: 'streams', at: new Date().toISOString(), streams, threads, figures }, null, 2)}\n`);
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

/** Keeps `streams` streams open, one after the other in each place, and counts what arrives in the measured time. */
async function measure(format: Format, port: number, pid: number, streams: number, seconds: number): Promise<Figure> {
  const agent = new Agent({ keepAlive: true, maxSockets: streams });
  const { path, body } = FORMATS[format];
  const sent = JSON.stringify({ model: MODEL, ...body });
  let events = 0;
  let over = false;
  let failure: Error | null = null;
  const one = (): Promise<void> => new Promise((resolve, reject) => {
    const request = httpRequest({ host: '127.0.0.1', port, agent, method: 'POST', path, headers: { authorization: `Bearer ${KEY}`, 'content-type': 'application/json' } }, (response) => {
      if (response.statusCode !== 200) reject(new Error(`${path}: status ${response.statusCode}`));
      let lastByte = 0;
      response.on('data', (bytes: Buffer) => {
        if (lastByte === 10 && bytes[0] === 10) events++;
        for (let at = bytes.indexOf('\n\n'); at >= 0; at = bytes.indexOf('\n\n', at + 2)) events++;
        lastByte = bytes.at(-1) ?? 0;
        if (over) request.destroy();
      });
      response.on('close', () => resolve());
    });
    request.on('error', (error) => (over ? resolve() : reject(error)));
    request.end(sent);
  });
  const places = Array.from({ length: streams }, async () => {
    while (!over && failure === null) await one();
  });
  const all = Promise.all(places).catch((error: unknown) => { failure = error as Error; });
  await pause(1_000);
  const before = { events, cpu: mainThreadSeconds(pid), at: performance.now() };
  await pause(seconds * 1_000);
  const elapsed = (performance.now() - before.at) / 1_000;
  const cpu = mainThreadSeconds(pid) - before.cpu;
  const counted = events - before.events;
  over = true;
  await all;
  agent.destroy();
  if (failure !== null) throw failure as Error;
  return { format, events: counted, seconds: elapsed, mainThreadSeconds: cpu, eventsPerSecond: counted / elapsed, eventsPerCoreSecond: counted / cpu, mainThreadShare: cpu / elapsed };
}

const pause = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

/** Processor time of a process's first thread: in Node the one that runs JavaScript. */
function mainThreadSeconds(pid: number): number {
  const nanoseconds = readFileSync(`/proc/${pid}/task/${pid}/schedstat`, 'utf8').split(' ')[0];
  return Number(nanoseconds) / 1e9;
}
