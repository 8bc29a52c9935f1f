// Whether sweeps may erase expired rows. They may not erase while the wall clock is in doubt (clock-guard.ts).

export interface EraseGate {
  /** Checked before each step of a sweep. */
  allows(): boolean;
  /** Called whenever erasing is allowed again. Returns a function that unsubscribes. */
  onAllowed(listener: () => void): () => void;
}

/** For stores that no server sweeps. */
export const OPEN_GATE: EraseGate = { allows: () => true, onAllowed: () => () => undefined };
