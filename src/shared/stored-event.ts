// An event in the log of a background response. Passed between threads as plain data.

/** An event of a background response, as it was sent to the client. */
export interface StoredEvent {
  readonly sequence: number;
  readonly type: string;
  readonly data: string;
}
