// Clock skew, as reported by /readyz and the log.

/** In milliseconds. */
export interface ClockSkew {
  /** How far this machine's clock is ahead of the database's. */
  readonly skewMs: number;
  /** The largest difference between the clocks of any two threads that share the database, including this one. */
  readonly spreadMs: number;
  /** Number of threads whose clocks are known. */
  readonly threads: number;
}

/** Differences of at least this many milliseconds count as skew. NTP keeps clocks within a fraction of this. */
export const SKEWED_MS = 1_000;

export const isSkewed = ({ skewMs, spreadMs }: ClockSkew): boolean =>
  Math.abs(skewMs) >= SKEWED_MS || spreadMs >= SKEWED_MS;
