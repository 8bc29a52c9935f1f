// Clock skew, as reported by /readyz and the log.

/** In milliseconds. */
export interface ClockSkew {
  /** How far this machine's clock is ahead of the database's. */
  readonly skewMs: number;
  /** The widest difference between the clocks of two threads that share the database, this one included. */
  readonly spreadMs: number;
  /** Number of threads whose clocks are known. */
  readonly threads: number;
}

/** Differences from this value on count as skew. NTP keeps clocks within a fraction of it. */
export const SKEWED_MS = 1_000;

export const isSkewed = ({ skewMs, spreadMs }: ClockSkew): boolean =>
  Math.abs(skewMs) >= SKEWED_MS || spreadMs >= SKEWED_MS;
