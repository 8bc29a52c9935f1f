// Holds a request's body while the request is being authenticated. At most one socket read is buffered before the
// socket is paused. The data is passed to the reader that attaches later. Event-loop thread only.

import type { BodySource, TakePiece } from './transport.js';

export class PausedBody implements BodySource {
  #pieces: { piece: ArrayBuffer | Uint8Array; isLast: boolean }[] = [];
  #take: TakePiece | null = null;

  /**
   * Must be created within the call that receives the request, because data that arrives without a handler is
   * discarded.
   */
  constructor(private readonly source: BodySource) {
    source.onData((piece, isLast) => {
      if (this.#take !== null) {
        this.#take(piece, isLast);
        return;
      }
      this.#pieces.push({ piece: piece.slice(0), isLast }); // the library owns the memory
      if (!isLast) source.pause();
    });
  }

  onData(take: TakePiece): void {
    const held = this.#pieces.splice(0);
    this.#take = take;
    for (const { piece, isLast } of held) take(piece, isLast);
    if (held.length > 0 && held.at(-1)?.isLast === false) this.source.resume();
  }

  /** Discards the body without reading it. */
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
