// Storage port for the tokens of written calls and reasoning blocks. Losing rows is harmless: the items are then
// tokenized from their text.

/** One item. Its key is unique within the organization; a later item replaces an earlier one with the same key. */
export interface ReplayRow {
  readonly organizationId: string;
  readonly key: string;
  /** Identifies the model whose tokens these are. */
  readonly model: string;
  /** As packed by packTokens(). */
  readonly tokens: Uint8Array;
  /** The stored response that the item belongs to and is erased with. Null: none. */
  readonly responseId: string | null;
  /** Seconds since the Unix epoch. */
  readonly expiresAt: number;
}

export type FoundReplay = Pick<ReplayRow, 'key' | 'model' | 'tokens' | 'expiresAt'>;

export interface ReplayStore {
  /**
   * Stores all rows or none. If an organization exceeds its limit, its rows that expire first are erased, here or by
   * sweep().
   */
  save(rows: readonly ReplayRow[]): Promise<void>;
  /** The organization's rows with these keys that have not expired, in any order. */
  find(organizationId: string, keys: readonly string[]): Promise<readonly FoundReplay[]>;
  eraseResponse(organizationId: string, responseId: string): Promise<void>;
  eraseOrganization(organizationId: string): Promise<void>;
  /** Erases expired rows, and rows over the limit if save() has not. Resolves to their number. */
  sweep(): Promise<number>;
}
