// Tokens of links that may be used once: to choose a new password, to show that an address is one's own or is to be.

export const TOKEN_MS = 3_600_000;

export type TokenPurpose = 'password' | 'email' | 'new-email';

export const TOKEN_PURPOSES: readonly TokenPurpose[] = ['password', 'email', 'new-email'];
