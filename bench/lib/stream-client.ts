// Event-stream readers with as little overhead as possible, run in a separate process: plain sockets that send one
// request after another and count the responses without parsing them. The process is started with fork(). The first
// message defines the requests; the process answers every further message with the counts so far.

import { fork, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { connect } from 'node:net';
import type { Socket } from 'node:net';
import { fileURLToPath, pathToFileURL } from 'node:url';

export interface StreamLoad {
  port: number;
  path: string;
  headers: Readonly<Record<string, string>>;
  body: string;
  streams: number;
  /** Number of additional streams that send their request and never read the response. */
  stalled: number;
}

/** Counts since the start. `reads`: socket reads; `answers`: streams that have ended. */
export interface StreamCounts {
  events: number;
  bytes: number;
  reads: number;
  answers: number;
  cpuSeconds: number;
  failure: string | null;
}

/** A process that reads streams. */
export class StreamClient {
  private constructor(private readonly child: ChildProcess) {}

  get pid(): number {
    return this.child.pid ?? 0;
  }

  static start(load: StreamLoad): StreamClient {
    const stdio = ['ignore', 'inherit', 'inherit', 'ipc'] as const;
    const child = fork(fileURLToPath(import.meta.url), [], { stdio: [...stdio], execArgv: [] });
    child.send(load);
    return new StreamClient(child);
  }

  /** Returns the client's counts. If a stream has failed, throws its error. */
  async counts(): Promise<StreamCounts> {
    this.child.send('counts');
    const [counts] = (await once(this.child, 'message')) as [StreamCounts];
    if (counts.failure !== null) throw new Error(counts.failure);
    return counts;
  }

  async stop(): Promise<void> {
    if (this.child.exitCode !== null) return;
    const exited = once(this.child, 'exit');
    this.child.kill('SIGKILL');
    await exited;
  }
}

const BETWEEN_EVENTS = Buffer.from('\n\n');
const END_OF_ANSWER = Buffer.from('\r\n0\r\n\r\n');
const LINE_FEED = 0x0a;

function read(load: StreamLoad): StreamCounts {
  const { port, path, body, streams, stalled } = load;
  const headers = { Host: `127.0.0.1:${port}`, ...load.headers, 'Content-Length': String(Buffer.byteLength(body)) };
  const lines = Object.entries(headers)
    .map(([name, value]) => `${name}: ${value}\r\n`)
    .join('');
  const request = `POST ${path} HTTP/1.1\r\n${lines}\r\n${body}`;
  const counts: StreamCounts = { events: 0, bytes: 0, reads: 0, answers: 0, cpuSeconds: 0, failure: null };
  // All sockets share one buffer, because the data of each read is counted before the next read.
  const buffer = Buffer.allocUnsafe(1 << 18);
  for (let i = 0; i < streams; i++) {
    let fresh = true; // whether the next bytes start a response
    let last = Buffer.alloc(0); // the end of the previous read, long enough to complete a split end marker
    const take = (length: number): boolean => {
      counts.reads++;
      counts.bytes += length;
      const bytes = buffer.subarray(0, length);
      if (fresh && !bytes.subarray(0, 16).includes(' 200 ')) {
        counts.failure ??= `${path}: ${bytes.toString('latin1', 0, 400)}`;
      }
      fresh = false;
      if (last.at(-1) === LINE_FEED && bytes[0] === LINE_FEED) counts.events++;
      for (let at = bytes.indexOf(BETWEEN_EVENTS); at >= 0; at = bytes.indexOf(BETWEEN_EVENTS, at + 2)) counts.events++;
      const size = END_OF_ANSWER.length;
      last = Buffer.from(length >= size ? bytes.subarray(length - size) : Buffer.concat([last, bytes]).subarray(-size));
      if (last.equals(END_OF_ANSWER)) {
        counts.answers++;
        fresh = true;
        socket.write(request);
      }
      return true;
    };
    const socket: Socket = connect({ port, host: '127.0.0.1', noDelay: true, onread: { buffer, callback: take } });
    socket.on('error', (error) => {
      counts.failure ??= `${path}: ${error.message}`;
    });
    socket.on('close', () => {
      counts.failure ??= `${path}: the server closed a connection`;
    });
    socket.write(request);
  }
  for (let i = 0; i < stalled; i++) {
    const socket = connect({ port, host: '127.0.0.1' });
    socket.pause();
    socket.on('error', () => undefined); // the server is expected to drop this connection
    socket.write(request);
  }
  return counts;
}

const isMain = process.argv[1] !== undefined && import.meta.url === pathToFileURL(process.argv[1]).href;
if (isMain && process.send !== undefined) {
  process.once('message', (load) => {
    const counts = read(load as StreamLoad);
    process.on('message', () => {
      const { user, system } = process.cpuUsage();
      process.send?.({ ...counts, cpuSeconds: (user + system) / 1e6 });
    });
    process.on('disconnect', () => process.exit());
  });
}
