// Starts a separate server for a tuning run, with a new data directory and the operator API enabled.

import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { ApiEngine, OperatorApi } from '../../src/cli/tune-engine.js';
import { packageRoot } from '../../src/engine/load-addon.js';
import type { TuneTarget } from '../../src/bench/tune/load.js';

const KEY = 'bench-tune-key-0000000';
const TOKEN = 'bench-tune-operator-0000000';
const NAME = 'bench';

export class TunedServer {
  readonly #api: OperatorApi;

  private constructor(
    private readonly child: ChildProcess,
    private readonly data: string,
    private readonly url: string,
    admin: string,
  ) {
    this.#api = new OperatorApi(admin, TOKEN);
  }

  static async start(model: string, flags: readonly string[]): Promise<TunedServer> {
    const data = mkdtempSync(join(tmpdir(), 'monolith-bench-'));
    const child = spawn(
      process.execPath,
      [
        join(packageRoot, 'dist', 'main.js'),
        'serve',
        '--log',
        'json',
        '--port',
        '0',
        '--admin-port',
        '0',
        '--data-dir',
        data,
        '--model',
        `${NAME}=${model}`,
        '--limits-rpm',
        'off',
        '--limits-tpm',
        'off',
        '--limits-concurrency',
        'off',
        ...flags,
      ],
      {
        stdio: ['ignore', 'pipe', 'pipe'],
        env: { ...process.env, MONOLITH_API_KEY: KEY, MONOLITH_ADMIN_TOKEN: TOKEN },
      },
    );
    let log = '';
    let admin: string | undefined;
    child.stderr.setEncoding('utf8').on('data', (text: string) => {
      if (admin !== undefined) return; // continue reading, so that the server never blocks on its output
      log += text;
      admin = /"url":"(http:[^"]+\/admin\/api)"/.exec(log)?.[1];
    });
    const lines = once(createInterface({ input: child.stdout }), 'line');
    const [line] = (await Promise.race([lines, once(child, 'exit').then(() => [''])])) as [string];
    if (line === '' || admin === undefined) {
      child.kill('SIGKILL');
      throw new Error(`The server did not start:\n${log}`);
    }
    return new TunedServer(child, data, (JSON.parse(line) as { url: string }).url, admin);
  }

  get target(): TuneTarget {
    return { url: `${this.url}/v1`, model: NAME, headers: { authorization: `Bearer ${KEY}` } };
  }

  /** Acquires the engine settings lease for a run. */
  async hold(id: string): Promise<ApiEngine> {
    return await ApiEngine.hold(this.#api, await this.#api.engine(NAME), id);
  }

  stop(): void {
    this.child.kill('SIGKILL');
    rmSync(this.data, { recursive: true, force: true });
  }
}
