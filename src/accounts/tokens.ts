// Tokens of links that may be used once: to choose a new password, to show that an address is one's own.

export const TOKEN_MS = 3_600_000;

export type TokenPurpose = 'password' | 'email';
