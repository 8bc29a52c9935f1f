// What went wrong with the database, as those who asked are to see it. Pure.

import { apiError } from '../../shared/errors.js';
import type { ApiError } from '../../shared/errors.js';

interface PostgresError {
  code?: unknown;
  severity?: unknown;
  message?: unknown;
}

const codeOf = (error: unknown): string => {
  const { code } = (error ?? {}) as PostgresError;
  return typeof code === 'string' ? code : '';
};

/** An answer of the database, rather than of the way to it. */
export const isAnswer = (error: unknown): boolean =>
  /^[0-9A-Z]{5}$/.test(codeOf(error)) && typeof (error as PostgresError).severity === 'string';

/** Two transactions were in each other's way: what was asked may be asked again, nothing of it is there. */
export const isConflict = (error: unknown): boolean =>
  isAnswer(error) && (codeOf(error) === '40001' || codeOf(error) === '40P01');

/** A lock was not to be had in the time that `lock_timeout` allows: nothing of the transaction is there. */
export const isLockTimeout = (error: unknown): boolean => isAnswer(error) && codeOf(error) === '55P03';

/** A row with such a key is there already. */
export const isDuplicate = (error: unknown): boolean => isAnswer(error) && codeOf(error) === '23505';

// SQLSTATE classes of what passes, or what an operator can change: connections, authorization, resources, an operator's
// intervention, the system below; and a standby that takes no writes (25006), a database or a right that is gone.
const OPERATORS_CLASSES = new Set(['08', '28', '53', '57', '58', '3D', 'XX']);
const OPERATORS_CODES = new Set(['25006', '42501', '40001', '40P01', '55P03']);

/** Whether the failure is of the database or the way to it, and not of what it was asked. */
export const isUnavailable = (error: unknown): boolean =>
  !isAnswer(error) || OPERATORS_CLASSES.has(codeOf(error).slice(0, 2)) || OPERATORS_CODES.has(codeOf(error));

/** A connection after which nothing can be asked on it any more. */
export const isBroken = (error: unknown): boolean => !isAnswer(error) || /^(08|57P)/.test(codeOf(error));

/** 503. The reason is the operator's, and stays with `cause`. */
export const unavailable = (cause: unknown): ApiError =>
  apiError('maintenance', 'The server cannot reach its database at the moment.', null, { cause });

/** The reason in words, without what only the operator of the database may know. */
export function reasonOf(error: unknown): string {
  const { message } = (error ?? {}) as PostgresError;
  const inner = error instanceof AggregateError ? error.errors.map((one: unknown) => reasonOf(one)).join('; ') : '';
  const text = typeof message === 'string' && message !== '' ? message : inner === '' ? String(error) : inner;
  const code = codeOf(error);
  return isAnswer(error) && code !== '' ? `${text} (${code})` : text;
}
