// The body of a request while it is not known yet who sends it: what comes is kept, one read of the socket at most,
// and given to whoever reads the body then. Event-loop thread only.

type Take = (piece: ArrayBuffer, isLast: boolean) => void;

/** What reading a body takes of the library's response. */
export interface BodySource {
  onData(take: Take): unknown;
  pause(): unknown;
  resume(): unknown;
}

export class HeldBody implements BodySource {
  #pieces: { piece: ArrayBuffer; isLast: boolean }[] = [];
  #take: Take | null = null;

  /** Within the route callback of the library: later it would have thrown away what has come. */
  constructor(private readonly source: BodySource) {
    source.onData((piece, isLast) => {
      if (this.#take !== null) {
        this.#take(piece, isLast);
        return;
      }
      this.#pieces.push({ piece: piece.slice(0), isLast }); // the memory is the library's
      if (!isLast) source.pause();
    });
  }

  onData(take: Take): void {
    const held = this.#pieces.splice(0);
    this.#take = take;
    for (const { piece, isLast } of held) take(piece, isLast);
    if (held.length > 0 && held.at(-1)?.isLast === false) this.source.resume();
  }

  /** Nobody is going to read it. */
  drop(): void {
    this.onData(() => undefined);
  }

  pause(): void {
    this.source.pause();
  }

  resume(): void {
    this.source.resume();
  }
}
