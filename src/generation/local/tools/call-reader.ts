// Reading one tool call out of the text a model writes it in. Every syntax has a reader; what a reader tells
// is the same for all. Pure.

/** A call is told in this order: started, arguments as they come, finished. */
export interface CallSink {
  started(name: string): void;
  /** Joined: JSON text of an object, or the beginning of one. */
  arguments(text: string): void;
  finished(complete: boolean): void;
}

/**
 * - `reading`: the call goes on, or has not begun yet.
 * - `complete`: it is over and was told in full.
 * - `foreign`: this is no call of one of the tools; nothing was told.
 * - `broken`: what was told is the beginning of a call that cannot be completed.
 */
export type CallState = 'reading' | 'complete' | 'foreign' | 'broken';

export interface CallReader {
  readonly state: CallState;
  /** The call has been told as started. */
  readonly started: boolean;
  /** What ends the call is what closes the section, and is taken with it. */
  readonly closes?: boolean;
  /** Reads on from `text[at]` while `reading`; returns the index behind what it took. Any split of a text gives the same. */
  read(text: string, at: number): number;
}

/** The tools that may be called, by name, with their parameters' schema. */
export type CallableTools = ReadonlyMap<string, Readonly<Record<string, unknown>> | null>;

/** What a call holds back at most, in characters: arguments written before the name, a value that is told whole. */
export const MAX_HELD = 1 << 20;

/** Of a text that may go on: how many characters at its end could be the beginning of `marker`. */
export function partialAtEnd(text: string, marker: string): number {
  for (let length = Math.min(marker.length - 1, text.length); length > 0; length--) {
    if (text.endsWith(marker.slice(0, length))) return length;
  }
  return 0;
}
