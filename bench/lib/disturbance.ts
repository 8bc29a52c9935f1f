// Measures how much of the machine's CPU time other processes used during a measurement, because the results of a
// disturbed run are unreliable. Linux only; elsewhere, every run counts as undisturbed.
import { readFileSync } from 'node:fs';

interface Ticks {
  busy: number;
  total: number;
  own: number;
}

function ticks(): Ticks | null {
  try {
    // The fields are user nice system idle iowait irq softirq steal; steal is time that the hypervisor gave to other
    // guests.
    const all = (readFileSync('/proc/stat', 'utf8').split('\n')[0] ?? '').trim().split(/\s+/).slice(1, 9).map(Number);
    const total = all.reduce((sum, value) => sum + value, 0);
    // The other fields follow the process name. utime, stime, cutime and cstime are fields 14 to 17 of the whole line.
    const own = readFileSync('/proc/self/stat', 'utf8')
      .replace(/^.*\) /s, '')
      .split(' ')
      .slice(11, 15)
      .map(Number);
    return { total, busy: total - (all[3] ?? 0) - (all[4] ?? 0), own: own.reduce((sum, value) => sum + value, 0) };
  } catch {
    return null;
  }
}

/**
 * Runs `work` and returns the share of total CPU time that other processes used in the meantime. This process and the
 * children that it has waited for do not count.
 */
export async function undisturbed<T>(work: () => Promise<T>): Promise<{ value: T; foreignShare: number }> {
  const before = ticks();
  const value = await work();
  const after = ticks();
  if (before === null || after === null || after.total === before.total) return { value, foreignShare: 0 };
  const foreign = after.busy - before.busy - (after.own - before.own);
  return { value, foreignShare: Math.max(0, foreign / (after.total - before.total)) };
}

/**
 * Returns the first run, out of at most `tries`, in which other processes used less than `limit` of the machine's CPU
 * time, or else the least disturbed run. `lacking` is called right after a run. It returns how much of the machine's
 * speed was missing during the run, as a fraction, for reasons that CPU times do not show.
 */
export async function leastDisturbed<T>(
  tries: number,
  limit: number,
  work: () => Promise<T>,
  lacking: () => Promise<number>,
): Promise<{ value: T; foreignShare: number }> {
  const once = async (): Promise<{ value: T; foreignShare: number }> => {
    const { value, foreignShare } = await undisturbed(work);
    return { value, foreignShare: Math.max(foreignShare, await lacking()) };
  };
  let best = await once();
  for (let i = 1; i < tries && best.foreignShare > limit; i++) {
    const next = await once();
    if (next.foreignShare < best.foreignShare) best = next;
  }
  return best;
}
