// A server process that is to be killed, at any moment: before it is ready too.
import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { endsWithParent, main } from '../e2e/monolith.js';

export const MODEL = 'tycho-1.0';

export class Victim {
  /** Its address, when it takes requests; rejects if it has ended before. */
  readonly ready: Promise<string>;
  /** How long that took. */
  readyMs = 0;
  readonly #process: ChildProcess;
  readonly #exited: Promise<unknown[]>;
  #log = '';
  #ending = false;
  #ended = false;

  constructor(data: string, modelFile: string) {
    const begun = performance.now();
    this.#process = spawn(process.execPath, [...endsWithParent, main, 'serve', '--log', 'json', '--model', `${MODEL}=${modelFile}`], {
      stdio: ['pipe', 'pipe', 'pipe'],
      env: {
        ...process.env, MONOLITH_PORT: '0', MONOLITH_DATA_DIR: data, MONOLITH_API_KEY: 'test-key-0123456789', MONOLITH_HTTP_THREADS: '2', MONOLITH_LOG_LEVEL: 'warn',
        MONOLITH_ACCOUNTS_SIGNUP: 'open', MONOLITH_LIMITS_RPM: 'off', MONOLITH_LIMITS_TPM: 'off', MONOLITH_LIMITS_LOOP_MS: 'off', MONOLITH_ENGINE_DRAIN_MS: '500', MONOLITH_HTTP_UNREADY_MS: '0',
      },
    });
    this.#process.stderr!.setEncoding('utf8').on('data', (text: string) => { this.#log += text; });
    this.#exited = once(this.#process, 'exit').finally(() => { this.#ended = true; });
    this.ready = Promise.race([this.#firstLine(), this.#exited.then(([code, signal]) => { throw new Error(`the server ended with ${String(signal ?? code)} before it was ready: ${this.#log.slice(-2_000)}`); })])
      .then((line) => {
        this.readyMs = performance.now() - begun;
        return (JSON.parse(line) as { url: string }).url;
      });
    this.ready.catch(() => undefined);
  }

  /** It was asked to end, or killed: its connections break. */
  get ending(): boolean {
    return this.#ending;
  }

  /** It ended, and nobody asked it to. */
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

  async exitCode(): Promise<number | null> {
    return (await this.#exited)[0] as number | null;
  }

  /** Lines of its log that say that something of its own went wrong. */
  errors(): string[] {
    return this.#log.split('\n').filter((line) => line !== '' && !/"level":"?(warn|info|40|30)/.test(line));
  }

  async #firstLine(): Promise<string> {
    for await (const line of createInterface({ input: this.#process.stdout! })) return line;
    throw new Error('the server closed its output');
  }
}
