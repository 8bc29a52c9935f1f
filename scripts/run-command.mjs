// Runs a build step and shows its progress.
import { spawn } from 'node:child_process';
import { createWriteStream, mkdirSync } from 'node:fs';
import { constants } from 'node:os';
import { dirname, join, relative } from 'node:path';
import { root, say, SetupError } from './common.mjs';
import { progress } from './progress.mjs';

// Build output that carries no information.
const kIdle =
  /^(ninja: (no work to do|Entering directory)|\[\s*\d+%\] Built target|(gmake|make)(\[\d+\])?: |Consolidate compiler generated|\[0\/\d+\] Re-checking globbed|\[\d+\/\d+\] Re-checking|-- GLOB mismatch|info (CMD|RUN|TOOL) |\s*$)/;
const kWarning = /\bwarning: /;
/** Number of lines of a log file that are shown if the step fails. */
const kShownLines = 40;

/** Returns the path of the log file that holds the output of a step. */
export const logPath = (name) => join(root, 'build', 'logs', `${name}.log`);

/**
 * Runs a command with its output on stderr. Build output that carries no information is dropped, and build steps are
 * shown as progress. Throws SetupError if the command fails. A signal that ends this process also ends the command's
 * process group.
 *
 * @param {{ log?: string, resumes?: boolean }} options `log`: write the output to this file instead; only its last
 * lines
 *   are shown, and only if the command fails. `resumes`: the next run continues an interrupted command
 */
export async function sh(command, args, what, { log, resumes = false } = {}) {
  const steps = progress(what);
  const output = log === undefined ? plainOutput(steps) : loggedOutput(steps, log);
  const stops = ['SIGINT', 'SIGTERM', 'SIGHUP'];
  let stop;
  const code = await new Promise((resolve, reject) => {
    const child = spawn(command, args, { cwd: root, stdio: ['ignore', 'pipe', 'pipe'], detached: true });
    stop = (signal) => {
      process.kill(-child.pid, signal);
      steps.end();
      if (resumes) say(`${what} was interrupted; the next run continues where it stopped`);
      process.exit(128 + constants.signals[signal]);
    };
    for (const signal of stops) process.on(signal, stop);
    for (const stream of [child.stdout, child.stderr]) {
      let rest = '';
      stream
        .setEncoding('utf8')
        .on('data', (text) => {
          const lines = (rest + text).split('\n');
          rest = lines.pop();
          lines.forEach(output.line);
        })
        .on('end', () => rest === '' || output.line(rest));
    }
    child.on('error', reject).on('close', (exit, signal) => resolve(signal ?? exit));
  }).finally(() => {
    steps.end();
    stops.forEach((signal) => process.off(signal, stop));
  });
  await output.end(code === 0);
  if (code !== 0)
    throw new SetupError(
      `${what} failed (${command.split('/').at(-1)} exited with ${code}); ${log === undefined ? 'see above' : `the lines above are the end of ${relative(root, log)}`}`,
    );
}

function plainOutput(steps) {
  return {
    line: (line) => {
      if (kIdle.test(line) || steps.line(line)) return;
      steps.end();
      process.stderr.write(`${line}\n`);
    },
    end: () => undefined,
  };
}

function loggedOutput(steps, path) {
  mkdirSync(dirname(path), { recursive: true });
  const file = createWriteStream(path);
  let writable = true; // a full disk must not end the build with an unrelated error
  file.on('error', () => {
    writable = false;
  });
  const last = [];
  let warnings = 0;
  return {
    line: (line) => {
      if (writable) file.write(`${line}\n`);
      if (kIdle.test(line) || steps.line(line)) return;
      if (kWarning.test(line)) warnings++;
      last.push(line);
      if (last.length > kShownLines) last.shift();
    },
    end: async (succeeded) => {
      if (writable) await new Promise((resolve) => file.end(resolve));
      if (!succeeded) process.stderr.write(last.map((line) => `${line}\n`).join(''));
      else if (warnings > 0) say(`${warnings} compiler warning${warnings > 1 ? 's' : ''}: see ${relative(root, path)}`);
    },
  };
}
