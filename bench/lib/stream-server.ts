// Starts a server process to measure. Reads its CPU time by thread from the kernel, and its decoded tokens and event
// delays from its metrics. Linux only.

import { execFileSync, spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { cpus, tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';

const KEY = 'bench-streams-0000000';
export const AUTHORIZATION = `Bearer ${KEY}`;

/** CPU time in seconds. `front` covers all threads except the engine thread and its compute threads. */
export interface ThreadTimes {
  engine: number;
  engineWaited: number;
  main: number;
  front: number;
}

/** `delays`: for each upper bound in seconds, the number of steps whose events were written within that time. */
export interface ServerMetrics {
  tokens: number;
  delays: Map<number, number>;
}

export class MeasuredServer {
  private constructor(
    readonly port: number,
    private readonly child: ChildProcess,
    private readonly data: string,
  ) {}

  /** Starts `program` with `flags` appended. The program prints a line of JSON with its port when it is ready. */
  static async start(
    program: readonly [main: string, ...args: string[]],
    flags: readonly string[],
  ): Promise<MeasuredServer> {
    const data = mkdtempSync(join(tmpdir(), 'monolith-bench-'));
    const child = spawn(
      process.execPath,
      [
        ...program,
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
        '--limits-rpm',
        'off',
        '--limits-tpm',
        'off',
        '--limits-concurrency',
        'off',
        ...flags,
      ],
      {
        stdio: ['ignore', 'pipe', 'inherit'],
        // The settings are environment variables, so that flags can override them. The KV memory limit is per model,
        // and leaves room for a second build that is measured at the same time.
        env: { ...process.env, MONOLITH_ENGINE_STEP_MS: '0', MONOLITH_ENGINE_KV_BYTES: '1GiB' },
      },
    );
    const lines = once(createInterface({ input: child.stdout }), 'line');
    const [line] = (await Promise.race([lines, once(child, 'exit').then(() => [''])])) as [string];
    if (line === '') throw new Error(`${program[0]}: the server did not start`);
    return new MeasuredServer((JSON.parse(line) as { port: number }).port, child, data);
  }

  /** Returns the CPU time so far, and how long the engine thread has been runnable without a processor. */
  times(): ThreadTimes {
    const times: ThreadTimes = { engine: 0, engineWaited: 0, main: 0, front: 0 };
    for (const { id, name } of this.#threads()) {
      const nanoseconds = readFileSync(`/proc/${this.child.pid}/task/${id}/schedstat`, 'utf8').split(' ');
      const [seconds = 0, waited = 0] = nanoseconds.map((text) => Number(text) / 1e9);
      if (name === 'monolith-engine') {
        times.engine += seconds;
        times.engineWaited += waited;
      } else if (name !== 'monolith-cpu') {
        times.front += seconds;
      }
      if (id === String(this.child.pid)) times.main = seconds;
    }
    return times;
  }

  async metrics(): Promise<ServerMetrics> {
    const answer = await fetch(`http://127.0.0.1:${this.port}/metrics`, { headers: { authorization: AUTHORIZATION } });
    const page = await answer.text();
    const decoded = [...page.matchAll(/^monolith_step_tokens_total\{.*phase="decode".*\} (\S+)$/gm)];
    const buckets = [...page.matchAll(/^monolith_event_delay_seconds_bucket\{le="([^"]+)".*\} (\S+)$/gm)];
    return {
      tokens: decoded.reduce((sum, [, count]) => sum + Number(count), 0),
      delays: new Map(buckets.map(([, bound, count]) => [bound === '+Inf' ? Infinity : Number(bound), Number(count)])),
    };
  }

  /**
   * Pins the engine thread to the first processor. Pins all other threads to the remaining processors, as pinFront()
   * does.
   */
  pin(): void {
    pinFront(this.child.pid ?? 0);
    for (const { id, name } of this.#threads()) {
      if (name === 'monolith-engine') execFileSync('taskset', ['-cp', '0', id]);
    }
  }

  stop(): void {
    this.child.kill('SIGKILL');
    rmSync(this.data, { recursive: true, force: true });
  }

  #threads(): { id: string; name: string }[] {
    const tasks = `/proc/${this.child.pid}/task`;
    return readdirSync(tasks).map((id) => ({ id, name: readFileSync(`${tasks}/${id}/comm`, 'utf8').trim() }));
  }
}

/** Pins all threads of a process to all processors except the first. */
export function pinFront(pid: number): void {
  execFileSync('taskset', ['-acp', `1-${cpus().length - 1}`, String(pid)]);
}
