// For test files that start programs which may not be installed.
import type { Test } from 'tap';

/** Skips the whole test file with the first given reason, if any. Call it before the file starts anything. */
export function leaveOutIf(t: Test, ...reasons: readonly (string | false)[]): void {
  const reason = reasons.find((one): one is string => one !== false);
  if (reason === undefined) return;
  t.plan(0, reason);
  process.exit(0);
}
