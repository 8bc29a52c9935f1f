// A reservation in the memory budget of large responses. Port of http/response-memory-budget.ts.

/** One response's part of the memory for large responses (http.max_answering_bytes). */
export interface BufferReservation {
  /**
   * Reserves this many more bytes. Throws ApiError 503 if the budget is full, or 422 if a single response may not use
   * this much.
   */
  reserve(bytes: number): void;
  /** Returns this many bytes to the budget. */
  free(bytes: number): void;
  /** Returns everything. */
  release(): void;
}
