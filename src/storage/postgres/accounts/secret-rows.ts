// Secrets that the state made once: the same for every process.

import { randomBytes } from 'node:crypto';
import type { Queryable } from '../database.js';

/** What API keys' hashes are made with; what links of invitations are; the code of the first sign-up, in UTF-8. */
export type SecretName = 'api-keys' | 'invite-key' | 'setup-code';

export async function secretOf(sql: Queryable, name: SecretName): Promise<Buffer | undefined> {
  return (await sql.query<{ value: Buffer }>('SELECT value FROM secrets WHERE name = $1', [name]))[0]?.value;
}

/** Made if there is none; of many who ask at once all get the same. */
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
