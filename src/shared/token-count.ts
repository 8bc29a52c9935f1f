// A token count and whether it is exact.

/** Unless `exact`, `tokens` is an estimate that may be too high or too low. */
export interface TokenCount {
  readonly tokens: number;
  readonly exact: boolean;
}

export const exactly = (tokens: number): TokenCount => ({ tokens, exact: true });
