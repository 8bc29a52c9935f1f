// Classifies database errors, and converts them to errors for clients. No side effects.

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

/** Whether the database sent the error, as opposed to a connection error. */
export const isAnswer = (error: unknown): boolean =>
  /^[0-9A-Z]{5}$/.test(codeOf(error)) && typeof (error as PostgresError).severity === 'string';

/** Whether two transactions conflicted. This transaction was rolled back and can be repeated. */
export const isConflict = (error: unknown): boolean =>
  isAnswer(error) && (codeOf(error) === '40001' || codeOf(error) === '40P01');

/** Whether a lock was not granted within `lock_timeout`. The transaction was rolled back. */
export const isLockTimeout = (error: unknown): boolean => isAnswer(error) && codeOf(error) === '55P03';

/** Whether a row with this key already exists. */
export const isDuplicate = (error: unknown): boolean => isAnswer(error) && codeOf(error) === '23505';

// SQLSTATE classes of errors that are transient or that an operator can fix: connections, authorization, resources,
// operator intervention, system errors; also a standby server that does not accept writes (25006), and a missing
// database or privilege.
const OPERATORS_CLASSES = new Set(['08', '28', '53', '57', '58', '3D', 'XX']);
const OPERATORS_CODES = new Set(['25006', '42501', '40001', '40P01', '55P03']);

/** Whether the database or the connection failed, as opposed to an error in the statement. */
export const isUnavailable = (error: unknown): boolean =>
  !isAnswer(error) || OPERATORS_CLASSES.has(codeOf(error).slice(0, 2)) || OPERATORS_CODES.has(codeOf(error));

/** Whether the connection is unusable after this error. */
export const isBroken = (error: unknown): boolean => !isAnswer(error) || /^(08|57P)/.test(codeOf(error));

/** The 503 error. The reason is only for the operator and is stored in `cause`. */
export const unavailable = (cause: unknown): ApiError =>
  apiError('maintenance', 'The server cannot reach its database right now.', null, { cause });

/** Returns the reason as text, without details that only the database's operator may see. */
export function reasonOf(error: unknown): string {
  const { message } = (error ?? {}) as PostgresError;
  const inner = error instanceof AggregateError ? error.errors.map((one: unknown) => reasonOf(one)).join('; ') : '';
  const text = typeof message === 'string' && message !== '' ? message : inner === '' ? String(error) : inner;
  const code = codeOf(error);
  return isAnswer(error) && code !== '' ? `${text} (${code})` : text;
}
