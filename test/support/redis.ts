// A Redis server for one test: the installed redis-server, on a free port and in a new directory. It stops with the
// test process, even if that process is killed (setpriv --pdeathsig).
import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Redis } from 'ioredis';
import { freePort } from './free-port.js';

const PROGRAM = ['/usr/bin/redis-server', '/usr/local/bin/redis-server', '/usr/bin/valkey-server'].find((path) =>
  existsSync(path),
);
export const redisIsThere = (): boolean => PROGRAM !== undefined;
/** The reason to skip Redis tests, in tap's form; false if Redis is installed. */
export const withoutRedis: string | false = redisIsThere()
  ? false
  : 'there is no redis-server on this machine (Debian: apt-get install redis-server)';

export interface OwnRedis {
  readonly url: string;
  readonly port: number;
  /** Sends SIGKILL; the data is lost. */
  kill(): Promise<void>;
  /** Starts the server again on the same port. */
  start(): Promise<void>;
  /** Suspends the server: it accepts connections but sends no replies until resume(). */
  pause(): void;
  resume(): void;
  /** Opens a separate client for the test. */
  client(): Redis;
  stop(): Promise<void>;
}

export async function startRedis(): Promise<OwnRedis> {
  if (PROGRAM === undefined) throw new Error('redis-server is not installed');
  const folder = mkdtempSync(join(tmpdir(), 'monolith-redis-'));
  const port = await freePort();
  let child: ChildProcess;
  const clients = new Set<Redis>();
  const redis: OwnRedis = {
    url: `redis://127.0.0.1:${port}`,
    port,
    start: async () => {
      child = spawn(
        'setpriv',
        [
          '--pdeathsig',
          'KILL',
          PROGRAM,
          '--port',
          String(port),
          '--bind',
          '127.0.0.1',
          '--dir',
          folder,
          '--save',
          '',
          '--appendonly',
          'no',
        ],
        { stdio: 'ignore' },
      );
      const asked = new Redis(port, '127.0.0.1', { retryStrategy: () => 20, maxRetriesPerRequest: null });
      asked.on('error', () => undefined);
      await asked.ping();
      asked.disconnect();
    },
    kill: async () => {
      if (child.exitCode !== null || child.signalCode !== null) return;
      child.kill('SIGKILL');
      await once(child, 'exit');
    },
    pause: () => {
      child.kill('SIGSTOP');
    },
    resume: () => {
      child.kill('SIGCONT');
    },
    client: () => {
      const client = new Redis(port, '127.0.0.1');
      client.on('error', () => undefined);
      clients.add(client);
      return client;
    },
    stop: async () => {
      for (const client of clients) client.disconnect();
      await redis.kill();
      rmSync(folder, { recursive: true, force: true });
    },
  };
  await redis.start();
  return redis;
}
