// A real PostgreSQL server for tests, on a free port and in a directory that only it and the test can read. PostgreSQL
// refuses to run as root, so if the tests run as root, it runs as the service's user. It stops with the test process,
// even if that process is killed.

import { spawn, spawnSync, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import {
  chmodSync,
  chownSync,
  existsSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import pg from 'pg';
import { freePort } from './free-port.js';

const INSTALLED = '/usr/lib/postgresql';
const PASSWORD = 'pass-word-of-tests';
const START_MS = 60_000;

/** Installed versions, newest first. */
const versions = (): string[] =>
  (existsSync(INSTALLED) ? readdirSync(INSTALLED) : []).sort((a, b) => Number(b) - Number(a));

/** The directory that holds the PostgreSQL programs; null if Debian's package is not installed. */
export const postgresPrograms = (): string | null =>
  versions()
    .map((version) => join(INSTALLED, version, 'bin'))
    .find((folder) => existsSync(join(folder, 'initdb'))) ?? null;

/** The reason to skip PostgreSQL tests, in tap's form; false if PostgreSQL is installed. */
export const withoutPostgres: string | false =
  postgresPrograms() === null ? 'there is no PostgreSQL on this machine (Debian: apt-get install postgresql)' : false;

export interface Postgres {
  readonly port: number;
  /** URL of the initial database, `monolith`. */
  readonly url: string;
  /** Creates a new, empty database. */
  create(name?: string): Promise<string>;
  /** Runs a statement as superuser on a separate connection. */
  ask<Row>(url: string, text: string, values?: unknown[]): Promise<Row[]>;
  /** Stops immediately, without a checkpoint. stop() shuts down cleanly and closes the connections. */
  kill(): Promise<void>;
  /** Sends SIGKILL to all server processes. */
  crash(): Promise<void>;
  stop(): Promise<void>;
  start(): Promise<void>;
  close(): Promise<void>;
}

/** `durable` enables fsync, for tests of what survives a crash. `settings` are additional lines for postgresql.conf. */
export async function startPostgres({
  durable = false,
  settings = {},
}: {
  durable?: boolean;
  settings?: Record<string, string>;
} = {}): Promise<Postgres> {
  const programs = postgresPrograms();
  if (programs === null) throw new Error('PostgreSQL is not installed: apt-get install postgresql');
  const user = process.getuid?.() === 0 ? serviceUser() : null;
  // The directory is not inside the test run's own directory, because the service's user cannot enter that directory.
  const folder = mkdtempSync('/tmp/monolith-postgres-');
  const data = join(folder, 'data');
  const as = user === null ? {} : { uid: user.uid, gid: user.gid };
  writeFileSync(join(folder, 'password'), PASSWORD);
  chmodSync(join(folder, 'password'), 0o600);
  if (user !== null) for (const path of [folder, join(folder, 'password')]) chownSync(path, user.uid, user.gid);
  const made = spawnSync(
    join(programs, 'initdb'),
    [
      '--pgdata',
      data,
      '--username',
      'monolith',
      '--pwfile',
      join(folder, 'password'),
      '--auth',
      'scram-sha-256',
      '--encoding',
      'UTF8',
      '--locale',
      'C',
      '--no-sync',
      '--wal-segsize',
      '1',
    ],
    { ...as, cwd: folder, encoding: 'utf8' },
  );
  if (made.status !== 0) throw new Error(`initdb failed: ${made.stderr}`);
  const port = await freePort();
  const given: Record<string, string> = {
    listen_addresses: '127.0.0.1',
    port: String(port),
    unix_socket_directories: '',
    max_connections: '100',
    shared_buffers: '32MB',
    log_min_messages: 'fatal',
    dynamic_shared_memory_type: 'posix',
    max_wal_size: '64MB',
    autovacuum_naptime: '60s',
    ...(durable ? {} : { fsync: 'off', full_page_writes: 'off' }),
    ...settings,
  };
  const words = Object.entries(given).flatMap(([name, value]) => ['-c', `${name}=${value}`]);
  let server: ChildProcess | null = null;

  const urlOf = (name: string): string => `postgres://monolith:${PASSWORD}@127.0.0.1:${port}/${name}`;
  async function ask<Row>(url: string, text: string, values: unknown[] = []): Promise<Row[]> {
    const client = new pg.Client({ connectionString: url });
    client.on('error', () => undefined);
    await client.connect();
    try {
      return (await client.query(text, values)).rows as Row[];
    } finally {
      await client.end();
    }
  }
  const reachable = async (): Promise<void> => {
    const end = Date.now() + START_MS;
    for (;;) {
      try {
        await ask(urlOf('postgres'), 'SELECT 1');
        return;
      } catch (error) {
        if (Date.now() > end || server?.exitCode !== null) throw error;
        await new Promise((done) => {
          setTimeout(done, 20);
        });
      }
    }
  };
  const start = async (): Promise<void> => {
    // A wrapper shell holds the read end of a pipe, and this process holds the write end. When the pipe closes, the
    // shell stops the server.
    server = spawn(
      '/bin/sh',
      [
        '-c',
        '"$0" "$@" <&- & child=$!; (cat; kill -QUIT $child) <&3 >/dev/null 2>&1 & wait $child',
        join(programs, 'postgres'),
        '-D',
        data,
        ...words,
      ],
      { ...as, cwd: folder, stdio: ['ignore', 'ignore', 'ignore', 'pipe'] },
    );
    server.unref();
    (server.stdio[3] as unknown as { unref(): void }).unref();
    await reachable();
  };
  const end = async (signal: NodeJS.Signals): Promise<void> => {
    const ended = server;
    if (ended === null) return;
    server = null;
    const running = ended.exitCode === null && existsSync(join(data, 'postmaster.pid'));
    const exited = running ? once(ended, 'exit') : null;
    ended.ref();
    const pid = running ? Number(readFileSync(join(data, 'postmaster.pid'), 'utf8').split('\n')[0]) : 0;
    // The main process forwards every signal except SIGKILL to its children, so SIGKILL must be sent to each process.
    for (const one of running && signal === 'SIGKILL' ? [pid, ...childrenOf(pid)] : running ? [pid] : [])
      process.kill(one, signal);
    await exited;
    ended.stdio[3]?.destroy();
  };
  const postgres: Postgres = {
    port,
    url: urlOf('monolith'),
    async create(name = `test_${Math.random().toString(36).slice(2)}`) {
      await ask(urlOf('postgres'), `CREATE DATABASE ${name}`);
      return urlOf(name);
    },
    ask,
    start,
    kill: () => end('SIGQUIT'), // the next start runs crash recovery
    crash: () => end('SIGKILL'),
    stop: () => end('SIGINT'),
    async close() {
      await end('SIGQUIT');
      rmSync(folder, { recursive: true, force: true, maxRetries: 3 });
    },
  };
  try {
    await start();
    await postgres.create('monolith');
  } catch (error) {
    await postgres.close().catch(() => undefined);
    throw error;
  }
  return postgres;
}

function serviceUser(): { uid: number; gid: number } {
  const line = readFileSync('/etc/passwd', 'utf8')
    .split('\n')
    .find((one) => one.startsWith('postgres:'));
  const [, , uid, gid] = line?.split(':') ?? [];
  if (uid === undefined || gid === undefined) throw new Error('there is no user "postgres" to run PostgreSQL as');
  return { uid: Number(uid), gid: Number(gid) };
}

function childrenOf(pid: number): number[] {
  const { stdout } = spawnSync('ps', ['-o', 'pid=', '--ppid', String(pid)], { encoding: 'utf8' });
  return stdout
    .split('\n')
    .map(Number)
    .filter((one) => one > 0);
}
