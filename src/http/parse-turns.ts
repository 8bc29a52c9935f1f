// Large bodies are parsed one per turn of the event loop, in the order they came: between two of them everybody
// else gets his. Event-loop thread only.

/** A body of fewer bytes costs no more than waiting for a turn would. */
const SMALL_BYTES = 131_072;

export class ParseTurns {
  #waiting: (() => void)[] = [];

  /** Calls `parse`, at once for a body of few bytes; else later, and nothing it throws is caught. */
  take(bytes: number, parse: () => void): void {
    if (bytes < SMALL_BYTES) parse();
    else if (this.#waiting.push(parse) === 1) setImmediate(() => this.#next());
  }

  #next(): void {
    const [parse] = this.#waiting;
    try {
      parse?.();
    } finally {
      this.#waiting.shift();
      if (this.#waiting.length > 0) setImmediate(() => this.#next());
    }
  }
}
