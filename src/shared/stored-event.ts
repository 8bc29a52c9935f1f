// An event in the log of a background response. Crosses threads as plain data.

/** One event of a background response, as sent. */
export interface StoredEvent {
  readonly sequence: number;
  readonly type: string;
  readonly data: string;
}
