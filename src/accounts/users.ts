// People who sign in: what is stored of one.

export interface User {
  id: string;                  // user_…
  email: string;               // lower case; unique
  name: string;
  /** Encoded with its parameters, see passwords.ts. */
  passwordHash: string;
  emailVerified: boolean;
  operator: boolean;
  locked: boolean;
  createdAt: string;           // RFC 3339
  lastLoginAt: string | null;
}
