// Measures how much one organization can slow down another. It records the second organization's time to first token,
// inter-token latency and duration of GET /v1/models, first on an idle server and then during each of the attacks in
// lib/attacks.ts. The server runs with its defaults, but without request and token limits, which would stop an attack
// once it had used up a minute's allowance.
//
// For time to first token and inter-token latency, the p99 must be at most twice the idle p99 plus one step. The step
// time is the larger of engine.step_ms and the mean step time during the attack, because the measured responses share
// those steps. During bursts, GET /v1/models must take less than 50 ms.
//
//   npm run bench -- fairness
//   npm run bench -- fairness --attacks bodies,images --seconds 30
import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { Agent, request } from 'node:http';
import { loadavg, tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { setTimeout as pause } from 'node:timers/promises';
import { parseArgs } from 'node:util';

import { packageRoot } from '../src/engine/load-addon.js';
import { Attacker, ATTACKS, type AttackCounts, type AttackName } from './lib/attacks.js';
import { commit, machine } from './lib/machine.js';
import { keyOfAnother } from './lib/second-organization.js';

const USAGE = `npm run bench -- fairness [options] [-- flags of the server, e.g. --http-threads 2]

  --attacks LIST   attacks to run, of ${Object.keys(ATTACKS).join(', ')} (default all)
  --clients N      clients of the attacker (default 32)
  --seconds S      duration of each phase (default 15): idle, then during the attack
  --step-ms MS     engine.step_ms of the server, also used in the criterion (default 50)
  --model NAME     model of the catalog (default hal-1.0, which has vision)
  --json OUT       write all results to OUT
`;

const ATTACKER_KEY = 'bench-fairness-000000';
const TOKENS = 24; // per measured response
const BEGINNING_MS = 2_000; // start of an attack, not counted, while the concurrency slots fill up
const END_MS = 120_000; // time limit for the attack's last requests to finish
const CLOCK_MS = 1; // tolerance, so that two latencies near zero count as equal
const MODELS_MS = 50; // upper limit for GET /v1/models during bursts
/** Settings for the burst attack. The default limits would refuse most of a burst. */
const BURST_FLAGS = ['--limits-concurrency', 'off', '--engine-queue-max', '5000'];

interface Tail {
  p50: number;
  p99: number;
  max: number;
  count: number;
}
interface Phase {
  firstToken: Tail;
  gap: Tail;
  models: Tail;
}
interface Result {
  attack: AttackName;
  stepMs: number;
  idle: Phase;
  beside: Phase;
  answers: AttackCounts;
  firstTokenHolds: boolean;
  gapHolds: boolean;
  modelsHolds: boolean;
}

export async function fairnessBenchCommand(args: string[]): Promise<void> {
  const text = { type: 'string' } as const;
  const { values, positionals } = parseArgs({
    args,
    strict: true,
    allowPositionals: true,
    options: {
      attacks: text,
      clients: text,
      seconds: text,
      'step-ms': text,
      model: text,
      json: text,
      help: { type: 'boolean' },
    },
  });
  if (values.help === true) {
    process.stdout.write(USAGE);
    return;
  }
  const attacks = (values.attacks ?? Object.keys(ATTACKS).join(',')).split(',').map((name) => {
    if (!(name in ATTACKS)) throw new Error(`--attacks: ${name} is not one of ${Object.keys(ATTACKS).join(', ')}`);
    return name as AttackName;
  });
  const clients = positive(values.clients ?? '32', '--clients');
  const seconds = positive(values.seconds ?? '15', '--seconds');
  const stepMs = positive(values['step-ms'] ?? '50', '--step-ms');
  const model = values.model ?? 'hal-1.0';
  const load = loadavg()[0]!;
  const results: Result[] = [];
  process.stdout.write(
    `p99, ms    first token: idle    attack   max      gap: idle    attack   max      models, longest: idle    attack      (load of the machine before: ${load.toFixed(1)})\n`,
  );
  for (const attack of attacks) {
    // Each attack gets a new server, so that one attack cannot affect the next measurement.
    const server = await FairServer.start(stepMs, attack === 'bursts' ? [...BURST_FLAGS, ...positionals] : positionals);
    try {
      const other = new Other(server.port, await keyOfAnother(server.data), model);
      await other.measure(2); // warm-up
      const idle = await other.measure(seconds);
      const attacker = Attacker.start({ name: attack, port: server.port, key: ATTACKER_KEY, model, clients });
      await pause(BEGINNING_MS);
      const steps = await server.steps();
      const began = performance.now();
      const beside = await other.measure(seconds);
      const step = Math.max(stepMs, (performance.now() - began) / ((await server.steps()) - steps));
      const answers = await attacker.stop();
      const bar = (tail: Tail): number => 2 * Math.max(tail.p99, CLOCK_MS) + step;
      const result = {
        attack,
        stepMs: step,
        idle,
        beside,
        answers,
        firstTokenHolds: beside.firstToken.p99 <= bar(idle.firstToken),
        gapHolds: beside.gap.p99 <= bar(idle.gap),
        modelsHolds: attack !== 'bursts' || beside.models.max < MODELS_MS,
      };
      results.push(result);
      const cells = (part: 'firstToken' | 'gap', holds: boolean): string =>
        `${idle[part].p99.toFixed(1).padStart(9)}${beside[part].p99.toFixed(1).padStart(10)}${bar(idle[part]).toFixed(0).padStart(6)} ${holds ? '   ' : 'no '}`;
      process.stdout.write(
        `${attack.padEnd(20)}${cells('firstToken', result.firstTokenHolds)}${cells('gap', result.gapHolds).padStart(24)}${idle.models.max.toFixed(1).padStart(16)}${beside.models.max.toFixed(1).padStart(10)} ${result.modelsHolds ? '  ' : 'no'}  ${JSON.stringify(answers)}, ${beside.firstToken.count} responses during the attack\n`,
      );
      other.end();
    } finally {
      await server.stop();
    }
  }
  if (values.json !== undefined)
    writeFileSync(
      values.json,
      `${JSON.stringify({ bench: 'fairness', commit: commit(), at: new Date().toISOString(), machine: machine(), load, model, clients, seconds, stepMs, results }, null, 2)}\n`,
    );
  if (results.some(({ firstTokenHolds, gapHolds, modelsHolds }) => !firstTokenHolds || !gapHolds || !modelsHolds))
    process.exitCode = 1;
}

function positive(value: string, flag: string): number {
  const number = Number(value);
  if (!Number.isSafeInteger(number) || number < 1) throw new Error(`${flag} must be an integer of at least 1`);
  return number;
}

class FairServer {
  private constructor(
    readonly port: number,
    private readonly child: ChildProcess,
    readonly data: string,
  ) {}

  static async start(stepMs: number, flags: readonly string[]): Promise<FairServer> {
    const data = mkdtempSync(join(tmpdir(), 'monolith-bench-'));
    const child = spawn(
      process.execPath,
      [
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
        ATTACKER_KEY,
        '--threads',
        '1',
        '--engine-step-ms',
        String(stepMs),
        '--limits-rpm',
        'off',
        '--limits-tpm',
        'off',
        ...flags,
      ],
      { stdio: ['ignore', 'pipe', 'inherit'] },
    );
    const lines = once(createInterface({ input: child.stdout }), 'line');
    const [line] = (await Promise.race([lines, once(child, 'exit').then(() => [''])])) as [string];
    if (line === '') throw new Error('the server did not start');
    return new FairServer((JSON.parse(line) as { port: number }).port, child, data);
  }

  async steps(): Promise<number> {
    const page = await (
      await fetch(`http://127.0.0.1:${this.port}/metrics`, { headers: { authorization: `Bearer ${ATTACKER_KEY}` } })
    ).text();
    return [...page.matchAll(/^monolith_steps_total\{.*\} (\S+)$/gm)].reduce(
      (sum, [, count]) => sum + Number(count),
      0,
    );
  }

  async stop(): Promise<void> {
    const exited = once(this.child, 'exit');
    const late = setTimeout(() => this.child.kill('SIGKILL'), END_MS);
    this.child.kill('SIGTERM');
    await exited;
    clearTimeout(late);
    rmSync(this.data, { recursive: true, force: true });
  }
}

/** The measured organization. It sends small requests one after another and, concurrently, GET /v1/models. */
class Other {
  readonly #agent = new Agent({ keepAlive: true, maxSockets: 1 });
  readonly #listAgent = new Agent({ keepAlive: true, maxSockets: 1 });
  #asked = 0;

  constructor(
    private readonly port: number,
    private readonly key: string,
    private readonly model: string,
  ) {}

  async measure(seconds: number): Promise<Phase> {
    const first: number[] = [];
    const gaps: number[] = [];
    const models: number[] = [];
    const end = performance.now() + seconds * 1_000;
    const listing = (async () => {
      for (; performance.now() < end; await pause(5)) models.push(await this.#list());
    })();
    for (; performance.now() < end; await pause(10)) first.push(await this.#ask(gaps));
    await listing;
    return { firstToken: tailOf(first), gap: tailOf(gaps), models: tailOf(models) };
  }

  end(): void {
    this.#agent.destroy();
    this.#listAgent.destroy();
  }

  /** Returns how long GET /v1/models takes, in milliseconds. */
  #list(): Promise<number> {
    return new Promise((resolve, reject) => {
      const began = performance.now();
      request(
        {
          host: '127.0.0.1',
          port: this.port,
          agent: this.#listAgent,
          path: '/v1/models',
          headers: { authorization: `Bearer ${this.key}` },
        },
        (response) => {
          response
            .resume()
            .on('end', () => {
              resolve(performance.now() - began);
            })
            .on('error', reject);
        },
      )
        .on('error', reject)
        .end();
    });
  }

  /**
   * Returns the milliseconds to the first token and appends each inter-token latency to `gaps`. Tokens are counted by
   * the ids in the chunks, because not every token produces text.
   */
  #ask(gaps: number[]): Promise<number> {
    const body = Buffer.from(
      JSON.stringify({
        model: this.model,
        stream: true,
        max_completion_tokens: TOKENS,
        ignore_eos: true,
        return_token_ids: true,
        messages: [{ role: 'user', content: `Number ${++this.#asked}: name ${this.#asked % 7} rivers.` }],
      }),
    );
    return new Promise((resolve, reject) => {
      const began = performance.now();
      let first = NaN;
      let last = NaN;
      let said = '';
      const asked = request(
        {
          host: '127.0.0.1',
          port: this.port,
          agent: this.#agent,
          method: 'POST',
          path: '/v1/chat/completions',
          headers: {
            authorization: `Bearer ${this.key}`,
            'content-type': 'application/json',
            'content-length': body.length,
          },
        },
        (response) => {
          response
            .setEncoding('utf8')
            .on('data', (piece: string) => {
              const now = performance.now();
              said += piece;
              const tokens = [...piece.matchAll(/"token_ids":\[([^\]]+)\]/g)].reduce(
                (sum, [, ids]) => sum + (ids as string).split(',').length,
                0,
              );
              if (tokens === 0) return;
              if (Number.isNaN(first)) first = now - began;
              // the tokens in a chunk share its latency equally
              else for (let i = 0; i < tokens; i++) gaps.push((now - last) / tokens);
              last = now;
            })
            .on('end', () => {
              if (response.statusCode !== 200 || Number.isNaN(first))
                reject(new Error(`a small request got status ${response.statusCode}: ${said.slice(0, 300)}`));
              else resolve(first);
            })
            .on('error', reject);
        },
      );
      asked.on('error', reject);
      asked.end(body);
    });
  }
}

function tailOf(times: readonly number[]): Tail {
  const sorted = [...times].sort((a, b) => a - b);
  const at = (share: number): number => sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? NaN;
  return { p50: at(0.5), p99: at(0.99), max: at(1), count: sorted.length };
}
