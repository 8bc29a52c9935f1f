// Loaded into the servers that tests start (--import): the process ends when its standard input does, which the
// test's process holds open. However a test's process ends, killed for its time included, no server outlives it.
import { isMainThread } from 'node:worker_threads';

if (isMainThread) {
  process.stdin
    .on('error', () => undefined)
    .on('end', () => process.kill(process.pid, 'SIGKILL'))
    .resume();
  (process.stdin as unknown as { unref?(): void }).unref?.(); // it keeps nobody alive
}
