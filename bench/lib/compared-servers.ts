// Starts this server and a peer, such as llama-server, to be measured alternately with the same model file. Linux only.
import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { resolve } from 'node:path';

export interface ComparedServer {
  readonly name: 'ours' | 'peer';
  readonly port: number;
  readonly child: ChildProcess;
}

export const COMPARED_KEY = 'bench-compared-000000';
const START_MS = 120_000;

/** Starts this server with the model under the name `model`. `data`: its data directory. */
export function startOurs(
  options: { readonly model: string; readonly file: string; readonly data: string },
  flags: readonly string[],
): Promise<ComparedServer> {
  return started('ours', process.execPath, (port) => [
    resolve('dist', 'main.js'),
    '--model',
    `${options.model}=${options.file}`,
    '--port',
    `${port}`,
    '--data-dir',
    options.data,
    '--api-key',
    COMPARED_KEY,
    '--log-level',
    'error',
    '--limits-rpm',
    'off',
    '--limits-tpm',
    'off',
    ...flags,
  ]);
}

/** Starts `program`, which takes llama-server's options. */
export const startPeer = (program: string, flags: readonly string[]): Promise<ComparedServer> =>
  started('peer', program, (port) => ['--port', `${port}`, '--no-webui', ...flags]);

async function started(
  name: ComparedServer['name'],
  program: string,
  argsFor: (port: number) => string[],
): Promise<ComparedServer> {
  const port = await freePort();
  const child = spawn(program, argsFor(port), { stdio: ['ignore', 'ignore', name === 'ours' ? 'inherit' : 'ignore'] });
  const end = performance.now() + START_MS;
  for (;;) {
    if (child.exitCode !== null || performance.now() > end) throw new Error(`${program} did not start`);
    const answer = await fetch(`http://127.0.0.1:${port}/v1/models`, {
      headers: { authorization: `Bearer ${COMPARED_KEY}` },
    }).catch(() => null);
    const health = await fetch(`http://127.0.0.1:${port}/${name === 'ours' ? 'readyz' : 'health'}`).catch(() => null);
    if (answer?.ok === true && health?.ok === true) return { name, port, child };
    await new Promise((wake) => setTimeout(wake, 300));
  }
}

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  server.close();
  await once(server, 'close');
  return typeof address === 'object' && address !== null ? address.port : 0;
}

/** User plus system time of all threads, in seconds. */
export function processorSecondsOf({ child }: ComparedServer): number {
  const fields = readFileSync(`/proc/${child.pid}/stat`, 'latin1')
    .replace(/^.*\) /, '')
    .split(' ');
  return (Number(fields[11]) + Number(fields[12])) / 100;
}

/** Sends a request as JSON. Throws an error with the start of the response if it is not successful. */
export async function postTo({ name, port }: ComparedServer, path: string, body: unknown): Promise<Response> {
  const answer = await fetch(`http://127.0.0.1:${port}${path}`, {
    method: 'POST',
    body: JSON.stringify(body),
    headers: { 'content-type': 'application/json', authorization: `Bearer ${COMPARED_KEY}` },
  });
  if (!answer.ok) throw new Error(`${name}: ${answer.status} ${(await answer.text()).slice(0, 400)}`);
  return answer;
}
