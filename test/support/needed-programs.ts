// Skips test files that need programs that are not installed.
import type { Test } from 'tap';

/**
 * If there is a reason to skip, skips the whole test file and reports the first reason. Call this function before the
 * file starts anything.
 */
export function leaveOutIf(t: Test, ...reasons: readonly (string | false)[]): void {
  const reason = reasons.find((one): one is string => one !== false);
  if (reason === undefined) return;
  t.plan(0, reason);
  process.exit(0);
}
