// A reservation in the memory budget for large responses. Port of http/response-memory-budget.ts.

/** One response's share of the memory for large responses (http.max_answering_bytes). */
export interface BufferReservation {
  /**
   * Reserves this many more bytes. Throws ApiError 503 if the budget is exhausted, or 422 if they exceed the maximum
   * for a single response.
   */
  reserve(bytes: number): void;
  /** Returns this many bytes to the budget. */
  free(bytes: number): void;
  /** Returns all bytes to the budget. */
  release(): void;
}
