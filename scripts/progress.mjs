// Shows build progress on stderr, parsed from the output of Ninja and Make: the current target, the percentage and the
// estimated remaining time. On a terminal, progress is a single line that is overwritten; otherwise, one line is
// printed every 15 seconds.

// "[12/263] Building CXX object CMakeFiles/x.dir/engine/plan.cc.o"; "[ 12%] Building CXX object …"
const kStep = /^\[\s*(\d+)(?:\/(\d+)|%)\] (?:Building \S+ object|Linking|nvcc|Generating)\s?(.*)$/;
const kQuietMs = 15_000; // between two lines when stderr is not a terminal
const kSpeakAfterMs = 3_000; // shorter builds show no estimate
const kBar = 20;

/** Parses a line of build output to `{ done, total, name }`; null if it is not a build step. */
export function readStep(line) {
  const found = kStep.exec(line);
  if (found === null) return null;
  const [, done, total, what] = found;
  const name = what.trim().split('/').at(-1).replace(/\.o$/, '').split(' ').at(-1);
  return { done: Number(done), total: total === undefined ? 100 : Number(total), name };
}

/** 40 → "40 s"; 100 → "2 min". */
export function about(seconds) {
  return seconds < 90 ? `${Math.max(5, Math.ceil(seconds / 5) * 5)} s` : `${Math.round(seconds / 60)} min`;
}

/**
 * Returns a parser for build output: `line` returns whether the line was a build step, `end` clears the progress line.
 * Tests replace `write` and `now` (milliseconds).
 */
export function progress(
  what,
  {
    tty = process.stderr.isTTY === true,
    columns = process.stderr.columns ?? 80,
    write = (text) => process.stderr.write(text),
    now = () => performance.now(),
  } = {},
) {
  const began = now();
  let first = null; // steps completed before this run, because Make resumes an interrupted build
  let spoke = began;
  let shown = false;
  return {
    line(text) {
      const step = readStep(text);
      if (step === null) return false;
      first ??= step.done - 1;
      const elapsed = now() - began;
      const made = step.done - first;
      const left = ((elapsed / made) * (step.total - step.done)) / 1000;
      const whole = Math.floor((step.done / step.total) * 100);
      const time = elapsed > kSpeakAfterMs && step.done < step.total ? `, about ${about(left)} left` : '';
      if (tty) {
        const filled = Math.round((step.done / step.total) * kBar);
        const bar = `monolith: ${what} [${'='.repeat(filled)}${' '.repeat(kBar - filled)}] ${whole} %${time}  ${step.name}`;
        write(`\r\x1b[K${bar.slice(0, columns - 1)}`);
        shown = true;
      } else if (now() - spoke >= kQuietMs) {
        spoke = now();
        write(`monolith: ${what}: ${whole} %${time} (${step.name})\n`);
      }
      return true;
    },
    /** Call this before writing anything else, and at the end. */
    end() {
      if (shown) write('\r\x1b[K');
      shown = false;
    },
  };
}
