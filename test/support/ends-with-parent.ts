// Preloaded (--import) into the servers that tests start. The test process holds this process's standard input open.
// This process exits when its standard input is closed, so no server outlives its test, even if a timeout kills the
// test.
import { isMainThread } from 'node:worker_threads';

if (isMainThread) {
  process.stdin
    .on('error', () => undefined)
    .on('end', () => process.kill(process.pid, 'SIGKILL'))
    .resume();
  (process.stdin as unknown as { unref?(): void }).unref?.(); // standard input does not keep the process alive
}
