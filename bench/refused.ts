// Measures how refusing one organization's large requests affects another organization's time to first byte. Some
// clients repeatedly send a chat with a huge number of messages, while another organization keeps requesting two
// tokens.
//
//   npm run bench -- refused
//   npm run bench -- refused --event-loop-ms off     without the limit
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { Agent, request } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { setTimeout as pause } from 'node:timers/promises';
import { parseArgs } from 'node:util';

import { packageRoot } from '../src/engine/load-addon.js';
import { commit, machine } from './lib/machine.js';
import { keyOfAnother } from './lib/second-organization.js';

const USAGE = `npm run bench -- refused [options]

  --messages N     messages of the refused chat (default 100000)
  --clients N      clients that repeat it (default 4)
  --seconds S      duration of each phase (default 10)
  --event-loop-ms MS limits.event_loop_ms of the server, or off (default: the default of the setting)
  --json OUT       write all results to OUT
`;

const KEY = 'bench-refused-00000000';
const MODEL = 'tycho-1.0';

interface Answer {
  status: number;
  firstByteMs: number;
}
interface Phase {
  requests: number;
  p50: number;
  p99: number;
  max: number;
}

export async function refusedBenchCommand(args: string[]): Promise<void> {
  const text = { type: 'string' } as const;
  const { values } = parseArgs({
    args,
    strict: true,
    options: {
      messages: text,
      clients: text,
      seconds: text,
      'event-loop-ms': text,
      json: text,
      help: { type: 'boolean' },
    },
  });
  if (values.help === true) {
    process.stdout.write(USAGE);
    return;
  }
  const messages = Number(values.messages ?? 100_000);
  const clients = Number(values.clients ?? 4);
  const seconds = Number(values.seconds ?? 10);
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
    ...(values['event-loop-ms'] === undefined ? [] : ['--limits-event-loop-ms', values['event-loop-ms']]),
  ];
  const server = spawn(process.execPath, flags, { stdio: ['ignore', 'pipe', 'inherit'] });
  try {
    const [line] = (await Promise.race([
      once(createInterface({ input: server.stdout }), 'line'),
      once(server, 'exit').then(() => ['']),
    ])) as [string];
    if (line === '') throw new Error('the server did not start');
    const { url } = JSON.parse(line) as { url: string };
    const other = await keyOfAnother(data);
    await polite(url, other, 2);
    const idle = await polite(url, other, seconds);

    const large = Buffer.from(
      JSON.stringify({
        model: MODEL,
        messages: Array.from({ length: messages }, () => ({ role: 'user', content: 'x' })),
      }),
    );
    const answers: Record<number, number> = {};
    let over = false;
    const attack = Array.from({ length: clients }, async () => {
      while (!over) {
        const { status } = await ask(url, KEY, large);
        answers[status] = (answers[status] ?? 0) + 1;
      }
    });
    const phases: [string, Phase][] = [
      ['idle', idle],
      ['at first', await polite(url, other, seconds)],
      ['then', await polite(url, other, seconds)],
    ];
    over = true;
    await Promise.all(attack);
    process.stdout.write(
      `first byte, ms  requests       p50       p99       max   p50 / idle p50\n${phases
        .map(
          ([label, { requests, p50, p99, max }]) =>
            `${label.padEnd(12)}${String(requests).padStart(12)}${[p50, p99, max].map((ms) => ms.toFixed(1).padStart(10)).join('')}${(p50 / idle.p50).toFixed(1).padStart(16)}\n`,
        )
        .join('')}`,
    );
    process.stdout.write(`responses to the large requests, by status: ${JSON.stringify(answers)}\n`);
    if (values.json !== undefined)
      writeFileSync(
        values.json,
        `${JSON.stringify({ bench: 'refused', commit: commit(), at: new Date().toISOString(), machine: machine(), messages, clients, seconds, loopMs: values['event-loop-ms'] ?? null, phases: Object.fromEntries(phases), answers }, null, 2)}\n`,
      );
  } finally {
    server.kill('SIGTERM');
    await once(server, 'exit');
    rmSync(data, { recursive: true, force: true });
  }
}

const agent = new Agent({ keepAlive: true });

function ask(url: string, key: string, body: Buffer): Promise<Answer> {
  return new Promise((resolve) => {
    const began = performance.now();
    let firstByteMs = NaN;
    const asked = request(
      `${url}/v1/chat/completions`,
      {
        method: 'POST',
        agent,
        headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json', 'content-length': body.length },
      },
      (response) => {
        response.once('data', () => {
          firstByteMs = performance.now() - began;
        });
        response.on('data', () => undefined);
        response.on('end', () => resolve({ status: response.statusCode ?? 0, firstByteMs }));
      },
    );
    asked.on('error', () => resolve({ status: 0, firstByteMs }));
    asked.end(body);
  });
}

/** Sends small requests one after another. */
async function polite(url: string, key: string, seconds: number): Promise<Phase> {
  const times: number[] = [];
  for (const end = performance.now() + seconds * 1_000; performance.now() < end; await pause(20)) {
    const body = Buffer.from(
      JSON.stringify({
        model: MODEL,
        stream: true,
        max_completion_tokens: 2,
        messages: [{ role: 'user', content: `Number ${times.length}` }],
      }),
    );
    const { status, firstByteMs } = await ask(url, key, body);
    if (status !== 200) throw new Error(`a small request got status ${status}`);
    times.push(firstByteMs);
  }
  times.sort((a, b) => a - b);
  const at = (share: number): number => times[Math.min(times.length - 1, Math.floor(times.length * share))] ?? NaN;
  return { requests: times.length, p50: at(0.5), p99: at(0.99), max: at(1) };
}
