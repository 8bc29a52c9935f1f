// Whether sweeps may erase expired rows. They may not while the wall clock is in doubt: clock-guard.ts.

export interface EraseGate {
  /** Asked before each step of a sweep. */
  allows(): boolean;
  /** Called whenever erasing is allowed again. Returns how to stop. */
  onAllowed(listener: () => void): () => void;
}

/** For stores that no server sweeps. */
export const OPEN_GATE: EraseGate = { allows: () => true, onAllowed: () => () => undefined };
