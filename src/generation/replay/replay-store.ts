// Storage interface for the token IDs of generated tool calls and reasoning blocks ("items"). Losing rows is harmless,
// because items without a row are tokenized from their text.

/**
 * One tool call section or reasoning block. Its key is unique within the organization. A later item replaces an earlier
 * one with the same key.
 */
export interface ReplayRow {
  readonly organizationId: string;
  readonly key: string;
  /** Identifies the model that generated the tokens. */
  readonly model: string;
  /** The token IDs, encoded by packTokens(). */
  readonly tokens: Uint8Array;
  /** The stored response that contains the item; null if there is none. Deleting the response also deletes the item. */
  readonly responseId: string | null;
  /** Seconds since the Unix epoch. */
  readonly expiresAt: number;
}

export type FoundReplay = Pick<ReplayRow, 'key' | 'model' | 'tokens' | 'expiresAt'>;

export interface ReplayStore {
  /**
   * Stores all rows or none. If an organization exceeds its storage limit, its rows with the earliest expiry are
   * erased. A store shared by several processes can exceed the limit by a sixteenth per thread until sweep().
   */
  save(rows: readonly ReplayRow[]): Promise<void>;
  /** Returns the organization's unexpired rows with these keys, in any order. */
  find(organizationId: string, keys: readonly string[]): Promise<readonly FoundReplay[]>;
  eraseResponse(organizationId: string, responseId: string): Promise<void>;
  eraseOrganization(organizationId: string): Promise<void>;
  /**
   * Erases expired rows, and rows above an organization's limit that save() has not erased. Resolves to the number of
   * erased rows.
   */
  sweep(): Promise<number>;
}
