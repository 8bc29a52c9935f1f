// How many tokens something has, as far as it is known.

/** Not `exact`: an estimate, which may be off in either direction. */
export interface TokenCount {
  readonly tokens: number;
  readonly exact: boolean;
}

export const exactly = (tokens: number): TokenCount => ({ tokens, exact: true });
