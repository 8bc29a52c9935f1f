// A server process that may be killed at any time, even before it is ready.
import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { readdirSync, readFileSync } from 'node:fs';
import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';
import { endsWithParent, main as released } from '../e2e/monolith.js';

export const MODEL = 'tycho-1.0';

/** How long to wait for a server that uses no CPU time. */
const IDLE_MS = 3_000;
const TICK_MS = 50;
/**
 * How long this process has been running. This time does not advance while the machine is suspended or while this
 * process is waiting for a processor.
 */
let ownMs = 0;
setInterval(() => {
  ownMs += TICK_MS;
}, TICK_MS).unref();

/** In milliseconds: the CPU time of all threads, and how long the main thread was runnable without a processor. */
interface Times {
  computed: number;
  starved: number;
}

export class Victim {
  /** Resolves to the server's URL once it accepts requests. Rejects if the server exits before that. */
  readonly ready: Promise<string>;
  /**
   * How long the server took to become ready, excluding time spent waiting for a processor, and the CPU time it used.
   */
  readyMs = 0;
  readyCpuMs = 0;
  readonly #process: ChildProcess;
  readonly #exited: Promise<unknown[]>;
  #log = '';
  #ending = false;
  #ended = false;

  /** `main`: the script to run instead of dist/main.js. */
  constructor(data: string, modelFile: string, main = released) {
    const begun = ownMs;
    this.#process = spawn(
      process.execPath,
      [...endsWithParent, main, 'serve', '--log', 'json', '--model', `${MODEL}=${modelFile}`],
      {
        stdio: ['pipe', 'pipe', 'pipe'],
        env: {
          ...process.env,
          MONOLITH_PORT: '0',
          MONOLITH_DATA_DIR: data,
          MONOLITH_API_KEY: 'test-key-0123456789',
          MONOLITH_HTTP_THREADS: '2',
          MONOLITH_LOG_LEVEL: 'warn',
          MONOLITH_ACCOUNTS_SIGNUP: 'open',
          MONOLITH_LIMITS_RPM: 'off',
          MONOLITH_LIMITS_TPM: 'off',
          MONOLITH_LIMITS_EVENT_LOOP_MS: 'off',
          MONOLITH_ENGINE_DRAIN_MS: '500',
          MONOLITH_ENGINE_QUEUE_WAIT_MS: '3600000',
          MONOLITH_HTTP_UNREADY_MS: '0',
        },
      },
    );
    this.#process.stderr!.setEncoding('utf8').on('data', (text: string) => {
      this.#log += text;
    });
    this.#exited = once(this.#process, 'exit').finally(() => {
      this.#ended = true;
    });
    this.ready = Promise.race([
      this.#firstLine(),
      this.#exited.then(([code, signal]) => {
        throw new Error(
          `the server exited with ${String(signal ?? code)} before it was ready: ${this.#log.slice(-2_000)}`,
        );
      }),
    ]).then((line) => {
      const { computed, starved } = this.#times();
      this.readyMs = Math.max(0, ownMs - begun - starved);
      this.readyCpuMs = computed;
      return (JSON.parse(line) as { url: string }).url;
    });
    this.ready.catch(() => undefined);
  }

  /** Whether the server has been terminated or killed, so that its connections break. */
  get ending(): boolean {
    return this.#ending;
  }

  /** Whether the server exited on its own, rather than because it was terminated or killed. */
  get fell(): boolean {
    return this.#ended && !this.#ending;
  }

  async kill(): Promise<void> {
    this.#ending = true;
    this.#process.kill('SIGKILL');
    await this.#exited;
  }

  terminate(): void {
    this.#ending = true;
    this.#process.kill('SIGTERM');
  }

  /**
   * Resolves when the server has used another `ms` of CPU time or has exited. Waits only a few seconds for an idle
   * server.
   */
  async computed(ms: number): Promise<void> {
    const begun = ownMs;
    for (
      const before = this.#times().computed;
      !this.#ended && ownMs - begun < IDLE_MS && this.#times().computed - before < ms;
    )
      await sleep(1);
  }

  async exitCode(): Promise<number | null> {
    return (await this.#exited)[0] as number | null;
  }

  /** Returns the lines in the server's log with a level above warn. */
  errors(): string[] {
    return this.#log.split('\n').filter((line) => line !== '' && !/"level":"?(warn|info|40|30)/.test(line));
  }

  #times(): Times {
    const sum: Times = { computed: 0, starved: 0 };
    try {
      const tasks = `/proc/${this.#process.pid}/task`;
      for (const task of readdirSync(tasks)) {
        const [computed = 0, starved = 0] = readFileSync(`${tasks}/${task}/schedstat`, 'utf8').split(' ').map(Number);
        sum.computed += computed / 1e6;
        if (task === String(this.#process.pid)) sum.starved = starved / 1e6;
      }
    } catch {
      // The process or one of its threads has exited.
    }
    return sum;
  }

  async #firstLine(): Promise<string> {
    for await (const line of createInterface({ input: this.#process.stdout! })) return line;
    throw new Error('the server closed its output');
  }
}
