// Runs every target in turn, at the lowest priority, until N hours of CPU time have been used: npm run fuzz -- --all
// --core-hours N [--seconds N per turn] [--jobs N concurrent targets] [--seed N]. build/fuzz/ran.json accumulates the
// totals per target across runs, and build/fuzz/logs holds each target's latest output. A target that found a failure
// is not started again in this run.
import { spawn } from 'node:child_process';
import { createWriteStream, existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { constants, setPriority } from 'node:os';
import { join } from 'node:path';
import { root, SetupError } from '../setup.mjs';

const folder = join(root, 'build', 'fuzz'),
  tally = join(folder, 'ran.json');
const KEPT_TEXT = 200_000;

/**
 * CPU seconds used by a process and its reaped children: fields 14 to 17 of /proc/PID/stat, in hundredths of a second.
 */
function coreSeconds(pid) {
  const text = readFileSync(`/proc/${pid}/stat`, 'latin1');
  return (
    text
      .slice(text.lastIndexOf(')') + 2)
      .split(' ')
      .slice(11, 15)
      .reduce((sum, ticks) => sum + Number(ticks), 0) / 100
  );
}

/** Runs a target for one turn. Resolves to its executions, CPU seconds and branches, and whether it found a failure. */
function turn({ name, native }, seconds, seed) {
  const child = spawn(
    process.execPath,
    [
      join(root, 'scripts', 'fuzz.mjs'),
      name,
      '--no-build',
      native ? '--seconds' : '--core-seconds',
      String(seconds),
      '--seed',
      String(seed),
    ],
    { cwd: root, stdio: ['ignore', 'pipe', 'pipe'] },
  );
  setPriority(child.pid, constants.priority.PRIORITY_LOW);
  const log = createWriteStream(join(folder, 'logs', `${name}.log`));
  let said = '',
    cores = 0;
  const hear = (bytes) => {
    log.write(bytes);
    said = (said + bytes.toString('latin1')).slice(-KEPT_TEXT);
  };
  child.stdout.on('data', hear);
  child.stderr.on('data', hear);
  return new Promise((resolve, reject) => {
    child.on('error', reject);
    const asking = setInterval(() => {
      try {
        cores = Math.max(cores, treeSeconds(child.pid));
      } catch {
        /* the process has just exited: use the value from half a second ago */
      }
    }, 500);
    child.on('close', (status) => {
      clearInterval(asking);
      log.end();
      const last = (pattern) => Number([...said.matchAll(pattern)].at(-1)?.[1] ?? 0);
      resolve({
        runs: native ? last(/number_of_executed_units: (\d+)/g) : last(/: (\d+) runs/g),
        seconds: cores,
        branches: native ? last(/ cov: (\d+)/g) : last(/(\d+) branches/g),
        found: status !== 0,
      });
    });
  });
}

/** CPU seconds used by a process and its running children. */
function treeSeconds(pid) {
  const children = readFileSync(`/proc/${pid}/task/${pid}/children`, 'latin1')
    .split(' ')
    .filter((one) => one !== '');
  return coreSeconds(pid) + children.reduce((sum, one) => sum + treeSeconds(Number(one)), 0);
}

export async function fuzzAll(targets, { seconds, coreHours, jobs, seed }) {
  for (const [flag, value] of Object.entries({ '--seconds': seconds, '--core-hours': coreHours, '--jobs': jobs }))
    if (!(value > 0)) throw new SetupError(`${flag} must be a number above 0.`);
  mkdirSync(join(folder, 'logs'), { recursive: true });
  const ran = existsSync(tally) ? JSON.parse(readFileSync(tally, 'utf8')) : {};
  const spent = {};
  let left = coreHours * 3_600,
    next = 0;
  const found = new Set(),
    busy = new Set();
  const work = async () => {
    while (left > 0 && found.size < targets.length) {
      const at = next++,
        target = targets[at % targets.length];
      if (busy.has(target.name)) await new Promise((resolve) => setTimeout(resolve, 1_000));
      if (found.has(target.name) || busy.has(target.name)) continue;
      busy.add(target.name);
      const one = await turn(target, seconds, seed + at);
      busy.delete(target.name);
      left -= one.seconds;
      if (one.found) found.add(target.name);
      for (const sums of [
        (ran[target.name] ??= { runs: 0, seconds: 0, finds: 0, branches: 0 }),
        (spent[target.name] ??= { runs: 0, seconds: 0, finds: 0, branches: 0 }),
      ]) {
        sums.runs += one.runs;
        sums.seconds = Math.round(sums.seconds + one.seconds);
        sums.finds += one.found ? 1 : 0;
        sums.branches = Math.max(sums.branches, one.branches);
      }
      writeFileSync(tally, JSON.stringify(ran, null, 1));
      console.log(
        `${target.name.padEnd(16)}${String(one.runs).padStart(10)} runs ${one.seconds.toFixed(0).padStart(5)} s of CPU time, ${one.branches} branches${one.found ? `; FOUND: build/fuzz/logs/${target.name}.log` : ''}`,
      );
    }
  };
  await Promise.all(Array.from({ length: jobs }, work));
  console.log('\n| target | executions | CPU seconds | branches | finds |\n|---|---|---|---|---|');
  for (const { name } of targets)
    if (spent[name] !== undefined)
      console.log(
        `| \`${name}\` | ${spent[name].runs.toLocaleString('en')} | ${spent[name].seconds} | ${spent[name].branches.toLocaleString('en')} | ${spent[name].finds === 0 ? 'none' : spent[name].finds} |`,
      );
  const total = (sums) => (Object.values(sums).reduce((sum, one) => sum + one.seconds, 0) / 3_600).toFixed(2);
  console.log(`\n${total(spent)} hours of CPU time, ${total(ran)} including earlier runs.`);
  if (found.size > 0) process.exitCode = 1;
}
