// Tests that only one server can use a data directory, across processes, containers and threads. The lock is released
// when the server exits.
import { spawn, spawnSync } from 'node:child_process';
import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Worker } from 'node:worker_threads';
import t from 'tap';
import { lockDataDir, lockPath } from '../../src/storage/data-dir-lock.js';
import { main } from '../e2e/monolith.js';
import { makeDatabase } from '../../src/storage/lmdb/lmdb-store.js';

t.setTimeout(120_000); // the machine may be busy

const path = mkdtempSync(join(tmpdir(), 'monolith-lock-'));
t.teardown(() => rmSync(path, { recursive: true, force: true }));

const holder = join(import.meta.dirname, 'lock-holder.js');
const IN_USE = {
  name: 'StorageError',
  message: /Another server is using the data directory .*\(process \d+ on .+\)\. Stop it, or .* --data-dir/,
};

async function held(): Promise<ChildProcess> {
  const child = spawn(process.execPath, [holder, path], { stdio: ['pipe', 'pipe', 'inherit'] });
  await once(child.stdout!, 'data');
  return child;
}

/** Returns whether another process can take the lock. */
const isFree = (): boolean =>
  spawnSync(process.execPath, [holder, path], { stdio: ['ignore', 'pipe', 'ignore'] }).status === 0;

t.test('a second lock of the same data directory within a process is refused', (t) => {
  const lock = lockDataDir(path);
  t.throws(() => lockDataDir(join(path, '.')), IN_USE);
  lock.release();
  lock.release();
  lockDataDir(path).release();
  t.end();
});

t.test('a lock held by another process is released regardless of how that process ends', async (t) => {
  const child = await held();
  t.throws(() => lockDataDir(path), { ...IN_USE, message: new RegExp(`process ${child.pid} on `) });
  child.kill('SIGKILL');
  await once(child, 'exit');
  lockDataDir(path).release();
});

const unshare = spawnSync('unshare', ['-rn', 'true'], { encoding: 'utf8' });
const skip =
  unshare.status === 0 ? false : `cannot create network namespaces here: ${unshare.error?.message ?? unshare.stderr}`;

t.test('the lock of a data directory works across network namespaces, as between containers', { skip }, (t) => {
  const lock = lockDataDir(path);
  const second = spawnSync('unshare', ['-rn', process.execPath, main, 'serve', '--port', '0'], {
    encoding: 'utf8',
    timeout: 60_000,
    env: { ...process.env, MONOLITH_DATA_DIR: path, MONOLITH_LOG_LEVEL: 'silent' },
  });
  t.match(second, {
    status: 1,
    stdout: '',
    stderr: new RegExp(`^monolith: Another server is using the data directory .*process ${process.pid} on`),
  });
  makeDatabase(path);
  t.match(
    spawnSync('unshare', ['-rn', process.execPath, main, 'keys', 'list'], {
      encoding: 'utf8',
      env: { ...process.env, MONOLITH_DATA_DIR: path },
    }),
    { status: 0 },
    'CLI commands work while a server is running',
  );
  lock.release();
  t.end();
});

t.test('child processes do not inherit the lock, and threads do not release it', async (t) => {
  const lock = lockDataDir(path);
  const child = spawn(process.execPath, ['-e', 'process.stdout.write("up"); process.stdin.resume()'], {
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  await once(child.stdout, 'data');
  // POSIX releases a process's record locks when the process closes any descriptor of the file.
  const worker = new Worker(
    `const fs = require('node:fs'); fs.closeSync(fs.openSync(${JSON.stringify(lockPath(path))}, 'r+'));`,
    { eval: true },
  );
  await once(worker, 'exit');
  t.notOk(isFree(), 'the lock is still held after the thread ended');
  lock.release();
  t.ok(isFree(), 'the running child process has not inherited the lock');
  child.kill();
  await once(child, 'exit');
});
