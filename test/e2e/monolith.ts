// Starts a real server process for a test, as an operator would, on a free port and with its own data directory.
import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { createInterface } from 'node:readline';
import { pathToFileURL } from 'node:url';
import type { UpstreamApi } from '../../src/config/upstream.js';
import { askedIn, askingOf, engineOf, type Start } from '../support/served-elsewhere.js';

// This file runs from build/test/e2e, three levels below the repository root.
export const root = resolve(import.meta.dirname, '..', '..', '..');
/** The program that tests start: npm test bundles it, because hundreds of modules load slowly. */
export const main = process.env.MONOLITH_TEST_MAIN ?? join(root, 'dist', 'main.js');
export const embeddedModel = join(root, 'models', 'starter-q8_0.gguf');

export interface Monolith {
  url: string;
  port: number;
  key: string;
  process: ChildProcess;
  /** The ready message. */
  ready: Readonly<Record<string, unknown>>;
  /** Everything that the server has written to stderr so far. */
  log(): string;
  metrics(): Promise<Map<string, number>>;
  /** Sends SIGTERM and resolves to the exit code. */
  stop(): Promise<number | null>;
}

const KEY = 'test-key-0123456789';
const httpServer = process.env['TEST_HTTP_SERVER'];

/** Node flags for a child process that exits when this process does. Its standard input must be a pipe. */
export const endsWithParent = [
  '--import',
  pathToFileURL(join(root, 'build', 'test', 'support', 'ends-with-parent.js')).href,
];

export async function startMonolith(settings: Start = {}): Promise<Monolith> {
  return askedIn === undefined ? startProcess(settings) : startBefore(settings, askedIn);
}

/** Starts a server whose models run in a second process, which stops when the server does. */
async function startBefore(settings: Start, api: UpstreamApi): Promise<Monolith> {
  const engine = await startProcess(engineOf(settings));
  try {
    const response = await fetch(`${engine.url}/v1/models`, { headers: { authorization: `Bearer ${engine.key}` } });
    const { data } = (await response.json()) as { data: { id: string; input_modalities?: string[] }[] };
    const models = data.map(({ id, input_modalities: takes }) => ({ id, images: takes?.includes('image') === true }));
    const server = await startProcess(askingOf(settings, api, { url: engine.url, key: engine.key, models }));
    // Waits for the exit event rather than for stop(), because some tests kill the server.
    const ended = once(server.process, 'exit').then(() => engine.stop());
    return {
      ...server,
      stop: async () => {
        const code = await server.stop();
        await ended;
        return code;
      },
    };
  } catch (error) {
    await engine.stop();
    throw error;
  }
}

async function startProcess(settings: Start): Promise<Monolith> {
  const data = mkdtempSync(join(tmpdir(), 'monolith-test-'));
  const child = spawn(process.execPath, [...endsWithParent, main, 'serve', '--log', 'json', ...(settings.args ?? [])], {
    env: {
      ...process.env,
      MONOLITH_PORT: '0',
      MONOLITH_DATA_DIR: data,
      MONOLITH_API_KEY: KEY,
      ...(httpServer === undefined ? {} : { MONOLITH_HTTP_SERVER: httpServer }),
      ...settings.env,
    },
    stdio: ['pipe', 'pipe', settings.stderr ?? 'pipe'],
  });
  let log = '';
  child.stderr?.setEncoding('utf8').on('data', (text: string) => {
    log += text;
  });
  const exited = once(child, 'exit').then(([code]) => {
    rmSync(data, { recursive: true, force: true });
    return code as number | null;
  });
  const ready = await Promise.race([
    firstLine(child),
    exited.then((code) => {
      throw new Error(`the server exited with code ${code} before it was ready:\n${log}`);
    }),
  ]);
  const message = JSON.parse(ready) as { url: string; port: number };
  const { url, port } = message;
  return {
    url,
    port,
    key: KEY,
    process: child,
    ready: message,
    log: () => log,
    async metrics() {
      const response = await fetch(`${url}/metrics`, { headers: { authorization: `Bearer ${KEY}` } });
      const lines = (await response.text()).split('\n').filter((line) => line !== '' && !line.startsWith('#'));
      return new Map(
        lines.map((line) => [line.slice(0, line.lastIndexOf(' ')), Number(line.slice(line.lastIndexOf(' ') + 1))]),
      );
    },
    stop() {
      child.kill('SIGTERM');
      return exited;
    },
  };
}

async function firstLine(child: ChildProcess): Promise<string> {
  for await (const line of createInterface({ input: child.stdout! })) return line;
  return new Promise(() => undefined); // never resolves: the process is exiting, and its exit is reported with the log
}

/** Polls until `condition` holds; false after `timeoutMs`. The default is long because the machine may be busy. */
export async function eventually(condition: () => boolean | Promise<boolean>, timeoutMs = 30_000): Promise<boolean> {
  for (const end = Date.now() + timeoutMs; Date.now() < end; await new Promise((done) => setTimeout(done, 20))) {
    if (await condition()) return true;
  }
  return false;
}
