// Port for temporary engine settings ("holds"), see docs/internals/storage.md. A hold applies trial settings to an
// engine until a deadline that its holder extends. The persistent settings are restored when the holder releases it,
// stops extending it, or an operator changes a setting. Holds do not survive a server restart.

import type { EngineValues } from './engine-settings-store.js';

export interface SettingsLease {
  readonly engine: string;
  /** Chosen by the holder. */
  readonly id: string;
  /** Override the persistent settings. */
  readonly values: EngineValues;
  /** Milliseconds since 1970. */
  readonly until: number;
}

export const MAX_HOLD_S = 600;

/**
 * Whether the hold has ended. A deadline further away than the maximum means that the clock was ahead when the hold was
 * taken, so it has ended too.
 */
export const isOver = ({ until }: Pick<SettingsLease, 'until'>, now: number): boolean =>
  until <= now || until > now + MAX_HOLD_S * 1000;

export interface SettingsLeases {
  /**
   * Takes a hold if `isNew`, otherwise extends it. Resolves to false if another hold is on the engine, or this one has
   * ended.
   */
  take(hold: SettingsLease, isNew: boolean, now: number): Promise<boolean>;
  /** The engine's hold; null: none. */
  of(engine: string): Promise<SettingsLease | null>;
  /** `id` null: any holder's. Resolves to whether there was one. */
  end(engine: string, id: string | null): Promise<boolean>;
  /** Ends all holds past their deadline (Infinity: all holds) and resolves to them. */
  endPast(now: number): Promise<SettingsLease[]>;
}
