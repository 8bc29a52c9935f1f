// Starts Debian's HAProxy in front of test servers, with the configuration published in deploy/haproxy.cfg. Only the
// addresses and the health check interval differ. HAProxy stops with the test process.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { root } from '../e2e/monolith.js';
import { freePort } from './free-port.js';

const PROGRAM = '/usr/sbin/haproxy';
/** The reason to skip HAProxy tests, in tap's form; false if HAProxy is installed. */
export const withoutHaproxy: string | false = existsSync(PROGRAM)
  ? false
  : 'there is no haproxy on this machine (Debian: apt-get install haproxy)';

export interface Haproxy {
  readonly url: string;
  readonly port: number;
  log(): string;
  stop(): Promise<void>;
}

/** Every response has an `x-served-by` header with the index in `ports` of the server that produced it. */
export async function startHaproxy(ports: readonly number[]): Promise<Haproxy> {
  const folder = mkdtempSync(join(tmpdir(), 'monolith-haproxy-'));
  const port = await freePort();
  const path = join(folder, 'haproxy.cfg');
  writeFileSync(
    path,
    readFileSync(join(root, 'deploy', 'haproxy.cfg'), 'utf8')
      .replace('bind :8080', `bind 127.0.0.1:${port}`)
      .replace('inter 500ms', 'inter 100ms')
      .replace(
        /( +)server monolith1 [^]*$/,
        (_, indent: string) =>
          `${indent}http-response set-header x-served-by %s\n${ports.map((one, at) => `${indent}server ${at} 127.0.0.1:${one}\n`).join('')}`,
      ),
  );
  const child = spawn('setpriv', ['--pdeathsig', 'KILL', PROGRAM, '-db', '-f', path], {
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let log = '';
  for (const stream of [child.stdout, child.stderr])
    stream.setEncoding('utf8').on('data', (text: string) => {
      log += text;
    });
  const ended = once(child, 'exit');
  const url = `http://127.0.0.1:${port}`;
  for (const end = Date.now() + 30_000; ; await new Promise((resolve) => setTimeout(resolve, 50))) {
    if (
      await fetch(`${url}/healthz`).then(
        ({ status }) => status === 200,
        () => false,
      )
    )
      break;
    if (child.exitCode === null && Date.now() < end) continue;
    child.kill('SIGKILL');
    throw new Error(`haproxy does not accept connections:\n${log}`);
  }
  return {
    url,
    port,
    log: () => log,
    stop: async () => {
      child.kill('SIGKILL');
      await ended;
      rmSync(folder, { recursive: true, force: true });
    },
  };
}
