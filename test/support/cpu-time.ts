// Measures CPU time instead of wall-clock time, for upper bounds on the cost of code: the machine may be busy with
// other work.

/** Starts measuring; the returned function gives the CPU milliseconds that this process has used since. */
export function cpuTime(): () => number {
  const before = process.cpuUsage();
  return () => process.cpuUsage(before).user / 1_000;
}
