// Port for temporary engine settings ("leases"); see docs/internals/storage.md. A lease applies trial settings to an
// engine until a deadline. The holder can renew the lease. The persistent settings are restored when the holder
// releases the lease or stops renewing it, or when an operator changes a setting. Leases do not survive a server
// restart.

import type { EngineValues } from './engine-settings-store.js';

export interface SettingsLease {
  readonly engine: string;
  /** Chosen by the holder. */
  readonly id: string;
  /** These override the persistent settings. */
  readonly values: EngineValues;
  /** Milliseconds since the Unix epoch. */
  readonly until: number;
}

export const MAX_HOLD_S = 600;

/**
 * Whether the lease has expired. A deadline beyond the maximum lease duration means that the clock was ahead when the
 * lease was taken, so such a lease counts as expired.
 */
export const isOver = ({ until }: Pick<SettingsLease, 'until'>, now: number): boolean =>
  until <= now || until > now + MAX_HOLD_S * 1000;

export interface SettingsLeases {
  /**
   * Takes a lease if `isNew`, otherwise renews it. Resolves to false if another holder has leased the engine or if this
   * lease has expired.
   */
  take(hold: SettingsLease, isNew: boolean, now: number): Promise<boolean>;
  /** The engine's lease; null if there is none. */
  of(engine: string): Promise<SettingsLease | null>;
  /** Releases the lease with this ID, or any lease if `id` is null. Resolves to whether a lease was released. */
  end(engine: string, id: string | null): Promise<boolean>;
  /** Ends all leases that have expired at the given time (Infinity: all leases). Resolves to the ended leases. */
  endPast(now: number): Promise<SettingsLease[]>;
}
