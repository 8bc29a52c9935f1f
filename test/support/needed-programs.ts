// Test files that start programs which a machine may lack.
import type { Test } from 'tap';

/** Leaves a whole file out, with the reason said, if one is given; called before the file starts anything. */
export function leaveOutIf(t: Test, ...reasons: readonly (string | false)[]): void {
  const reason = reasons.find((one): one is string => one !== false);
  if (reason === undefined) return;
  t.plan(0, reason);
  process.exit(0);
}
