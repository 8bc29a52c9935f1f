// Whether sweeps may erase expired rows. Erasing is suspended while the wall clock is in doubt (clock-guard.ts).

export interface EraseGate {
  /** Checked before each step of a sweep. */
  allows(): boolean;
  /** Calls the listener whenever erasing is allowed again. Returns a function that unsubscribes it. */
  onAllowed(listener: () => void): () => void;
}

/** Always allows erasing. For stores that no server sweeps. */
export const OPEN_GATE: EraseGate = { allows: () => true, onAllowed: () => () => undefined };
