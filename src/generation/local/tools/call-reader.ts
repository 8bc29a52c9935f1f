// Reads one tool call from a model's output text. Each syntax has its own reader; all of them emit the same events. No
// side effects.

/** Receives a call in this order: started, arguments as they arrive, finished. */
export interface CallSink {
  started(name: string): void;
  /** The concatenated deltas form a JSON object or a prefix of one. */
  arguments(text: string): void;
  finished(complete: boolean): void;
}

/**
 * - `reading`: the call continues or has not started yet.
 * - `complete`: the call has ended and was emitted in full.
 * - `foreign`: the text is not a call of one of the tools; nothing was emitted.
 * - `broken`: the emitted text is the beginning of a call that cannot be completed.
 */
export type CallState = 'reading' | 'complete' | 'foreign' | 'broken';

export interface CallReader {
  readonly state: CallState;
  /** Whether started() was emitted. */
  readonly started: boolean;
  /** Whether the end of the call also closes the section and is consumed with it. */
  readonly closes?: boolean;
  /**
   * Reads from `text[at]` while in state `reading` and returns the index after the consumed text. The result does not
   * depend on where the text is split.
   */
  read(text: string, at: number): number;
}

/** The tools that may be called: name → schema of the parameters. */
export type CallableTools = ReadonlyMap<string, Readonly<Record<string, unknown>> | null>;

/**
 * Maximum characters that a call holds back: arguments that come before the name, or a value that is emitted as a
 * whole.
 */
export const MAX_HELD = 1 << 20;

/** Returns how many characters at the end of `text` could be the beginning of `marker`. */
export function partialAtEnd(text: string, marker: string): number {
  for (let length = Math.min(marker.length - 1, text.length); length > 0; length--) {
    if (text.endsWith(marker.slice(0, length))) return length;
  }
  return 0;
}
