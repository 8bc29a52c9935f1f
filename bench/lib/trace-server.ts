// A server in a separate process that completes prompts of token IDs. Used to compare this server with llama-server
// over HTTP.
import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { createServer } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';

const START_MS = 180_000;
const STOP_MS = 60_000;
const POLL_MS = 50;

/** One streamed completion. Times are values of performance.now(). */
export interface Completion {
  readonly tokens: readonly number[];
  readonly firstTokenAt: number;
  readonly cachedTokens: number;
}

/**
 * The contents of one stream event. `cached`: number of prompt tokens that were not computed; null if the event does
 * not include it.
 */
export interface StreamEvent {
  readonly tokens: readonly number[];
  readonly cached: number | null;
}

/** Bytes that a server has copied from its KV cache to memory or files, and back. */
export interface MovedBytes {
  readonly written: number;
  readonly read: number;
}

export interface CompletionRequest {
  readonly prompt: readonly number[];
  readonly maxTokens: number;
  /** Index of the conversation; null for a stream of other requests. */
  readonly conversation: number | null;
  readonly signal?: AbortSignal | undefined;
  /** Called with the number of tokens that arrived together. */
  onTokens?(count: number): void;
}

/** A server under test. Prompts are token IDs, so that both servers compute exactly the same tokens. */
export interface TraceServer {
  /** Starts the server. A second start uses the files of the first. Resolves when the server is ready. */
  start(): Promise<void>;
  complete(request: CompletionRequest): Promise<Completion>;
  moved(): Promise<MovedBytes>;
  /** Shuts the server down gracefully, so that it can save its cache. */
  stop(): Promise<void>;
  /** Kills the server if it is running, and removes its files. */
  close(): void;
}

export async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  server.close();
  await once(server, 'close');
  return typeof address === 'object' && address !== null ? address.port : 0;
}

/** Starts a program and resolves when `path` on `port` responds with 200. `onLog` receives its output. */
export async function startProgram(
  program: string,
  args: readonly string[],
  { port, path, onLog }: { port: number; path: string; onLog?: (text: string) => void },
): Promise<ChildProcess> {
  const child = spawn(program, args, { stdio: ['ignore', 'pipe', 'pipe'] });
  let log = '';
  for (const output of [child.stdout, child.stderr])
    output.setEncoding('utf8').on('data', (text: string) => {
      log = (log + text).slice(-4_000);
      onLog?.(text);
    });
  for (const end = performance.now() + START_MS; performance.now() < end; await sleep(POLL_MS)) {
    if (child.exitCode !== null) break;
    const answer = await fetch(`http://127.0.0.1:${port}${path}`).catch(() => null);
    await answer?.body?.cancel();
    if (answer?.ok === true) return child;
  }
  child.kill('SIGKILL');
  throw new Error(`${program} did not start:\n${log}`);
}

export async function stopProgram(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const exited = once(child, 'exit');
  child.kill('SIGTERM');
  const killer = setTimeout(() => child.kill('SIGKILL'), STOP_MS);
  await exited;
  clearTimeout(killer);
}

/** Sends a request and reads its event stream. `read` interprets the data of one event. */
export async function streamed(
  url: string,
  { headers, body, signal }: { headers?: Record<string, string>; body: object; signal?: AbortSignal | undefined },
  read: (data: unknown) => StreamEvent,
  onTokens: ((count: number) => void) | undefined,
): Promise<Completion> {
  const answer = await fetch(url, {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...headers },
    body: JSON.stringify(body),
    signal: signal ?? null,
  });
  if (!answer.ok || answer.body === null) throw new Error(`${url}: ${answer.status} ${await answer.text()}`);
  const tokens: number[] = [];
  let firstTokenAt = 0;
  let cachedTokens: number | null = null;
  let rest = '';
  for await (const chunk of answer.body.pipeThrough(new TextDecoderStream())) {
    const events = (rest + chunk).split('\n\n');
    rest = events.pop() as string;
    let arrived = 0;
    for (const event of events) {
      const data = /^data: (.*)$/m.exec(event)?.[1];
      if (data === undefined || data === '[DONE]') continue;
      const part = read(JSON.parse(data));
      if (part.tokens.length > 0) {
        if (tokens.length === 0) firstTokenAt = performance.now();
        tokens.push(...part.tokens);
        arrived += part.tokens.length;
      }
      cachedTokens = part.cached ?? cachedTokens;
    }
    if (arrived > 0) onTokens?.(arrived);
  }
  if (tokens.length === 0 || cachedTokens === null) throw new Error(`${url}: the stream has no tokens or no usage`);
  return { tokens, firstTokenAt, cachedTokens };
}
