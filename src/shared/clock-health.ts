// What /readyz and the log say about clocks.

/** In milliseconds. */
export interface ClockSkew {
  /** How far this machine's clock is ahead of the database's. */
  readonly skewMs: number;
  /** The widest difference between the clocks of two threads that share the database, this one included. */
  readonly spreadMs: number;
  /** Threads whose clocks are known. */
  readonly threads: number;
}

/** From here on clocks count as different; NTP keeps them within a fraction of this. */
export const SKEWED_MS = 1_000;

export const isSkewed = ({ skewMs, spreadMs }: ClockSkew): boolean =>
  Math.abs(skewMs) >= SKEWED_MS || spreadMs >= SKEWED_MS;
