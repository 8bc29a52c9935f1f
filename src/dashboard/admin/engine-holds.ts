// An engine that somebody tries settings on: held for a while, prolonged as long as its holder lives, and given back to
// what is kept of it when the holder lets go, is not heard of any more, or an operator sets something. Nothing of a hold
// outlives a start of the server: a port, see docs/internals/storage.md.

import type { EngineValues } from './engine-settings-store.js';

export interface EngineHold {
  readonly engine: string;
  /** Of the holder's own making. */
  readonly id: string;
  /** Before what is kept. */
  readonly values: EngineValues;
  /** Milliseconds since 1970. */
  readonly until: number;
}

export const MOST_HOLD_S = 600;

/** A hold that ends later than any may was made while the clock was ahead: it is over. */
export const isOver = ({ until }: Pick<EngineHold, 'until'>, now: number): boolean =>
  until <= now || until > now + MOST_HOLD_S * 1000;

export interface EngineHolds {
  /** Begins the hold, or with `isNew` false goes on with it. False: another one holds an engine, or this hold is over. */
  take(hold: EngineHold, isNew: boolean, now: number): Promise<boolean>;
  /** Of the engine; null: nobody's. */
  of(engine: string): Promise<EngineHold | null>;
  /** `id` null: whoever's. Resolves to whether there was one. */
  end(engine: string, id: string | null): Promise<boolean>;
  /** Ends what is past its time; Infinity: all. Resolves to those. */
  endPast(now: number): Promise<EngineHold[]>;
}
