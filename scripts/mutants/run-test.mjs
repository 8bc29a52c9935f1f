// Runs one compiled test file in its own process group, which includes every process that the test starts.
import { spawn } from 'node:child_process';
import { sandbox } from './sandbox.mjs';

const kSignals = ['SIGINT', 'SIGTERM', 'SIGHUP'];
const quit = () => process.exit(1);

/**
 * @param {string} file
 * @param {{ limitMs: number, coverage?: string, folder?: string }} options `coverage`: directory for V8's coverage
 *   reports; `folder`: working directory
 * @returns {Promise<{ passed: boolean, ms: number, timedOut: boolean }>}
 */
export function runTest(file, { limitMs, coverage, folder = sandbox }) {
  const began = Date.now();
  const env = {
    ...process.env,
    TAP_BAIL: '1',
    TAP_TIMEOUT: String(Math.ceil(limitMs / 1000)),
    ...(coverage === undefined ? {} : { NODE_V8_COVERAGE: coverage }),
  };
  // With a separate process group, killing the group also ends the servers that the test started.
  const child = spawn(process.execPath, [file], { cwd: folder, stdio: 'ignore', env, detached: true });
  const ended = () => stop(child.pid);
  process.once('exit', ended);
  for (const signal of kSignals) process.once(signal, quit);
  return new Promise((resolve) => {
    let timedOut = false;
    const timer = setTimeout(() => {
      timedOut = true;
      stop(child.pid);
    }, limitMs);
    child.on('exit', (code) => {
      clearTimeout(timer);
      process.off('exit', ended);
      for (const signal of kSignals) process.off(signal, quit);
      stop(child.pid);
      resolve({ passed: code === 0 && !timedOut, ms: Date.now() - began, timedOut });
    });
  });
}

function stop(group) {
  try {
    process.kill(-group, 'SIGKILL');
  } catch {
    // the group has no processes left
  }
}
