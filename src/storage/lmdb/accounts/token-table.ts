// Single-use tokens for links that are valid for an hour, which set a new password or confirm an email address. In the
// `tokens` table: ['hash', SHA-256 of the token] → token, and ['user', user, purpose] → that hash. Only the most recent
// token per user and purpose is valid.

import type { Store, Table } from '../../store.js';
import { walk } from '../../walk.js';
import { invalidLink, newToken, TOKEN_MS, TOKEN_PURPOSES, tokenHash } from '../../../accounts/tokens.js';
import type { Token, TokenPurpose } from '../../../accounts/tokens.js';

export class TokenTable {
  private readonly tokens: Table<Token>;
  private readonly hashes: Table<string>;

  constructor(
    private readonly store: Store,
    private readonly now: () => number = Date.now,
  ) {
    this.tokens = store.table('tokens');
    this.hashes = store.table('tokens');
  }

  /** Must be called within a transaction. The returned token itself is not stored. */
  create(userId: string, purpose: TokenPurpose, mailed: boolean, email?: string): string {
    this.removeOf(userId, purpose);
    const token = newToken();
    const hash = tokenHash(token);
    void this.tokens.put(['hash', hash], {
      userId,
      purpose,
      expiresAt: this.now() + TOKEN_MS,
      mailed,
      ...(email === undefined ? {} : { email }),
    });
    void this.hashes.put(['user', userId, purpose], hash);
    return token;
  }

  /** Throws ApiError 400 invalid_token. */
  find(token: string, purpose: TokenPurpose): Token {
    const found = this.tokens.get(['hash', tokenHash(token)]);
    if (found === undefined || found.purpose !== purpose || found.expiresAt <= this.now()) {
      throw invalidLink();
    }
    return found;
  }

  /** Must be called within a transaction. Like find(), but also invalidates the token. */
  use(token: string, purpose: TokenPurpose): Token {
    const found = this.find(token, purpose);
    this.removeOf(found.userId, purpose);
    return found;
  }

  /** Must be called within a transaction. */
  removeOf(userId: string, purpose: TokenPurpose): void {
    const hash = this.hashes.get(['user', userId, purpose]);
    if (hash === undefined) return;
    void this.tokens.remove(['hash', hash]);
    void this.hashes.remove(['user', userId, purpose]);
  }

  /** Must be called within a transaction. */
  removeAllOf(userId: string): void {
    for (const purpose of TOKEN_PURPOSES) this.removeOf(userId, purpose);
  }

  /** Erases expired tokens, in short transactions. */
  sweep(): Promise<void> {
    return walk(
      this.store,
      this.tokens,
      { from: ['hash'], to: ['hash', '\uffff'] },
      ({ userId, purpose, expiresAt }) => {
        if (expiresAt <= this.now()) this.removeOf(userId, purpose);
      },
    );
  }
}
