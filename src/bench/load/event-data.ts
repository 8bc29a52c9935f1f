// Extracts the data of server-sent events from chunks of bytes, as soon as a line is complete. Other fields (names,
// comments) are ignored, because the dialects name their events within the data. Each chunk is decoded once, and
// complete lines are not copied.

/** Maximum bytes of an unfinished line. */
const LONGEST_LINE = 64 * 1024 * 1024;
const LINE_FEED = 0x0a;

export class EventData {
  #rest: Buffer[] = [];
  #restBytes = 0;

  /** Throws if a line exceeds the limit. */
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

  /** Keeping the chunk without a copy is safe: Node allocates a separate buffer for each. */
  #keep(piece: Buffer): void {
    this.#restBytes += piece.length;
    if (this.#restBytes > LONGEST_LINE) throw new Error(`a line of more than ${LONGEST_LINE} bytes`);
    this.#rest.push(piece);
  }
}
