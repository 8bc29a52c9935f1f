// User rows. Functions that write must be called within a transaction (work.ts).

import { newAccountId } from '../../../shared/ids.js';
import type { Queryable } from '../database.js';
import type { User } from '../../../accounts/users.js';
import { dateOf, dateOrNull } from './times.js';

export interface UserRow {
  id: string;
  email: string;
  name: string;
  password_hash: string;
  email_verified: boolean;
  operator: boolean;
  locked: boolean;
  second_factor: boolean;
  created_at: number;
  last_login_at: number | null;
}

export interface NewUser {
  email: string;
  name: string;
  passwordHash: string;
  operator: boolean;
}
type UserPatch = Partial<
  Pick<User, 'name' | 'passwordHash' | 'emailVerified' | 'operator' | 'locked' | 'secondFactor'> & {
    lastLoginAt: number;
  }
>;

const NAMES = [
  'id',
  'email',
  'name',
  'password_hash',
  'email_verified',
  'operator',
  'locked',
  'second_factor',
  'created_at',
  'last_login_at',
];
export const USER_COLUMNS = NAMES.join(', ');

export function userOf(row: UserRow): User {
  return {
    id: row.id,
    email: row.email,
    name: row.name,
    passwordHash: row.password_hash,
    emailVerified: row.email_verified,
    operator: row.operator,
    locked: row.locked,
    secondFactor: row.second_factor,
    createdAt: dateOf(row.created_at),
    lastLoginAt: dateOrNull(row.last_login_at),
  };
}

const first = (rows: readonly UserRow[]): User | undefined => (rows[0] === undefined ? undefined : userOf(rows[0]));

export async function userById(sql: Queryable, id: string): Promise<User | undefined> {
  return first(await sql.query<UserRow>(`SELECT ${USER_COLUMNS} FROM users WHERE id = $1`, [id]));
}

/** `email`: as returned by normalEmail(). */
export async function userWithEmail(sql: Queryable, email: string): Promise<User | undefined> {
  return first(await sql.query<UserRow>(`SELECT ${USER_COLUMNS} FROM users WHERE email = $1`, [email]));
}

/** Whether there are no users yet. */
export async function noUsers(sql: Queryable): Promise<boolean> {
  return (await sql.query('SELECT 1 FROM users LIMIT 1')).length === 0;
}

/** Returns null if the address is taken. Signing up also counts as the first sign-in. */
export async function createUser(
  sql: Queryable,
  { email, name, passwordHash, operator }: NewUser,
): Promise<User | null> {
  const rows = await sql.query<UserRow>(
    `INSERT INTO users (id, email, name, password_hash, operator, created_at, last_login_at) VALUES ($1, $2, $3, $4, $5, $6, $6)
     ON CONFLICT (email) DO NOTHING RETURNING ${USER_COLUMNS}`,
    [newAccountId('user'), email, name, passwordHash, operator, Date.now()],
  );
  return first(rows) ?? null;
}

/** Undefined if not found or deleted. */
export async function changeUser(
  sql: Queryable,
  id: string,
  { name, passwordHash, emailVerified, operator, locked, secondFactor, lastLoginAt }: UserPatch,
): Promise<User | undefined> {
  return first(
    await sql.query<UserRow>(
      `UPDATE users SET name = coalesce($2, name), password_hash = coalesce($3, password_hash), email_verified = coalesce($4, email_verified),
       operator = coalesce($5, operator), locked = coalesce($6, locked), second_factor = coalesce($7, second_factor), last_login_at = coalesce($8, last_login_at)
     WHERE id = $1 RETURNING ${USER_COLUMNS}`,
      [
        id,
        name ?? null,
        passwordHash ?? null,
        emailVerified ?? null,
        operator ?? null,
        locked ?? null,
        secondFactor ?? null,
        lastLoginAt ?? null,
      ],
    ),
  );
}

/** Undefined if the address is taken, or if the user does not exist or has been deleted. */
export async function changeUserEmail(
  sql: Queryable,
  id: string,
  email: string,
  verified: boolean,
): Promise<User | undefined> {
  return first(
    await sql.query<UserRow>(
      `UPDATE users SET email = $2, email_verified = $3 WHERE id = $1 AND NOT EXISTS (SELECT 1 FROM users WHERE email = $2) RETURNING ${USER_COLUMNS}`,
      [id, email, verified],
    ),
  );
}

export async function removeUser(sql: Queryable, id: string): Promise<void> {
  await sql.query('DELETE FROM users WHERE id = $1', [id]);
}

/** Whether there is another operator who can sign in. */
export async function hasOtherOperator(sql: Queryable, id: string): Promise<boolean> {
  return (await sql.query('SELECT 1 FROM users WHERE operator AND NOT locked AND id <> $1 LIMIT 1', [id])).length > 0;
}
