// Port for temporary engine settings ("holds"), see docs/internals/storage.md. A hold applies trial settings to an
// engine until a deadline that its holder can extend. The persistent settings are restored when the holder releases the
// hold or stops extending it, or when an operator changes a setting. Holds do not survive a server restart.

import type { EngineValues } from './engine-settings-store.js';

export interface SettingsLease {
  readonly engine: string;
  /** Chosen by the holder. */
  readonly id: string;
  /** Override the persistent settings. */
  readonly values: EngineValues;
  /** Milliseconds since the Unix epoch. */
  readonly until: number;
}

export const MAX_HOLD_S = 600;

/**
 * Whether the hold has ended. A deadline further in the future than the maximum means that the clock was ahead when the
 * hold was taken, so such a hold counts as ended.
 */
export const isOver = ({ until }: Pick<SettingsLease, 'until'>, now: number): boolean =>
  until <= now || until > now + MAX_HOLD_S * 1000;

export interface SettingsLeases {
  /**
   * Takes a hold if `isNew`, otherwise extends it. Resolves to false if the engine has another hold or this one has
   * ended.
   */
  take(hold: SettingsLease, isNew: boolean, now: number): Promise<boolean>;
  /** The engine's hold; null: none. */
  of(engine: string): Promise<SettingsLease | null>;
  /** Releases the hold with this id, or any hold if `id` is null. Resolves to whether there was one. */
  end(engine: string, id: string | null): Promise<boolean>;
  /** Ends all holds past their deadline (Infinity: all holds). Resolves to the holds that it ended. */
  endPast(now: number): Promise<SettingsLease[]>;
}
