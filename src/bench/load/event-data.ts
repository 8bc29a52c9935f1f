// Server-sent events cut out of pieces of bytes: the data of each, as soon as its line is there. What is not data
// (names, comments) is left out: the dialects name their events within. Per piece: one decoding, no copy of what is whole.

/** A line that has not ended: bounds what is kept. */
const LONGEST_LINE = 64 * 1024 * 1024;
const LINE_FEED = 0x0a;

export class EventData {
  #rest: Buffer[] = [];
  #restBytes = 0;

  /** Throws if a line grows without end. */
  take(piece: Buffer, onData: (data: string) => void): void {
    const end = piece.lastIndexOf(LINE_FEED);
    if (end < 0) {
      this.#keep(piece);
      return;
    }
    const whole =
      this.#restBytes === 0
        ? piece.toString('utf8', 0, end)
        : Buffer.concat([...this.#rest, piece.subarray(0, end)]).toString('utf8');
    this.#rest = [];
    this.#restBytes = 0;
    if (end + 1 < piece.length) this.#keep(piece.subarray(end + 1));
    for (let from = 0; from <= whole.length; ) {
      let to = whole.indexOf('\n', from);
      if (to < 0) to = whole.length;
      if (whole.startsWith('data:', from)) {
        const start = whole[from + 5] === ' ' ? from + 6 : from + 5;
        onData(whole.slice(start, whole[to - 1] === '\r' ? to - 1 : to));
      }
      from = to + 1;
    }
  }

  /** The bytes are the socket's: they are good for longer than a call, as Node gives each piece its own. */
  #keep(piece: Buffer): void {
    this.#restBytes += piece.length;
    if (this.#restBytes > LONGEST_LINE) throw new Error(`a line of more than ${LONGEST_LINE} bytes`);
    this.#rest.push(piece);
  }
}
