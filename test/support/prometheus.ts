// A real local Prometheus that scrapes one server every second. The program comes from Debian's package or from the
// PATH.
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { freePort } from './free-port.js';

export interface Sample {
  metric: Record<string, string>;
  value: [time: number, value: string];
}

export interface Prometheus {
  /** Runs an instant query. Throws Prometheus's error message if the query fails. */
  query(expression: string): Promise<Sample[]>;
  close(): Promise<void>;
}

export const prometheusIsThere = (): boolean => spawnSync('prometheus', ['--version']).error === undefined;

export async function startPrometheus(target: { port: number; token: string }): Promise<Prometheus> {
  const folder = mkdtempSync(join(tmpdir(), 'monolith-prometheus-'));
  const config = join(folder, 'prometheus.yml');
  writeFileSync(
    config,
    JSON.stringify({
      global: { scrape_interval: '1s', scrape_timeout: '1s' },
      scrape_configs: [
        {
          job_name: 'monolith',
          authorization: { credentials: target.token },
          static_configs: [{ targets: [`127.0.0.1:${target.port}`] }],
        },
      ],
    }),
  );
  const port = await freePort();
  const child = spawn(
    'prometheus',
    [
      `--config.file=${config}`,
      `--storage.tsdb.path=${join(folder, 'data')}`,
      `--web.listen-address=127.0.0.1:${port}`,
      '--log.level=error',
    ],
    { stdio: ['ignore', 'ignore', 'pipe'] },
  );
  let said = '';
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    said += text;
  });
  const ended = once(child, 'exit');
  const stop = (): void => {
    child.kill('SIGKILL');
  };
  process.once('exit', stop);
  const url = `http://127.0.0.1:${port}`;
  for (const end = Date.now() + 60_000; ; await new Promise((done) => setTimeout(done, 100))) {
    if (
      await fetch(`${url}/-/ready`).then(
        ({ status }) => status === 200,
        () => false,
      )
    )
      break;
    if (child.exitCode !== null || Date.now() > end) throw new Error(`Prometheus does not start: ${said}`);
  }
  return {
    async query(expression) {
      const response = await fetch(`${url}/api/v1/query`, {
        method: 'POST',
        body: new URLSearchParams({ query: expression }),
      });
      const answer = (await response.json()) as { status: string; error?: string; data?: { result: Sample[] } };
      if (answer.status !== 'success' || answer.data === undefined)
        throw new Error(`${expression}: ${answer.error ?? 'no answer'}`);
      return answer.data.result;
    },
    async close() {
      process.off('exit', stop);
      child.kill('SIGTERM');
      await ended;
      rmSync(folder, { recursive: true, force: true });
    },
  };
}
