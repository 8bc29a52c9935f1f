// How much of the machine others took while something was measured: a figure from a disturbed run says little.
// Linux only; elsewhere every run counts as undisturbed.
import { readFileSync } from 'node:fs';

interface Ticks {
  busy: number;
  total: number;
  own: number;
}

function ticks(): Ticks | null {
  try {
    // user nice system idle iowait irq softirq steal ...; steal is time the hypervisor gave to somebody else
    const all = (readFileSync('/proc/stat', 'utf8').split('\n')[0] ?? '').trim().split(/\s+/).slice(1, 9).map(Number);
    const total = all.reduce((sum, value) => sum + value, 0);
    // After the name: utime, stime, cutime, cstime are fields 14 to 17 of the whole line.
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

/** Runs `work` and says what share of all processor time others had meanwhile: not this process, nor those it waited for. */
export async function undisturbed<T>(work: () => Promise<T>): Promise<{ value: T; foreignShare: number }> {
  const before = ticks();
  const value = await work();
  const after = ticks();
  if (before === null || after === null || after.total === before.total) return { value, foreignShare: 0 };
  const foreign = after.busy - before.busy - (after.own - before.own);
  return { value, foreignShare: Math.max(0, foreign / (after.total - before.total)) };
}

/**
 * The first of at most `tries` runs in which others had less than `limit` of the machine, or the least disturbed one.
 * `lacking` says right after a run what share of the machine is not there, where processor time does not tell.
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
