// A Redis of a test's own: the machine's redis-server on a free port with a folder of its own. It ends with the test's
// process, however that ends (setpriv --pdeathsig).
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
/** For tap: why such tests are left out, or false. */
export const withoutRedis: string | false = redisIsThere()
  ? false
  : 'there is no redis-server on this machine (Debian: apt-get install redis-server)';

export interface OwnRedis {
  readonly url: string;
  readonly port: number;
  /** kill -9; what it held is gone. */
  kill(): Promise<void>;
  /** Again, on the same port. */
  start(): Promise<void>;
  /** It takes connections and answers nothing, until resume(). */
  pause(): void;
  resume(): void;
  /** A client of the test's own. */
  client(): Redis;
  stop(): Promise<void>;
}

export async function startRedis(): Promise<OwnRedis> {
  if (PROGRAM === undefined) throw new Error('there is no redis-server');
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
