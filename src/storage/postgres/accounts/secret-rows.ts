// Secrets that are generated once and shared by all processes.

import { randomBytes } from 'node:crypto';
import type { Queryable } from '../database.js';

/** The HMAC keys for API-key hashes and invitation links, and the setup code for the first sign-up (UTF-8). */
export type SecretName = 'api-keys' | 'invite-key' | 'setup-code';

export async function secretOf(sql: Queryable, name: SecretName): Promise<Buffer | undefined> {
  return (await sql.query<{ value: Buffer }>('SELECT value FROM secrets WHERE name = $1', [name]))[0]?.value;
}

/** Creates the secret if needed. All concurrent callers get the same secret. */
export async function ensureSecret(
  sql: Queryable,
  name: SecretName,
  make = (): Buffer => randomBytes(32),
): Promise<Buffer> {
  const known = await secretOf(sql, name);
  if (known !== undefined) return known;
  await sql.query('INSERT INTO secrets (name, value) VALUES ($1, $2) ON CONFLICT (name) DO NOTHING', [name, make()]);
  return (await secretOf(sql, name)) as Buffer;
}

export async function removeSecret(sql: Queryable, name: SecretName): Promise<void> {
  await sql.query('DELETE FROM secrets WHERE name = $1', [name]);
}
