// Measures CPU time instead of wall-clock time, for upper bounds on the cost of code, because the machine may be busy
// with other work.

/**
 * Starts measuring. The returned function reports the CPU milliseconds that this process has used since the start.
 */
export function cpuTime(): () => number {
  const before = process.cpuUsage();
  return () => process.cpuUsage(before).user / 1_000;
}
